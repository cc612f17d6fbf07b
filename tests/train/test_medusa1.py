"""Medusa-1: heads learn what stands at their own offset, and the backbone stays as it is."""

import math
import signal

import pytest
import torch

from tests import tiny
from tests.train.samples import RAGGED, assert_same, cyclic, fresh, log_of, medusa1, note_losses, ragged
from treeopt.errors import InputError
from treeopt.measure.calibrate import calibrate
from treeopt.measure.generations import Generation
from treeopt.model.checkpoints import load_heads, save_heads
from treeopt.train.data import split_answers
from treeopt.train.medusa1 import HeadSettings, new_heads

FAST = {"epochs": 20, "learning_rate": 3e-2}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_each_head_learns_the_token_at_its_own_offset(layers, own, tmp_path):
    """Head k is right about the token k places after the root, all the time."""
    model, shape = tiny.cycle(), {"heads": 3, "layers": layers, "own_lm_head": own}
    heads = medusa1(model, cyclic(), tmp_path, shape, **FAST)
    assert (heads.heads, heads.layers, heads.lm_weight is not None) == (3, layers, own)
    assert calibrate(model, heads, cyclic()).accuracy().values[:, 0].tolist() == [1.0] * 3
    for token in range(7):
        with torch.inference_mode():
            guesses = heads(model.states(torch.tensor([[token]]))[0]).argmax(-1)[:, 0]
        assert guesses.tolist() == [(token + 1 + k) % 7 for k in (1, 2, 3)]
    facts, records = log_of(tmp_path)
    assert {name: facts[name] for name in shape} == shape and facts["model"] == "cycle"
    assert (facts["answers"], facts["held_out_answers"], facts["skipped_answers"]) == (8, 2, 0)
    assert facts["answer_tokens"] == 8 * 20
    assert {record["stage"] for record in records} == {"medusa1"}
    assert records[-1]["held_out_top1"] == records[-1]["held_out_top5"] == [1.0] * 3
    losses = [record["train_loss"] for record in records if "train_loss" in record]
    assert all(last < first for first, last in zip(losses[0], losses[-1], strict=True))


