"""Baseline trees."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import accuracy_tables
from treeopt.errors import InputError
from treeopt.search.baselines import best_dense, chain, dense, random_dense
from treeopt.tree import ROOT


def test_chain():
    assert chain(3).choices == ((0,), (0, 0), (0, 0, 0))
    assert chain(0) == ROOT


@given(st.lists(st.integers(1, 4), max_size=4))
def test_dense_trees_have_every_path(widths):
    tree = dense(widths)
    lengths = range(len(widths) + 1)
    paths = (path for length in lengths for path in product(range(4), repeat=length))
    assert set(tree.nodes) == {
        path for path in paths if all(rank < widths[head] for head, rank in enumerate(path))
    }


def test_the_paper_counts_8_draft_nodes_in_2_by_3():
    assert len(dense([2, 3]).choices) == 8


def test_a_head_without_guesses_is_refused():
    with pytest.raises(InputError, match=r"widths \[2, 0\]"):
        dense([2, 0])


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 256), st.integers(0, 9))
def test_random_dense_trees_fit(seed, heads, max_size, max_rank):
    tree = random_dense(np.random.default_rng(seed), heads, max_size, max_rank)
    assert tree.size <= max_size
    assert tree.depth <= heads
    assert tree.max_rank <= max_rank
    assert tree == random_dense(np.random.default_rng(seed), heads, max_size, max_rank)
    assert max_size == 1 or tree != ROOT


@given(accuracy_tables(), st.integers(1, 30), st.integers(1, 5))
def test_best_dense_trees_are_the_best_of_all_shapes(table, max_size, count):
    found = best_dense(table, max_size, count)
    shapes = [
        dense(widths)
        for depth in range(table.heads + 1)
        for widths in product(range(1, table.width + 1), repeat=depth)
    ]
    expected = sorted((value_of(table, tree) for tree in shapes if tree.size <= max_size), reverse=True)
    assert [value for _, value in found] == pytest.approx(expected[:count])
    assert [value_of(table, tree) for tree, _ in found] == pytest.approx(expected[:count])
    assert all(tree.size <= max_size for tree, _ in found)


def value_of(table, tree):
    """Expected tokens per step of independent heads: the sum over all nodes."""
    return sum(np.prod([table.values[head, rank] for head, rank in enumerate(path)]) for path in tree.nodes)
