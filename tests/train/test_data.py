"""Batches against slices of the text, and which answers are learned from."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.samples import ragged
from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.search.ranks import UNKNOWN
from treeopt.train.data import Answers, split_answers
from treeopt.train.states_file import StatesFile

SHAPES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


def split(made, heads=2, held_out=0.0, context_limit=99, seed=0):
    return split_answers(made, heads=heads, held_out=held_out, context_limit=context_limit, seed=seed)


@given(SHAPES, st.integers(1, 5), st.data())
def test_each_row_of_a_batch_is_the_text_before_an_answer_token(shapes, heads, data):
    """So neither the prompt's tokens nor the padding ever carry loss."""
    made = ragged(shapes)
    indices = data.draw(st.permutations(range(len(made))))
    batch = Answers(made, heads).collate(indices)
    tokens, rows, truths = batch["tokens"], batch["rows"], batch["truths"]
    assert rows.shape == truths.shape[1:] and len(truths) == heads + 1
    column = 0
    for number, index in enumerate(indices):
        prompt, answer = made[index].prompt_ids, made[index].answer_ids
        for offset in range(len(answer)):
            line, place = divmod(int(rows[column]), tokens.shape[1])
            assert line == number
            assert tokens[line, : place + 1].tolist() == prompt + answer[:offset]
            following = answer[offset : offset + heads + 1]
            expected = following + [UNKNOWN] * (heads + 1 - len(following))
            assert truths[:, column].tolist() == expected
            column += 1
    assert column == len(rows) == sum(len(made[index].answer_ids) for index in indices)


def test_items_are_numbers_of_answers():
    answers = Answers(ragged([(1, 4)] * 5), heads=2)
    assert len(answers) == 5 and [answers[i] for i in range(5)] == list(range(5))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=20),
    st.integers(1, 4),
    st.floats(0, 0.99),
    st.integers(0, 9),
)
def test_a_prompt_is_held_out_with_all_its_turns(turns, heads, held_out, seed):
    made = [
        Generation(f"p{prompt}", "all", turn, [1], [2] * length, "limit")
        for turn, (prompt, length) in enumerate(turns)
    ]
    usable = [answer for answer in made if len(answer.answer_ids) >= heads + 2]
    if not usable:
        with pytest.raises(InputError, match=f"none of {len(made)} answers has the {heads + 2} tokens"):
            split(made, heads, held_out, seed=seed)
        return
    found = split(made, heads, held_out, seed=seed)
    apart, rest = ({answer.id for answer in half} for half in (found.held_out, found.train))
    every = apart | rest
    assert apart.isdisjoint(rest)
    assert len(apart) == max(int(len(every) * held_out), held_out > 0 and len(every) > 1)
    assert sorted([*found.train, *found.held_out], key=lambda g: g.turn) == usable
    assert found.skipped == len(made) - len(usable)
    assert found == split(made, heads, held_out, seed=seed)


def test_another_seed_holds_out_others():
    made = ragged([(1, 6)] * 20)
    held = {tuple(answer.id for answer in split(made, held_out=0.3, seed=seed).held_out) for seed in range(5)}
    assert len(held) > 1 and all(len(names) == 6 for names in held)


def test_an_answer_longer_than_the_context_is_named():
    fits, too_long = ragged([(5, 5), (5, 6)])
    assert split([fits], context_limit=9).train == [fits]
    with pytest.raises(InputError, match="answer p1: longer than the model's context of 9; remove it"):
        split([fits, too_long], context_limit=9)


def test_states_stand_in_for_the_text(tmp_path):
    made = ragged([(3, 4), (2, 6), (5, 3)])

    states = torch.tensor([[float(number)] for number, g in enumerate(made) for _ in g.answer_ids])
    states.numpy().tofile(tmp_path / "states.bin")
    file = StatesFile(tmp_path / "states.bin", [4, 6, 3], 1, torch.float32)
    batch = Answers(made[1:], 2, states=file, first=1).collate([1, 0])
    assert batch.keys() == {"states", "truths"}
    assert batch["states"][:, 0].tolist() == [2.0] * 3 + [1.0] * 6
    assert torch.equal(batch["truths"], Answers(made, 2).collate([2, 1])["truths"])
