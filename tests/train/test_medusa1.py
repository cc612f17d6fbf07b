"""Medusa-1: heads learn what stands at their own offset, and the backbone stays as it is."""

import json
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests import tiny
from treeopt.errors import InputError
from treeopt.measure.calibrate import calibrate
from treeopt.measure.generations import Generation
from treeopt.model.checkpoints import load_heads, save_heads
from treeopt.search.ranks import UNKNOWN
from treeopt.train import medusa1
from treeopt.train.losses import medusa1_loss
from treeopt.train.medusa1 import Examples, Medusa1Settings, collect, cosine, held_out_figures, train_medusa1

FAST = Medusa1Settings(heads=3, epochs=40, learning_rate=3e-2, batch_size=32, held_out=0.2)


def cyclic(count=10, length=20):
    """Answers of Cycle."""
    return [
        Generation(f"p{n}", "all", 0, [n % 7], [(n + 1 + i) % 7 for i in range(length)], "limit")
        for n in range(count)
    ]


def log_of(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("layers", [1, 2])
def test_each_head_learns_the_token_at_its_own_offset(layers, tmp_path):
    """Head k is right about the token k places after the root, all the time."""
    model = tiny.cycle()
    settings = Medusa1Settings(
        heads=3, layers=layers, epochs=40, learning_rate=3e-2, batch_size=32, held_out=0.2
    )
    heads = train_medusa1(model, cyclic(), settings, tmp_path / "log.jsonl")
    assert (heads.heads, heads.layers, heads.lm_weight) == (3, layers, None)
    assert calibrate(model, heads, cyclic()).accuracy().values[:, 0].tolist() == [1.0] * 3
    for token in range(7):
        with torch.inference_mode():
            guesses = heads(model.states(torch.tensor([[token]]))[0]).argmax(-1)[:, 0]
        assert guesses.tolist() == [(token + 1 + k) % 7 for k in (1, 2, 3)]
    first, *epochs = log_of(tmp_path / "log.jsonl")
    assert (first["answers"], first["held_out_answers"], first["skipped_answers"]) == (8, 2, 0)
    assert first["positions"] == 8 * 19 and first["steps"] == 40 * 5 and first["model"] == "cycle"
    assert [record["epoch"] for record in epochs] == list(range(1, 41))
    assert epochs[-1]["held_out_top1"] == epochs[-1]["held_out_top5"] == [1.0] * 3
    assert all(
        last < start for start, last in zip(epochs[0]["train_loss"], epochs[-1]["train_loss"], strict=True)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_backbone_stays_as_it_is_bit_for_bit(dtype):
    model = tiny.wrap(tiny.random_model(dtype=dtype))
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    heads = train_medusa1(model, cyclic(), Medusa1Settings(heads=2, epochs=1, batch_size=8))
    after = model.model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert heads.weight.dtype == dtype and not any(p.requires_grad for p in heads.parameters())
    assert not any(parameter.grad is not None for parameter in model.model.parameters())


def test_every_head_gets_a_gradient_in_the_first_step(monkeypatch):
    seen = []
    step = torch.optim.AdamW.step

    def noted(self, *arguments):
        seen.append([parameter.grad.clone() for group in self.param_groups for parameter in group["params"]])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    train_medusa1(tiny.backbone(), cyclic(), Medusa1Settings(heads=4, layers=2, epochs=1, batch_size=64))
    weight, bias = seen[0]
    assert weight.shape[:2] == bias.shape[:2] == (2, 4)
    for gradient in (weight, bias):
        assert torch.isfinite(gradient).all() and (gradient.flatten(2).abs().sum(-1) > 0).all()


def test_training_starts_from_the_language_model_head(monkeypatch):
    first = []

    def noted(logits, truths):
        first.append(logits.detach())
        return medusa1_loss(logits, truths)

    monkeypatch.setattr(medusa1, "medusa1_loss", noted)
    train_medusa1(tiny.cycle(), cyclic(2), Medusa1Settings(heads=2, epochs=1, held_out=0))
    assert torch.equal(first[0][0], first[0][1]) and first[0].abs().sum() > 0


def test_the_same_seed_gives_the_same_heads():
    one, two, other = (
        train_medusa1(tiny.cycle(), cyclic(), Medusa1Settings(heads=2, epochs=2, batch_size=16, seed=seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one.weight, two.weight) and not torch.equal(one.weight, other.weight)


def test_trained_heads_are_saved_and_loaded(tmp_path):
    model = tiny.cycle()
    heads = train_medusa1(model, cyclic(), FAST)
    save_heads(tmp_path, heads, base_model="cycle")
    hidden = torch.randn(4, 8)
    assert torch.equal(load_heads(tmp_path, model)(hidden), heads(hidden))


def test_short_answers_are_skipped_and_counted(tmp_path):
    """One normal answer, one of a single token and one shorter than heads + 2: finite, one skip."""
    made = [
        *cyclic(1),
        Generation("q", "all", 0, [1], [2], "eos"),
        Generation("r", "all", 0, [1], [2, 3], "eos"),
    ]
    settings = Medusa1Settings(heads=5, epochs=2, held_out=0)
    heads = train_medusa1(tiny.cycle(), made, settings, tmp_path / "log.jsonl")
    first, *epochs = log_of(tmp_path / "log.jsonl")
    assert (first["answers"], first["skipped_answers"], first["positions"]) == (2, 1, 19 + 1)
    assert torch.isfinite(heads.weight).all() and torch.isfinite(torch.tensor(epochs[-1]["train_loss"])).all()


@pytest.mark.parametrize("answers", [[], [[2]], [[2], [5]]])
def test_only_short_answers_are_refused(answers):
    made = [Generation(f"p{n}", "all", 0, [1], answer, "eos") for n, answer in enumerate(answers)]
    with pytest.raises(InputError, match="no answer has two tokens or more"):
        train_medusa1(tiny.cycle(), made, Medusa1Settings())


def test_a_log_of_heads_without_held_out_truths_is_still_json(tmp_path):
    made = [Generation(f"p{n}", "all", 0, [n], [n + 1, n + 2], "eos") for n in range(4)]
    train_medusa1(
        tiny.cycle(), made, Medusa1Settings(heads=2, epochs=1, held_out=0.5), tmp_path / "log.jsonl"
    )
    record = log_of(tmp_path / "log.jsonl")[-1]
    assert record["held_out_top1"][1] is None and record["held_out_loss"][0] > 0


def test_rows_without_any_truth_are_left_out():
    model = tiny.cycle()
    examples = collect(model, [Generation("p", "all", 0, [2], [3, 4, 5], "eos")], 3)
    assert examples.truths.tolist() == [[4, 5], [5, UNKNOWN], [UNKNOWN, UNKNOWN]]
    expected = [model.states(torch.tensor([text]))[0, -1] for text in ([2], [2, 3])]
    torch.testing.assert_close(examples.states, torch.stack(expected).detach())


def test_held_out_figures_are_each_heads_own():
    """Head 1 right on all four, head 2 on one of two: over their own known truths, whatever the batch."""
    model = tiny.cycle()
    truths = torch.tensor([[4, 5, 6, 0], [6, 1, UNKNOWN, UNKNOWN]])
    states = model.states(torch.tensor([[2], [3], [4], [5]]))[:, 0].detach()
    heads = tiny.cycle_heads(2, wrong=(2,))
    for batch_size in (1, 3, 100):
        figures = held_out_figures(heads, Examples(states, truths), batch_size)
        assert figures["held_out_top1"] == [1.0, 0.5]
        losses = cross_entropy(heads(states).flatten(0, 1), truths.flatten().clamp(min=0), reduction="none")
        known = (truths != UNKNOWN).float()
        expected = (losses.reshape(2, 4) * known).sum(1) / known.sum(1)
        assert figures["held_out_loss"] == pytest.approx(expected.tolist(), abs=1e-4)


def test_the_learning_rate_rises_then_falls_along_a_cosine():
    rates = [cosine(step, 100, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert rates[10] == 1.0 and rates[55] == pytest.approx(0.5) and 0 < rates[-1] < 0.001
    assert all(later <= earlier for earlier, later in pairwise(rates[10:]))
    assert cosine(0, 1, 0.05) == 1.0
