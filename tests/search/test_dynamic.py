"""Trees rebuilt at every row against the enumeration of all paths, row by row."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import rank_table, rank_tables
from treeopt.search import dynamic
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.dynamic import NEVER, UNIT, even_threshold, likeliest_paths, replay_dynamic
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.replay import replay

PROBABILITY = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]) | st.floats(0, 1, width=32)


@st.composite
def tables_with_probabilities(draw):
    """Any rank table, with probabilities that tie, that are 0, and that sum above 1."""
    table = draw(rank_tables(max_heads=3, max_width=3))
    count = table.positions * table.heads * table.width
    drawn = np.array(draw(st.lists(PROBABILITY, min_size=count, max_size=count)), np.float32)
    drawn = drawn.reshape(table.positions, table.heads, table.width)
    return replace(table, probabilities=-np.sort(-drawn, axis=2))


def literal_paths(table, row):
    """All paths of one row that are possible, with their costs, likeliest first."""
    cost = [
        [round(-math.log(share) * UNIT) if share else NEVER for share in head]
        for head in table.probabilities[row].astype(np.float64).tolist()
    ]
    found = [
        (sum(cost[head][rank] for head, rank in enumerate(path)), len(path), path)
        for depth in range(1, table.heads + 1)
        for path in product(range(table.width), repeat=depth)
    ]
    return [(own, path) for own, _, path in sorted(found) if own < NEVER]


def literal_steps(table, tree_at):
    """Tokens of each step, answer by answer, with the tree (a set of paths) that `tree_at` gives for a row."""
    steps = []
    for length, start in zip(table.lengths, np.cumsum(table.lengths) - table.lengths, strict=True):
        row, own = start, []
        while row < start + length:
            tree, ranks = tree_at(row), tuple(table.ranks[row].tolist())
            depths = [depth for depth in range(1, table.heads + 1) if ranks[:depth] in tree]
            own.append(1 + max(depths, default=0))
            row += own[-1]
        steps.append(tuple(own))
    return tuple(steps)


@given(tables_with_probabilities(), st.integers(1, 45), st.integers(0, 3 * UNIT))
def test_trees_are_the_likeliest_paths_of_every_row(table, most, threshold):
    paths = likeliest_paths(table.probabilities, table.ranks, most)
    literal = [literal_paths(table, row) for row in range(table.positions)]
    for row, those in enumerate(literal):
        costs = [cost for cost, _ in those[:most]]
        assert paths.costs[row].tolist() == costs + [NEVER] * (most - len(costs))
    for size in {1, 2, (most + 1) // 2, most + 1} - {0}:
        for cost in (threshold, NEVER - 1):
            trees = [{path for own, path in those[: size - 1] if own <= cost} for those in literal]
            assert paths.sizes(size, cost).tolist() == [len(tree) + 1 for tree in trees]
            if table.positions:
                replayed = replay_dynamic(table, paths.accepted(size, cost))
                assert replayed.step_tokens == literal_steps(table, trees.__getitem__)


@given(tables_with_probabilities(), st.integers(1, 9))
def test_blocks_of_rows_do_not_change_the_paths(table, rows):
    whole = likeliest_paths(table.probabilities, table.ranks, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamic, "ROWS", rows)
        parts = likeliest_paths(table.probabilities, table.ranks, 7)
    for name in ("costs", "joins", "truths"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def random_table(answers=40, length=60, heads=4, width=6, seed=3):
    """Heads that mean what they say: ranks drawn from the probabilities, which differ from row to row."""
    rng = np.random.default_rng(seed)
    rows = answers * length
    sharp = rng.exponential(1.5, (rows, 1, 1))
    weights = np.exp(-sharp * np.arange(width + 1)) * rng.uniform(0.5, 1, (rows, heads, width + 1))
    shares = -np.sort(-weights / weights.sum(axis=2, keepdims=True), axis=2)
    ranks = (rng.random((rows, heads, 1)) > np.cumsum(shares, axis=2)).sum(axis=2)
    table = rank_table(ranks, [length] * answers, width=width)
    return replace(table, probabilities=shares[:, :, :width].astype(np.float32))


def test_the_same_probabilities_everywhere_give_the_grown_tree():
    rng = np.random.default_rng(0)
    table = random_table()
    accuracies = AccuracyTable(-np.sort(-rng.dirichlet(np.ones(7), 4)[:, :6], axis=1))
    growth = grow(Independent(accuracies), 40)
    paths = likeliest_paths(
        np.broadcast_to(accuracies.values, table.probabilities.shape), table.ranks, growth.size - 1
    )
    for size in range(1, growth.size + 1):
        replayed = replay_dynamic(table, paths.accepted(size))
        assert replayed.step_tokens == replay(table, growth.tree(size)).step_tokens
        expected = paths.expected(replayed.rows, paths.sizes(size)[replayed.rows])
        assert expected == pytest.approx(growth.tokens_per_step[size - 1], rel=1e-6)


def test_heads_that_mean_what_they_say_are_expected_right():
    """Rows are independent here, so the mean over the steps is what their trees expect, but for answers' ends."""
    table = random_table(answers=20, length=1000)
    paths = likeliest_paths(table.probabilities, table.ranks, 15)
    replayed = replay_dynamic(table, paths.accepted(16))
    expected = paths.expected(replayed.rows, paths.sizes(16)[replayed.rows])
    assert replayed.tokens_per_step == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("size", [2, 5, 12])
def test_a_threshold_gives_trees_of_the_size_on_average(size):
    table = random_table()
    paths = likeliest_paths(table.probabilities, table.ranks, 4 * size - 1)
    cost = even_threshold(table, paths, size, 4 * size)
    rows = replay_dynamic(table, paths.accepted(4 * size, cost)).rows
    sizes = paths.sizes(4 * size, cost)[rows]
    assert sizes.mean() == pytest.approx(size, rel=0.01)
    assert sizes.min() < size < sizes.max() <= 4 * size


def test_a_threshold_takes_everything_where_that_is_too_little():
    table = random_table(heads=1, width=2)
    paths = likeliest_paths(table.probabilities, table.ranks, 30)
    cost = even_threshold(table, paths, 20, 31)
    assert (paths.sizes(31, cost) == 3).all()
