"""Teacher forcing in padded batches against one answer and one token at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import tiny
from treeopt.errors import InputError
from treeopt.measure import states
from treeopt.measure.generations import Generation
from treeopt.measure.states import answer_states, answer_truths, batches
from treeopt.search.ranks import UNKNOWN


def generations(shapes):
    """Answers of these lengths of prompt and answer."""
    return [
        Generation(
            f"p{n}",
            "all",
            0,
            [(7 * n + i) % 48 + 2 for i in range(prompt)],
            [(11 * n + 5 * i) % 48 + 2 for i in range(answer)],
            "limit",
        )
        for n, (prompt, answer) in enumerate(shapes)
    ]


SHAPES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


@given(SHAPES, st.integers(1, 40))
def test_batches_hold_all_answers_once_and_stay_small(shapes, limit):
    made = generations(shapes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "TOKENS_AT_ONCE", limit)
        found = list(batches(made))
    assert sorted((g for batch in found for g in batch), key=lambda g: g.id) == made
    for batch in found:
        padded = len(batch) * max(len(g.prompt_ids) + len(g.answer_ids) for g in batch)
        assert len(batch) == 1 or padded <= limit


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_states_are_those_before_each_answer_token(family):
    model, made = tiny.backbone(family), generations([(3, 5), (9, 1), (1, 7), (4, 4)])
    found = answer_states(model, made)
    expected = [
        model.states(torch.tensor([g.prompt_ids + g.answer_ids[:offset]]))[0, -1]
        for g in made
        for offset in range(len(g.answer_ids))
    ]
    torch.testing.assert_close(found, torch.stack(expected).detach(), rtol=1e-4, atol=1e-5)


@given(SHAPES, st.integers(1, 5))
def test_truths_are_the_answer_shifted(shapes, heads):
    made = generations(shapes)
    truths = answer_truths(made, heads)
    column = 0
    for generation in made:
        for offset in range(len(generation.answer_ids)):
            for head in range(1, heads + 1):
                place = offset + head
                known = place < len(generation.answer_ids)
                assert truths[head - 1, column] == (generation.answer_ids[place] if known else UNKNOWN)
            column += 1
    assert truths.shape == (heads, column)


def test_an_answer_longer_than_the_context_is_named():
    fits, too_long = generations([(tiny.LIMIT - 1, 2), (tiny.LIMIT - 1, 3)])
    assert len(answer_states(tiny.backbone(), [fits])) == 2
    with pytest.raises(InputError, match=f"answer p1: longer than the {tiny.LIMIT} tokens that llama takes"):
        answer_states(tiny.backbone(), [fits, too_long])