@pytest.mark.parametrize("precompute", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_backbone_stays_as_it_is_bit_for_bit(dtype, precompute, tmp_path):
    model = fresh(dtype=dtype)
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    heads = medusa1(model, RAGGED, tmp_path, precompute=precompute, learning_rate=0.1)
    after = model.model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert not any(parameter.grad is not None for parameter in model.model.parameters())
    assert heads.weight.dtype == dtype and heads.weight.abs().sum() > 0
    assert not heads.training and not any(p.requires_grad for p in heads.parameters())


@pytest.mark.parametrize("own", [False, True])
def test_every_head_gets_a_gradient_in_the_first_step(own, tmp_path, monkeypatch):
    seen = []
    step = torch.optim.AdamW.step

    def noted(self, *arguments, **options):
        seen.append([parameter.grad.clone() for group in self.param_groups for parameter in group["params"]])
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    medusa1(fresh(), RAGGED, tmp_path, {"heads": 3, "layers": 2, "own_lm_head": own})
    weight, bias, *lm_weight = seen[0]
    assert weight.shape[:2] == bias.shape[:2] == (2, 3) and len(lm_weight) == own
    for gradient in (weight, bias, *(part[None] for part in lm_weight)):
        assert torch.isfinite(gradient).all() and (gradient.flatten(2).abs().sum(-1) > 0).all()


@pytest.mark.parametrize("own", [False, True])
def test_untrained_heads_repeat_the_language_model_head(own):
    model = fresh()
    heads = new_heads(model, HeadSettings(heads=2, layers=2, own_lm_head=own))
    hidden = torch.randn(5, model.hidden_size)
    for scores in heads(hidden):
        torch.testing.assert_close(scores, model.logits(hidden))
    if own:
        assert heads.lm_weight is not None and torch.equal(heads.lm_weight[1], model.lm_head.weight)
        assert heads.lm_weight.data_ptr() != model.lm_head.weight.data_ptr(), "a copy"


def test_a_frozen_backbone_drops_nothing_out(tmp_path, monkeypatch):
    """The loss of one step is that of hidden states which were computed in evaluation mode."""
    seen = note_losses(monkeypatch)
    for number, precompute in enumerate([True, False, False]):
        model = fresh("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
        medusa1(model, RAGGED, tmp_path / str(number), {"held_out": 0}, precompute=precompute, batch_size=8)
    assert seen == pytest.approx([seen[0]] * 3, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_computed_before_give_the_same_losses_and_heads(dtype, tmp_path, monkeypatch):
    found = []
    for precompute in (True, False):
        directory = tmp_path / str(precompute)
        seen = note_losses(monkeypatch)
        heads = medusa1(fresh(dtype=dtype), RAGGED, directory, precompute=precompute, epochs=3)
        found.append((seen[:], heads, log_of(directory)))
        assert (directory / "states.bin").is_file() == precompute
        monkeypatch.undo()
    (losses, heads, (facts, records)), (losses_2, heads_2, (facts_2, records_2)) = found
    tolerance = 1e-5 if dtype == torch.float32 else 0.02  # of other shapes, so rounded otherwise
    assert losses_2 == pytest.approx(losses, rel=tolerance) and len(losses) == 9
    torch.testing.assert_close(heads_2.weight, heads.weight, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(heads_2.bias, heads.bias, rtol=tolerance, atol=tolerance)
    assert facts == facts_2
    assert_same(records, records_2, rel=tolerance, abs=2 * tolerance)  # they are rounded to 1e-5


def test_the_same_seed_gives_the_same_heads(tmp_path):
    one, two, other = (
        medusa1(tiny.cycle(), cyclic(), tmp_path / name, {"held_out": 0}, seed=seed)
        for name, seed in {"a": 1, "b": 1, "c": 2}.items()
    )
    assert torch.equal(one.weight, two.weight) and not torch.equal(one.weight, other.weight)


def test_trained_heads_are_saved_and_loaded(tmp_path):
    model = tiny.cycle()
    heads = medusa1(model, cyclic(), tmp_path / "training")
    save_heads(tmp_path, heads, base_model="cycle")
    hidden = torch.randn(4, 8)
    assert torch.equal(load_heads(tmp_path, model)(hidden), heads(hidden))


def test_short_answers_are_skipped_and_counted(tmp_path):
    """One normal answer, one of a single token and one shorter than heads + 2: finite, two skips."""
    short = [Generation("q", "all", 0, [1], [2], "eos"), Generation("r", "all", 0, [1], [2, 3, 4], "eos")]
    heads = medusa1(tiny.cycle(), [*short, *cyclic(1)], tmp_path, {"held_out": 0}, epochs=2)
    facts, records = log_of(tmp_path)
    assert (facts["answers"], facts["held_out_answers"], facts["skipped_answers"]) == (1, 0, 2)
    assert torch.isfinite(heads.weight).all() and len(records) == 2
    assert all(math.isfinite(loss) for record in records for loss in record["train_loss"])


@pytest.mark.parametrize("answers", [[], [[2]], [[2], [5, 3, 4]]])
def test_only_short_answers_are_refused(answers, tmp_path):
    made = [Generation(f"p{n}", "all", 0, [1], answer, "eos") for n, answer in enumerate(answers)]
    with pytest.raises(InputError, match=f"none of {len(made)} answers has the 4 tokens that 2 heads learn"):
        medusa1(tiny.cycle(), made, tmp_path / "training")
    assert not (tmp_path / "training").exists()


def test_held_out_figures_are_each_heads_own(tmp_path):
    """Of the last record, over a loop: the known truths of the held-out answers, whatever the batch."""
    model, made = fresh(), ragged([(n % 3 + 1, 4 + n % 5) for n in range(12)])
    heads = medusa1(model, made, tmp_path, {"heads": 2, "held_out": 0.5}, epochs=2, batch_size=4, seed=3)
    held_out = split_answers(made, heads=2, held_out=0.5, context_limit=99, seed=3).held_out
    losses: list[list[float]] = [[], [], []]
    ranks: list[list[int]] = [[], [], []]
    for answer in held_out:
        for offset in range(len(answer.answer_ids)):
            text = torch.tensor([answer.prompt_ids + answer.answer_ids[:offset]])
            with torch.inference_mode():
                state = model.states(text)[0, -1]
                guesses = [model.logits(state), *heads(state[None])[:, 0]]
            for k, (scores, truth) in enumerate(zip(guesses, answer.answer_ids[offset:], strict=False)):
                losses[k].append(-float(scores.log_softmax(-1)[truth]))
                ranks[k].append(int((scores > scores[truth]).sum()))
    last = log_of(tmp_path)[1][-1]
    for name, expected in {
        "loss": [sum(row) / len(row) for row in losses],
        "top1": [sum(rank < 1 for rank in row) / len(row) for row in ranks],
        "top5": [sum(rank < 5 for rank in row) / len(row) for row in ranks],
    }.items():
        found = [last[f"held_out_lm_{name}"], *last[f"held_out_{name}"]]
        assert found == pytest.approx(expected, abs=2e-5), name


def test_the_learning_rate_rises_then_falls_along_a_cosine(tmp_path):
    medusa1(tiny.cycle(), cyclic(8), tmp_path, {"held_out": 0}, epochs=10, learning_rate=1.0, lr_warmup=0.1)
    rates = [record["learning_rate"] for record in log_of(tmp_path)[1]]
    rising = [step / 4 for step in range(4)]
    falling = [(1 + math.cos(math.pi * step / 36)) / 2 for step in range(36)]
    assert rates == pytest.approx(rising + falling)


def test_a_loss_that_is_no_number_is_an_error_and_ctrl_c_is_given_back(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(InputError, match=r"the loss of step \d+ is (nan|inf); lower --learning-rate"):
        medusa1(fresh(), RAGGED, tmp_path, learning_rate=1e37, epochs=9)
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("precompute", [False, True])
def test_batches_that_make_up_a_step_are_one_batch(precompute, tmp_path, monkeypatch):
    """Each loss is divided by the truths of the whole step, so long and short answers weigh what they do together."""
    made, found = ragged([(n % 3 + 1, 4 + 2 * n % 9) for n in range(16)]), []
    for batch_size, accumulate in ((4, 1), (2, 2), (1, 4)):
        directory = tmp_path / str(batch_size)
        settings = {"batch_size": batch_size, "accumulate": accumulate, "epochs": 2, "learning_rate": 1e-2}
        heads = medusa1(fresh(), made, directory, precompute=precompute, **settings)
        found.append((heads, log_of(directory)[1]))
    (heads, records), *others = found
    for other, their_records in others:
        torch.testing.assert_close(other.weight, heads.weight, rtol=1e-5, atol=1e-5)
        assert_same(records, their_records, rel=1e-5, abs=2e-5)


def test_mixed_precision_stays_near_full_precision(tmp_path):
    full = medusa1(tiny.cycle(), cyclic(), tmp_path / "full", **FAST)
    mixed = medusa1(tiny.cycle(), cyclic(), tmp_path / "mixed", **FAST, precision="bfloat16")
    assert mixed.weight.dtype == torch.float32 and not torch.equal(full.weight, mixed.weight)
    assert calibrate(tiny.cycle(), mixed, cyclic()).accuracy().values[:, 0].tolist() == [1.0] * 2


def test_float16_on_a_cpu_is_refused(tmp_path):
    with pytest.raises(InputError, match="--precision float16 needs a GPU; take bfloat16"):
        medusa1(tiny.cycle(), cyclic(), tmp_path / "training", precision="float16")
    assert not (tmp_path / "training").exists()
