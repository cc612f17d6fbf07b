"""Dependence of heads, depth by depth, against plain loops."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import accuracy_tables, rank_table, rank_tables, trees
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.independence import depth_shares, path_values, top_chain
from treeopt.search.ranks import UNKNOWN
from treeopt.search.replay import replay
from treeopt.search.synthetic import drawn_ranks
from treeopt.tree import Tree


@given(accuracy_tables(), st.integers(1, 12))
def test_a_growth_has_the_values_of_its_paths(accuracies, budget):
    growth = grow(Independent(accuracies), budget)
    tree = growth.tree(growth.size)
    found = dict(zip(tree.nodes, path_values(Independent(accuracies), tree), strict=True))
    assert found == pytest.approx(dict(zip(growth.paths, growth.values, strict=True)))


def test_a_path_that_the_estimator_does_not_know_is_worth_nothing():
    tree = Tree.from_choices([[9], [9, 0]])
    table = rank_table(np.zeros((4, 2), np.int64), [4], width=3)
    assert path_values(Independent(table.accuracy()), tree).tolist() == [1, 0, 0]


@given(rank_tables(), trees(max_rank=1))
def test_depth_shares_are_counts_over_rows_and_steps(table, tree):
    tree = Tree(tuple(path for path in tree.up_to_depth(table.heads).choices if max(path) < table.width))
    assume(table.positions and tree.choices)
    shares = depth_shares(table, tree)
    assert 1 + shares["replayed"].sum() == pytest.approx(replay(table, tree).tokens_per_step)
    assert shares["depth"].tolist() == list(range(1, tree.depth + 1))
    accuracies, rows = table.accuracy().values, table.ranks.tolist()
    for depth, product, frequency in shares[["depth", "product", "frequency"]].to_numpy():
        paths = [path for path in tree.choices if len(path) == depth]
        assert product == pytest.approx(
            sum(np.prod([accuracies[head, rank] for head, rank in enumerate(path)]) for path in paths)
        )
        assert frequency == pytest.approx(sum(share(rows, path) for path in paths))


def share(rows, path):
    """n(prefix + r) / n(prefix whose next rank is known), multiplied down the path."""
    value = 1.0
    for head, rank in enumerate(path):
        nexts = [row[head] for row in rows if tuple(row[:head]) == path[:head] and row[head] != UNKNOWN]
        value *= nexts.count(rank) / len(nexts) if nexts else 0.0
    return value


@given(rank_tables())
def test_the_top_chain_is_the_path_of_zeros(table):
    assume(table.positions)
    rows, accuracies = table.ranks.tolist(), table.accuracy().values[:, 0]
    chain = top_chain(table)
    for head, (product, frequency) in enumerate(chain[["product", "frequency"]].to_numpy()):
        if not np.isnan(frequency):
            assert frequency == pytest.approx(share(rows, (0,) * (head + 1)))
            assert product == pytest.approx(np.prod(accuracies[: head + 1]))


def test_heads_that_are_right_together_show():
    rng = np.random.default_rng(0)
    easy = rng.random((3000, 1)) < 0.5
    together = rank_table(
        np.where(rng.random((3000, 3)) < np.where(easy, 0.9, 0.3), 0, 1), [30] * 100, width=1
    )
    chain = top_chain(together)
    # P(all right) is (0.9^d + 0.3^d) / 2, the product 0.6^d
    assert chain["ratio"].tolist() == pytest.approx([1, 1.25, 1.75], rel=0.08)
    assert (chain["low"][1:] > 1).all() and (chain["low"] <= chain["ratio"]).all()
    apart = top_chain(drawn_ranks(together.accuracy(), 100, 30))
    assert (apart["low"] <= 1).all() and (apart["high"] >= 1).all()
