"""Where two answers part, and by how little."""

import pytest
import torch

from tests import tiny
from treeopt.decode import GREEDY, PositionNoise, Sampled
from treeopt.measure.agreement import EXCUSED_MARGIN, Divergence, first_divergence
from treeopt.measure.encode import EncodedPrompt

PROMPT = EncodedPrompt("p", "all", (4, 9, 2))


def test_equal_answers_do_not_diverge():
    assert first_divergence(tiny.backbone(), PROMPT, [1, 2], [1, 2]) is None


@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.7)])
def test_the_margin_is_that_of_plain_decoding_at_the_first_difference(rule):
    model = tiny.backbone()
    plain = tiny.plain_by_hand(model, PROMPT.ids, 8, "p", rule, 3)
    noise = PositionNoise(3, model.vocabulary) if rule.noisy else None
    for position in (0, 5):
        other = [*plain[:position], (plain[position] + 1) % 50, *plain[position + 1 :]]
        found = first_divergence(model, PROMPT, plain, other, rule, noise)
        assert found is not None and (found.id, found.position) == ("p", position)
        scores = (
            model.model(input_ids=torch.tensor([[*PROMPT.ids, *plain[:position]]])).logits[0, -1].detach()
        )
        if noise is not None:
            scores = scores / rule.temperature + torch.from_numpy(noise.row("p", position))
        first, second = sorted(scores.tolist(), reverse=True)[:2]
        assert int(scores.argmax()) == plain[position]
        assert found.margin == pytest.approx(first - second, abs=1e-4) and not found.excused


def test_a_filter_on_its_edge_excuses_too():
    """The mass at which a nucleus would take one token more or less, to a hair: rounding decides there."""
    model, noise = tiny.backbone(), PositionNoise(3, 50)
    logits = model.model(input_ids=torch.tensor([PROMPT.ids])).logits[0, -1].detach()
    mass = (logits / 2).softmax(-1).sort(descending=True).values.cumsum(-1)
    for top_p, excused in ((float(mass[3]) + 1e-5, True), (float(mass[3] + mass[4]) / 2, False)):
        found = first_divergence(model, PROMPT, [5], [6], Sampled(2.0, top_p=top_p), noise)
        assert found is not None and found.excused == excused


def test_noise_and_name_are_those_of_the_turn():
    model, noise, turn = tiny.backbone(), PositionNoise(3, 50), EncodedPrompt("p", "all", (4, 9, 2), turn=1)
    rule = Sampled(0.7)
    plain = tiny.plain_by_hand(model, turn.ids, 4, "p#1", rule, 3)
    found = first_divergence(model, turn, plain, [*plain[:3], (plain[3] + 1) % 50], rule, noise)
    first = first_divergence(model, PROMPT, plain, [*plain[:3], (plain[3] + 1) % 50], rule, noise)
    assert found is not None and first is not None
    assert (found.id, first.id) == ("p#1", "p") and found.margin != first.margin


def test_a_shorter_answer_diverges_where_it_stops():
    found = first_divergence(tiny.backbone(), PROMPT, [5, 6, 7], [5, 6])
    assert found is not None and found.position == 2


def test_a_divergence_is_excused_only_by_rounding():
    assert Divergence("p", 0, EXCUSED_MARGIN).excused
    assert not Divergence("p", 0, 1.1 * EXCUSED_MARGIN).excused
    assert not Divergence("p", 0, float("nan")).excused
