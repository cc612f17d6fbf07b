"""Evaluation: every method's text is plain decoding's, counted alike."""

import pytest
import torch

from tests import tiny
from treeopt.decode import GREEDY, Answer, Engine, Sampled, Typical
from treeopt.measure import evaluate as module
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import HF_GENERATE, PLAIN, Run, evaluate
from treeopt.model.hf_generate import timed_generate
from treeopt.search.baselines import chain, dense
from treeopt.tree import ROOT

PROMPTS = [
    EncodedPrompt(f"p{n}", "all", tuple((7 * n + 3 * i) % 48 + 2 for i in range(2 * n + 1))) for n in range(4)
]
TREES = {"chain": chain(3), "dense": dense([3, 2])}


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Sampled(2.0, top_p=0.8, top_k=9)])
def test_all_methods_give_the_same_text_and_are_counted_alike(family, rule):
    model, options = tiny.backbone(family), {"rule": rule, "seed": 4}
    runs = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, **options)
    assert [run.name for run in runs] == [PLAIN, "chain", "dense", HF_GENERATE]
    assert [run.tree for run in runs] == [ROOT, *TREES.values(), ROOT]
    texts = [tiny.plain_by_hand(model, p.ids, 15, p.id, **options) for p in PROMPTS]
    for run in runs:
        assert [answer.tokens for answer in run.answers] == texts and run.divergences == []
        assert [answer.ended for answer in run.answers] == [
            "eos" if text[-1] == tiny.END else "limit" for text in texts
        ]
        assert run.emitted == sum(map(len, texts)) == sum(sum(a.step_tokens) for a in run.answers)
        assert run.seconds > 0
    plain, _, _, theirs = runs
    assert plain.steps == theirs.steps == plain.emitted and plain.tokens_per_step == 1


def test_typical_acceptance_stands_beside_greedy_decoding_and_is_not_compared():
    """A loose threshold takes whatever is drafted: fewer steps, another text, which is no divergence."""
    model, rule = tiny.backbone(), Typical(2.0, 1e-3, 1e-3)
    runs = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, rule=rule)
    plain, chained, _, theirs = runs
    for run in (plain, theirs):
        assert [a.tokens for a in run.answers] == [tiny.plain_by_hand(model, p.ids, 15) for p in PROMPTS]
        assert run.divergences == []
    assert [run.compared for run in runs] == [True, False, False, True]
    assert [a.tokens for a in chained.answers] != [a.tokens for a in plain.answers]
    greedy = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, hf_generate=False)
    assert chained.tokens_per_step > greedy[1].tokens_per_step


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_reports_where_it_parts_from_plain_decoding(dtype):
    """Rounding decides between near equals there: whatever parts does so by little, and says by how much."""
    model, prompts = (
        tiny.wrap(tiny.random_model(dtype=dtype)),
        [
            EncodedPrompt(f"p{n}", "all", tuple((7 * n + 3 * i) % 48 + 2 for i in range(n + 1)))
            for n in range(9)
        ],
    )
    for run in evaluate(model, tiny.heads_for(model), {"dense": dense([3, 2])}, prompts, max_new_tokens=60):
        parted = {found.id for found in run.divergences}
        assert run.name == "dense" or not parted
        for found in run.divergences:
            assert 0 <= found.position < 60 and 0 <= found.margin < 0.05


def test_the_figures_of_a_run():
    run = Run("x", ROOT, [Answer([1, 2, 3], [2, 1], "limit", 0.5), Answer([4], [1], "eos", 0.25)])
    assert (run.steps, run.emitted, run.seconds) == (3, 4, 0.75)
    assert (run.tokens_per_step, run.step_ms, run.tokens_per_s) == (4 / 3, 250.0, 4 / 0.75)


def test_methods_take_turns(monkeypatch):
    model, order = tiny.backbone(), []
    decode = Engine.decode

    def noted(self, prompts, names, limit):
        order.append((names[0], self.buffers.tree.size))
        return decode(self, prompts, names, limit)

    monkeypatch.setattr(Engine, "decode", noted)
    evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=2, hf_generate=False)
    untimed, timed = order[:3], order[3:]
    assert [name for name, _ in untimed] == ["p0"] * 3
    assert [name for name, _ in timed] == [p.id for p in PROMPTS for _ in range(3)]
    assert [size for _, size in timed[::3]] == [1, 4, 10, 1], "another one first, prompt by prompt"


def test_a_divergence_is_reported(monkeypatch):
    model = tiny.backbone()
    wrong = lambda *_: ([3, 3], [0.0, 0.1])  # noqa: E731
    monkeypatch.setattr(module, "timed_generate", wrong)
    runs = {r.name: r for r in evaluate(model, None, {}, PROMPTS[:2], max_new_tokens=2)}
    assert not runs[PLAIN].divergences
    assert [found.id for found in runs[HF_GENERATE].divergences] == ["p0", "p1"]


def test_transformers_loop_is_timed_token_by_token():
    model = tiny.backbone()
    tokens, times = timed_generate(model, PROMPTS[2].ids, 9)
    assert tokens == tiny.plain_by_hand(model, PROMPTS[2].ids, 9)
    assert len(times) == len(tokens) and times == sorted(times)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.8},
        {"no_repeat_ngram_size": 1},
        {"suppress_tokens": [25, 20]},
        {"min_new_tokens": 8, "eos_token_id": 1},
        {"do_sample": True, "temperature": 0.1, "top_k": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_models_own_generation_settings_do_not_bend_the_comparison(settings):
    """Instruct models come with penalties, which neither the engine nor a runtime of tree decoding applies."""
    model = tiny.wrap(tiny.random_model())
    model.model.generation_config.update(**settings)
    before = model.model.generation_config.to_dict()
    for prompt in PROMPTS:
        assert timed_generate(model, prompt.ids, 12)[0] == tiny.plain_by_hand(model, prompt.ids, 12)
    assert model.model.generation_config.to_dict() == before


def test_a_long_prompt_is_cut_at_the_context_limit():
    model = tiny.backbone("gpt2")
    prompt = EncodedPrompt("long", "all", tuple((5 * i) % 48 + 2 for i in range(tiny.LIMIT - 4)))
    runs = evaluate(model, tiny.heads_for(model), TREES, [prompt], max_new_tokens=50)
    assert {len(run.answers[0].tokens) for run in runs} == {4} and not any(run.divergences for run in runs)
