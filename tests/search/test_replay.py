"""Replay against the words of its definition, row by row."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import rank_table, rank_tables, trees
from treeopt.errors import InputError
from treeopt.search.baselines import chain
from treeopt.search.ranks import UNKNOWN
from treeopt.search.replay import Replay, replay, replay_all, require_fits
from treeopt.tree import ROOT, Tree


def literal_replay(table, tree):
    """From row 0 of each answer: follow the ranks down the tree, emit, go on after what was emitted."""
    nodes, answers = set(tree.nodes), []
    for number in range(len(table.ids)):
        rows = table.ranks[table.sequence == number].tolist()
        position, tokens = 0, []
        while position < len(rows):
            path: tuple[int, ...] = ()
            for rank in rows[position]:
                if rank in (UNKNOWN, table.width) or (*path, rank) not in nodes:
                    break
                path = (*path, rank)
            tokens.append(len(path) + 1)
            position += len(path) + 1
        answers.append(tuple(tokens))
    return tuple(answers)


@st.composite
def tables_and_trees(draw):
    table = draw(rank_tables().filter(lambda table: table.positions))
    return table, draw(trees(max_depth=table.heads, max_rank=table.width - 1))


@given(tables_and_trees())
def test_steps_are_those_of_the_definition(pair):
    table, tree = pair
    done = replay(table, tree)
    assert done.step_tokens == literal_replay(table, tree)
    assert done.emitted == table.positions
    assert done.steps == sum(map(len, done.step_tokens))
    assert done.tokens_per_step == done.emitted / done.steps


@st.composite
def tables_and_several_trees(draw):
    table = draw(rank_tables().filter(lambda table: table.positions))
    tree = trees(max_depth=table.heads, max_rank=table.width - 1)
    return table, draw(st.lists(tree, min_size=1, max_size=5))


@given(tables_and_several_trees(), st.sampled_from([1, 20, 2**27]))
def test_many_trees_at_once_are_each_alone(pair, cells):
    table, several = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeopt.search.replay.CELLS", cells)
        together = replay_all(table, several)
    assert [done.tree for done in together] == several
    assert [done.step_tokens for done in together] == [literal_replay(table, tree) for tree in several]


@given(tables_and_trees())
def test_rows_are_where_the_steps_start(pair):
    done = replay(*pair)
    expected, start = [], 0
    for answer in literal_replay(*pair):
        for tokens in answer:
            expected.append(start)
            start += tokens
    assert done.rows.tolist() == expected


@given(tables_and_trees())
def test_recorded_steps_make_the_same_replay(pair):
    done = replay(*pair)
    again = Replay.of_steps(done.tree, done.step_tokens, done.ids, done.categories)
    assert again.step_tokens == done.step_tokens
    assert (again.steps, again.emitted) == (done.steps, done.emitted)
    assert {name: part.step_tokens for name, part in again.by_category().items()} == {
        name: part.step_tokens for name, part in done.by_category().items()
    }


@given(tables_and_trees())
def test_acceptance_by_depth_counts_steps(pair):
    done = replay(*pair)
    tokens = [count for answer in done.step_tokens for count in answer]
    reached, accepted = done.accepted_by_depth()
    for depth in range(1, done.tree.depth + 1):
        assert reached[depth - 1] == sum(count >= depth for count in tokens)
        assert accepted[depth - 1] == sum(count > depth for count in tokens)


@given(tables_and_trees())
def test_categories_and_prompts_add_up(pair):
    done = replay(*pair)
    parts = done.by_category()
    assert list(parts) == list(dict.fromkeys(done.categories))
    assert sum(part.steps for part in parts.values()) == done.steps
    assert sum(part.emitted for part in parts.values()) == done.emitted
    emitted, steps = done.by_prompt()
    assert len(emitted) == len(steps) == len(set(done.ids))
    assert (emitted.sum(), steps.sum()) == (done.emitted, done.steps)


@given(tables_and_trees(), st.integers(0, 9))
def test_the_interval_is_the_same_for_a_seed_and_holds_the_mean_of_one_prompt(pair, seed):
    done = replay(*pair)
    low, high = done.interval(np.random.default_rng(seed))
    assert (low, high) == done.interval(np.random.default_rng(seed))
    assert 1 <= low <= high <= done.tree.depth + 1 or 0 in done.by_prompt()[1]
    if len(set(done.ids)) == 1:
        assert low == high == done.tokens_per_step


@given(tables_and_trees())
def test_a_larger_tree_never_accepts_less_at_the_first_step(pair):
    table, tree = pair
    whole = replay(table, tree).step_tokens
    for size in range(len(tree.choices)):
        part = replay(table, Tree(tree.choices[:size])).step_tokens
        assert all(a[0] <= b[0] for a, b in zip(part, whole, strict=True) if a)


@given(rank_tables())
def test_plain_decoding_is_the_bare_root(table):
    assume(table.positions)
    assert replay(table, ROOT).tokens_per_step == 1.0


def test_perfect_heads_accept_to_the_end_of_the_tree_and_of_the_answer():
    table = rank_table(np.zeros((10, 3), np.int16), [7, 3], width=2)
    assert replay(table, chain(3)).step_tokens == ((4, 3), (3,))
    assert replay(table, chain(1)).step_tokens == ((2, 2, 2, 1), (2, 1))


def test_answers_of_one_token_take_one_step_each():
    table = rank_table(np.zeros((3, 2), np.int16), [1, 0, 1, 1], width=2)
    assert replay(table, chain(2)).step_tokens == ((1,), (), (1,), (1,))


def test_no_trees_give_no_replays():
    assert replay_all(rank_table(np.zeros((3, 2), np.int16), [3], width=2), []) == []


def test_unknown_and_missed_ranks_match_no_node():
    ranks = np.array([[0, 0], [2, 0], [0, 2], [0, 0], [0, 0]])  # rank 2 is a miss
    table = rank_table(ranks, [5], width=2)
    everything = Tree.from_choices([[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]])
    assert replay(table, everything).step_tokens == ((3, 2),)
    assert replay(rank_table(ranks[1:], [4], width=2), everything).step_tokens == ((1, 2, 1),)


def test_trees_that_the_ranks_cannot_judge_are_refused():
    table = rank_table(np.zeros((6, 2), np.int16), [6], width=10)
    with pytest.raises(InputError, match=r"choice \[0, 0, 0\] is 3 deep, the ranks are of 2 heads"):
        replay(table, chain(3))
    with pytest.raises(InputError, match=r"choice \[12\] needs rank 12, the table keeps ranks up to 9"):
        replay(table, Tree.from_choices([[12]]))
    with pytest.raises(InputError, match=r"tree x: choice \[0, 0, 0\] is 3 deep"):
        require_fits(table, chain(3), "tree x")
    with pytest.raises(InputError, match="no answer tokens"):
        replay(table.select([]), ROOT)
