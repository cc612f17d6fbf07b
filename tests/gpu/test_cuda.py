"""The chain on a GPU: the same steps as on the CPU, half precision that reports where it parts, CUDA events."""

import json
import math

import pytest
import torch

from tests import tiny
from treeopt.decode import GREEDY, Engine, Sampled
from treeopt.measure.agreement import EXCUSED_MARGIN
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import evaluate
from treeopt.measure.generate import generate
from treeopt.measure.profile import StepClock, profile
from treeopt.model.checkpoints import load_heads, save_heads
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.replay import replay
from treeopt.train.medusa1 import HeadSettings, train_medusa1
from treeopt.train.medusa2 import LoraSettings, train_medusa2
from treeopt.train.trainer import LoopSettings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CUDA = "cuda"
PROMPTS = [
    EncodedPrompt(f"p{n}", "ab"[n % 2], tuple((7 * n + 3 * i) % 48 + 2 for i in range(n % 5 + 1)))
    for n in range(12)
]


def on_gpu(family="llama", dtype=torch.float32):
    return tiny.wrap(tiny.random_model(family, dtype).to(CUDA), family)


def chain(model, directory, rule=GREEDY):
    """Generate, calibrate, grow: the answers, the heads, the rank table and a tree of up to 16 nodes."""
    made = generate(model, PROMPTS, directory / "generations.jsonl", max_new_tokens=40, rule=rule, seed=5)
    heads = tiny.heads_for(model)
    table = calibrate(model, heads, made, width=12)
    growth = grow(Independent(table.accuracy()), 16)
    return made, heads, table, growth.tree(min(growth.size, 16))


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Sampled(2.0, top_p=0.8, top_k=9)])
def test_float32_decodes_as_plain_decoding_and_as_replayed(family, rule, tmp_path):
    model = on_gpu(family)
    made, heads, table, tree = chain(model, tmp_path, rule)
    options = {"max_new_tokens": 40, "rule": rule, "seed": 5}
    for run in evaluate(model, heads, {"tree": tree}, PROMPTS, **options):
        assert all(found.excused for found in run.divergences), (run.name, run.divergences)
        if run.name == "tree" and not run.divergences:
            assert [answer.tokens for answer in run.answers] == [g.answer_ids for g in made]
            assert tuple(tuple(a.step_tokens) for a in run.answers) == replay(table, tree).step_tokens


def test_the_gpu_ranks_as_the_cpu_does(tmp_path):
    model = on_gpu()
    made, heads, table, _ = chain(model, tmp_path)
    on_cpu = calibrate(tiny.backbone(), tiny.heads_for(tiny.backbone()), made, width=12)
    assert heads.weight.device.type == CUDA
    assert (table.ranks == on_cpu.ranks).mean() > 0.99, "but for near ties"


def test_a_ragged_batch_decodes_as_its_prompts_do_alone(tmp_path):
    model = on_gpu()
    _, heads, _, tree = chain(model, tmp_path)
    engine = Engine(model, heads, tree)
    together = engine.decode([p.ids for p in PROMPTS], [p.id for p in PROMPTS], 30)
    for prompt, answer in zip(PROMPTS, together, strict=True):
        alone = engine.decode([prompt.ids], [prompt.id], 30)[0]
        assert (alone.tokens, alone.step_tokens) == (answer.tokens, answer.step_tokens)


def test_after_each_step_the_cache_is_that_of_a_fresh_prefill():
    model = on_gpu("qwen2")
    engine = Engine(model, tiny.heads_for(model), tiny.SAMPLE_TREE)
    texts = [[5, 9, 12], [8, 3, 41, 7, 7, 20, 33, 2, 6]]
    state = engine.start(texts, ["a", "b"], 24)
    for _ in range(6):
        for row, tokens in enumerate(engine.step(state)):
            texts[row] += tokens
            fresh = model.new_cache(1, len(texts[row]))
            with torch.inference_mode():
                model.prefill(texts[row], fresh)
            ours = state.cache.keys[:, row, :, : len(texts[row])]
            assert (ours - fresh.keys[:, 0]).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_reports_where_it_parts_from_plain_decoding(dtype, tmp_path):
    """Rounding decides between near equals; each such place comes with its margin, which is small."""
    model = on_gpu(dtype=dtype)
    _, heads, _, tree = chain(model, tmp_path)
    for run in evaluate(model, heads, {"tree": tree}, PROMPTS, max_new_tokens=40):
        assert len(run.answers) == len(PROMPTS)
        for found in run.divergences:
            print(f"{dtype}, {run.name}: {found.id} parts at {found.position}, margin {found.margin:.2g}")
            assert math.isfinite(found.margin) and 0 <= found.margin < 0.5
            assert found.excused == (found.margin <= EXCUSED_MARGIN)


def test_profiling_uses_cuda_events_and_gives_whole_rows():
    model = on_gpu(dtype=torch.float16)
    clock = StepClock(model.device)
    clock.mark("verify")
    assert all(isinstance(when, torch.cuda.Event) for _, when in clock._marks)
    assert clock.parts()["verify"] >= 0
    rows = profile(
        model,
        tiny.heads_for(model),
        batches=(1, 4),
        contexts=(16, 40),
        sizes=(1, 4, 16),
        repeats=5,
        refine=False,
    )
    found = LatencyProfile.from_rows(rows)
    assert found.settings() == [(1, 16), (1, 40), (4, 16), (4, 40)] and found.sizes(4, 40) == [4, 16]
    steps = [float(row["latency_ms"]) for row in rows if row["part"] == "step"]
    parts = [float(row["latency_ms"]) for row in rows if row["part"] in ("verify", "heads", "accept")]
    assert sum(steps) == pytest.approx(sum(parts)) and min(steps) > 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("precompute", [False, True])
def test_training_leaves_the_backbone_alone_and_its_heads_load(precompute, precision, tmp_path):
    model = on_gpu(dtype=torch.bfloat16)
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    made, *_ = chain(model, tmp_path)
    heads = train_medusa1(
        model,
        made,
        HeadSettings(heads=3, held_out=0.2),
        LoopSettings(epochs=2, batch_size=4, precision=precision),
        tmp_path / "training",
        precompute=precompute,
    )
    assert all(torch.equal(before[name], value) for name, value in model.model.state_dict().items())
    assert heads.weight.abs().sum() > 0
    save_heads(tmp_path, heads, base_model="tiny")
    again = load_heads(tmp_path, model)
    assert again.weight.device.type == CUDA and torch.equal(again.weight, heads.weight)


@pytest.mark.parametrize("lora", [LoraSettings(rank=4), None])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_heads_and_backbone_are_trained_together(precision, lora, tmp_path):
    model = on_gpu()
    made, *_ = chain(model, tmp_path)
    loop = LoopSettings(epochs=2, batch_size=4, lambda_0=0.2, precision=precision)
    heads, adapter = train_medusa2(
        model,
        made,
        HeadSettings(heads=3, held_out=0.2),
        loop,
        loop,
        tmp_path / "training",
        lora=lora,
        self_distill=lora is not None,
        precompute=False,
    )
    assert (adapter is None) == (lora is None) and heads.weight.device.type == CUDA
    records = [json.loads(line) for line in (tmp_path / "training" / "log.jsonl").read_text().splitlines()]
    losses = [record["train_lm_loss"] for record in records if "train_lm_loss" in record]
    assert all(map(math.isfinite, losses))
    assert losses[0] == pytest.approx(0, abs=0.1) if lora else losses[0] > 0
