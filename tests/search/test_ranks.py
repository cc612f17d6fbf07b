"""The rank table: its order, its accuracies, its halves, its file."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import rank_table, rank_tables
from treeopt.artifact import save_arrays
from treeopt.errors import InputError
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.search.split import half_of


def same(first, second):
    """Whether two tables are equal in every field."""
    arrays = all(
        np.array_equal(getattr(first, a), getattr(second, a))
        for a in ("ranks", "sequence", "offset", "probabilities")
    )
    fields = ("ids", "categories", "ended", "width", "provenance")
    return arrays and all(getattr(first, name) == getattr(second, name) for name in fields)


def test_perfect_heads_are_right_every_time_each_over_its_own_trials():
    """Cycle: heads that always know the next token, 3 prompts of 20 tokens."""
    table = rank_table(np.zeros((60, 4), np.int16), [20, 20, 20], width=3)
    accuracy = table.accuracy()
    np.testing.assert_array_equal(accuracy.values[:, 0], 1.0)
    np.testing.assert_array_equal(accuracy.trials, [57, 54, 51, 48])
    np.testing.assert_array_equal(accuracy.low[:, 0], 1.0)


def test_a_short_answer_adds_only_positions_up_to_its_end():
    table = rank_table(np.zeros((3, 4), np.int16), [3], width=3)
    np.testing.assert_array_equal(table.trials(), [2, 1, 0, 0])
    np.testing.assert_array_equal(table.accuracy().values[:, 0], [1, 1, 0, 0])
    np.testing.assert_array_equal(table.accuracy().high[2:, 0], [1, 1])


@given(rank_tables())
def test_accuracies_are_counted_row_by_row(table):
    accuracy = table.accuracy()
    for head in range(table.heads):
        known = [rank for rank in table.ranks[:, head].tolist() if rank != UNKNOWN]
        assert accuracy.trials[head] == len(known)
        for rank in range(table.width):
            assert accuracy.values[head, rank] == (known.count(rank) / len(known) if known else 0)
            assert 0 <= accuracy.low[head, rank] <= accuracy.high[head, rank] <= 1


@given(rank_tables())
def test_intervals_are_the_same_for_a_seed(table):
    first, second = table.accuracy(seed=5), table.accuracy(seed=5)
    np.testing.assert_array_equal(first.low, second.low)
    np.testing.assert_array_equal(first.high, second.high)


def test_intervals_are_by_prompt_not_by_token():
    """Two kinds of prompt, each all right or all wrong: many tokens, but only 20 draws."""
    ranks = np.repeat([0, 9], 2000)[:, None]
    by_prompt = rank_table(ranks, [200] * 20, width=9).accuracy()
    assert by_prompt.high[0, 0] - by_prompt.low[0, 0] > 0.3


@given(rank_tables(), st.data())
def test_selected_answers_keep_their_rows(table, data):
    picks = data.draw(st.lists(st.integers(0, len(table.ids) - 1), max_size=6))
    selected = table.select(picks)
    assert selected.ids == tuple(table.ids[pick] for pick in picks)
    rows = [table.ranks[table.sequence == pick] for pick in picks]
    np.testing.assert_array_equal(selected.ranks, np.concatenate([np.empty((0, table.heads)), *rows]))


@given(rank_tables())
def test_halves_part_the_prompts(table):
    assert same(table.split("all"), table)
    for half in ("calibrate", "evaluate"):
        ids = tuple(name for name in table.ids if half_of(name) == half)
        if ids:
            assert table.split(half).ids == ids
        else:
            with pytest.raises(InputError, match=f"is in the {half} half"):
                table.split(half)
    with pytest.raises(InputError, match="'test' is none of calibrate, evaluate, all"):
        table.split("test")


@given(rank_tables())
def test_file_round_trip(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("ranks") / "ranks.safetensors"
    table.save(path)
    assert same(RankTable.load(path), table)


def test_probabilities_go_with_their_rows(tmp_path):
    shares = np.broadcast_to(np.arange(5, dtype=np.float32)[:, None, None] / 5, (5, 2, 3))
    table = replace(TWO, probabilities=shares)
    table.save(tmp_path / "ranks.safetensors")
    assert same(RankTable.load(tmp_path / "ranks.safetensors"), table)
    np.testing.assert_array_equal(table.select([1, 0]).probabilities, shares[[3, 4, 0, 1, 2]])
    assert TWO.select([1]).probabilities is None


def test_a_file_that_holds_no_rank_table_is_refused_by_name(tmp_path):
    path = tmp_path / "ranks.safetensors"
    arrays = {"ranks": np.zeros((1, 1), np.int16), "sequence": np.zeros(1, int), "offset": np.zeros(1, int)}
    facts = {"ids": ["a"], "categories": ["all"], "ended": ["eos"], "width": 3, "provenance": {}}
    save_arrays(path, arrays, "ranks", facts)
    with pytest.raises(InputError, match=r"ranks\.safetensors: ranks: row 0 .* past the answer's end"):
        RankTable.load(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ids": 3}, "ids is no list of texts"),
        ({"ids": ["\ud800"]}, "ids has half a surrogate pair"),
        ({"categories": None}, "categories is no list of texts"),
        ({"ended": [1]}, "ended is no list of texts"),
        ({"provenance": 3}, "provenance is 3, not an object"),
        ({"width": None}, "width is None"),
        ({"width": True}, "width is True"),
        ({"width": "16"}, "width is '16'"),
    ],
)
def test_a_header_edited_by_hand_is_refused(tmp_path, change, says):
    path = tmp_path / "ranks.safetensors"
    arrays = {"ranks": -np.ones((1, 1), np.int16), "sequence": np.zeros(1, int), "offset": np.zeros(1, int)}
    facts = {"ids": ["a"], "categories": ["all"], "ended": ["eos"], "width": 3, "provenance": {}}
    save_arrays(path, arrays, "ranks", facts)
    assert RankTable.load(path).ids == ("a",)
    save_arrays(path, arrays, "ranks", facts | change)
    with pytest.raises(InputError, match=rf"ranks\.safetensors: .*{says}"):
        RankTable.load(path)


def test_a_file_without_its_parts_is_refused(tmp_path):
    save_arrays(tmp_path / "ranks.safetensors", {"ranks": np.zeros((1, 1), np.int16)}, "ranks", {})
    with pytest.raises(InputError, match=r"ranks\.safetensors: has no sequence"):
        RankTable.load(tmp_path / "ranks.safetensors")


def test_ranks_beyond_the_width_are_misses():
    table = rank_table(np.full((4, 1), 100_000), [4], width=5)
    assert table.ranks.dtype == np.int16
    np.testing.assert_array_equal(table.ranks[:, 0], [5, 5, 5, UNKNOWN])


TWO = rank_table(np.zeros((5, 2), np.int16), [3, 2], width=3)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ranks": TWO.ranks[:, 0]}, r"shape \(5,\)"),
        ({"width": 0}, "width 0"),
        ({"ranks": TWO.ranks.astype(float)}, "whole numbers"),
        ({"ids": ("a",)}, "1 ids, 2 categories and 2 endings"),
        ({"sequence": TWO.sequence[:3]}, "one entry for each of 5 rows"),
        ({"ended": ("eos", "stop")}, "answer prompt-1 ended 'stop'; it is eos or limit"),
        ({"sequence": TWO.sequence[::-1]}, "row 2 is of answer 0, out of order"),
        ({"sequence": TWO.sequence - 1}, "row 0 is of answer -1, out of order"),
        ({"sequence": TWO.sequence + 1}, "row 4 is of answer 2, out of order"),
        ({"offset": TWO.offset + 1}, "row 0, answer prompt-0 has offset 1"),
        ({"offset": TWO.offset[::-1]}, "row 0, answer prompt-0 has offset 1"),
        ({"ranks": TWO.ranks - 1}, r"row 1 \(answer prompt-0, offset 1\), head 2 has rank -2"),
        ({"probabilities": np.zeros((5, 3, 2))}, r"shape \(5, 3, 2\); give \(5, 2, 3\)"),
        ({"probabilities": np.full((5, 2, 3), np.nan)}, "row 0 .*head 1 gives rank 0 the probability nan"),
        ({"probabilities": np.full((5, 2, 3), 1.5)}, "row 0 .*head 1 gives rank 0 the probability 1.5"),
        (
            {"probabilities": np.eye(3)[None, :2].repeat(5, 0)},
            "row 0 .*head 2 gives rank 1 the probability 1;",
        ),
        ({"ranks": TWO.ranks * 0}, r"row 1 .*head 2 has rank 0; its truth lies past the answer's end"),
    ],
)
def test_tables_out_of_order_are_refused_in_one_line(change, complaint):
    with pytest.raises(InputError, match=rf"^ranks: [^\n]*{complaint}[^\n]*$"):
        replace(TWO, **change)


def test_no_answers_have_no_accuracies():
    with pytest.raises(InputError, match="no answers"):
        TWO.select([]).accuracy()
