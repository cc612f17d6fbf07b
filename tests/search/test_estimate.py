"""Estimators against the words of their definitions, row by row."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.search.literal import followers, head_counts, paths_of, shares, values
from tests.strategies import accuracy_tables, rank_table, rank_tables
from treeopt.search.estimate import ESTIMATORS, Independent, Joint, Shrunk
from treeopt.search.grow import grow
from treeopt.search.prefixes import marginals

KAPPAS = st.sampled_from([0.0, 0.25, 1.0, 8.0, 1e6, np.inf])


@st.composite
def tables_and_weights(draw):
    """A table with rows, and how often each counts; None is once."""
    table = draw(rank_tables(max_heads=3, max_width=3).filter(lambda table: table.positions))
    times = st.lists(st.integers(0, 3), min_size=table.positions, max_size=table.positions)
    return table, draw(st.none() | times.map(np.array))


@given(accuracy_tables(), st.integers(0, 4))
def test_guesses_come_by_falling_probability_then_rank(table, highest):
    estimator = Independent(table).up_to_rank(highest)
    for head in range(table.heads):
        row = table.values[head, : highest + 1]
        ranks, probabilities = estimator.children((0,) * head)
        assert list(ranks) == sorted(range(len(row)), key=lambda rank: (-row[rank], rank))
        assert list(probabilities) == [row[rank] for rank in ranks]
    assert estimator.children((0,) * table.heads) == ((), ())


@given(tables_and_weights())
def test_accuracies_of_chosen_rows(pair):
    table, weights = pair
    found = marginals(table, weights)
    for head in range(table.heads):
        counts = head_counts(table, head, weights)
        assert found.values[head].tolist() == list(shares(counts).values())[:-1]
        assert found.trials is not None and found.trials[head] == sum(counts.values())
    if weights is None:
        assert (found.values == table.accuracy().values).all()


@given(tables_and_weights(), st.integers(0, 4))
def test_joint_children_are_shares_of_the_rows_that_follow(pair, highest):
    table, weights = pair
    estimator = Joint(table, weights).up_to_rank(highest)
    for path in [(), *paths_of(table)]:
        ranks, probabilities = estimator.children(path)
        if len(path) == table.heads or not sum(followers(table, path, weights).values()):
            assert (ranks, probabilities) == ((), ())
            continue
        wanted = shares(followers(table, path, weights))
        allowed = [rank for rank in range(table.width) if rank <= highest]
        assert list(ranks) == sorted(allowed, key=lambda rank: (-wanted[rank], rank))
        assert list(probabilities) == [wanted[rank] for rank in ranks]


@given(tables_and_weights(), st.lists(KAPPAS, min_size=2, max_size=2), st.integers(1, 40))
def test_growth_is_the_sorted_list_of_all_paths(pair, kappas, budget):
    table, weights = pair
    kappas = kappas[: table.heads - 1]
    wanted = values(table, kappas, weights)
    growth = grow(Shrunk(table, weights, kappas), budget)
    best = sorted((-value, len(path), path) for path, value in wanted.items() if value > 0)[: budget - 1]
    assert growth.values[1:] == pytest.approx([-value for value, *_ in best], rel=1e-12)
    assert growth.values[1:] == pytest.approx([wanted[path] for path in growth.paths[1:]], rel=1e-12)
    assert growth.size == len(best) + 1


@given(tables_and_weights(), st.integers(1, 60))
def test_the_ends_of_shrinkage_are_the_other_estimators(pair, budget):
    table, weights = pair
    for kappa, other in ((0.0, Joint(table, weights)), (np.inf, Independent.of_ranks(table, weights))):
        shrunk = grow(Shrunk(table, weights, [kappa] * (table.heads - 1)), budget)
        plain = grow(other, budget)
        assert (shrunk.paths, shrunk.values) == (plain.paths, plain.values)


@given(tables_and_weights())
def test_values_never_grow_down_the_tree(pair):
    table, weights = pair
    for make in ESTIMATORS.values():
        estimator = make(table, weights)
        for path in [(), *paths_of(table)]:
            ranks, probabilities = estimator.children(path)
            assert len(ranks) == len(probabilities)
            assert all(0 <= probability <= 1 for probability in probabilities)
            assert sum(probabilities) <= 1 + 1e-12
            assert list(probabilities) == sorted(probabilities, reverse=True)


@given(rank_tables(max_heads=3, max_width=3), st.integers(0, 2))
def test_without_unknown_ends_the_joint_value_is_the_share_of_rows(table, highest):
    assume(table.positions)
    complete = (table.ranks >= 0).all(axis=1)
    assume(complete.any())
    growth = grow(Joint(table, complete.astype(np.int64)), 100, max_rank=highest)
    rows = table.ranks[complete].tolist()
    for path, value in zip(growth.paths, growth.values, strict=True):
        share = sum(tuple(row[: len(path)]) == path for row in rows) / len(rows)
        assert value == pytest.approx(share)


def test_unknown_ends_do_not_bias_the_joint_value():
    """Both heads are always right; the last row of the answer knows neither, the one before it one of them."""
    table = rank_table(np.zeros((4, 2), np.int16), [4], width=2)
    assert grow(Joint(table), 3).values == (1.0, 1.0, 1.0)


def test_heads_that_are_right_together_are_told_apart_from_heads_that_are_not():
    together = np.array([[0, 0], [1, 1]] * 20)
    table = rank_table(together, [40], width=2)
    assert grow(Independent.of_ranks(table), 4).tokens_per_step[-1] == pytest.approx(2.25, abs=0.05)
    assert grow(Joint(table), 5).tree(5).choices == ((0,), (1,), (0, 0), (1, 1))


def test_up_to_rank_leaves_the_estimator_itself_alone():
    table = rank_table(np.array([[0, 1], [1, 0], [1, 1], [0, 0], [0, 0]]), [5], width=2)
    for make in ESTIMATORS.values():
        estimator = make(table, None)
        before = estimator.children((0,))
        assert estimator.up_to_rank(0).up_to_rank(1).children((0,))[0] == [0]
        assert estimator.children((0,)) == before


def test_names_say_the_kappas():
    table = rank_table(np.zeros((9, 3), np.int16), [9], width=2)
    assert Shrunk(table, None, [177.8, np.inf]).name == "shrunk (kappa 178, inf)"
    assert Shrunk(rank_table(np.zeros((9, 1), np.int16), [9], width=2)).name == "shrunk (kappa none)"
    assert [make(table, None).name.split()[0] for make in ESTIMATORS.values()] == list(ESTIMATORS)
