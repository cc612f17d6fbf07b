"""Trees: one canonical form, checked once."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import InputError
from treeopt.tree import ROOT, Tree

PUBLISHED = Path(__file__).parents[1] / ".." / "shared" / "data" / "published_trees.json"


@given(trees(), st.randoms())
def test_any_spelling_of_a_tree_reaches_one_form(tree, random):
    spelled = [*map(list, tree.choices), *tree.choices]
    random.shuffle(spelled)
    assert Tree.from_choices(spelled) == tree
    assert hash(Tree.from_choices(spelled)) == hash(tree)
    assert tree.choices == tuple(sorted(set(tree.choices), key=lambda path: (len(path), path)))


@given(trees())
def test_shape_agrees_with_the_paths(tree):
    assert tree.size == len(tree.choices) + 1 == len(tree.nodes) == len(tree.parents)
    assert tree.depth == max(map(len, tree.nodes))
    assert tree.max_rank == max((rank for path in tree.choices for rank in path), default=-1)
    for node, path in enumerate(tree.nodes):
        assert tree.depths[node] == len(path)
        assert tree.parents[node] == (tree.nodes.index(path[:-1]) if path else -1)
        below = [i for i, other in enumerate(tree.nodes) if other and other[:-1] == path]
        assert tree.children(node) == tuple(below)


@given(trees(), st.integers(0, 5))
def test_cut_to_depth(tree, depth):
    assert set(tree.up_to_depth(depth).choices) == {path for path in tree.choices if len(path) <= depth}


@given(trees())
def test_a_path_without_its_parent_is_refused_by_name(tree):
    for path in tree.choices:
        if any(other[:-1] == path for other in tree.choices):
            rest = [other for other in tree.choices if other != path]
            orphan = min((other for other in rest if other[:-1] == path), key=lambda path: (len(path), path))
            with pytest.raises(InputError, match=r"mine\.json: .* has no parent") as error:
                Tree.from_choices(rest, where="mine.json")
            assert str(list(orphan)) in str(error.value)
            assert Tree.from_choices(rest, close=True) == tree


def test_missing_ancestors_are_added_only_on_request():
    with pytest.raises(InputError, match=r"\[0, 0, 1\] has no parent \[0, 0\]"):
        Tree.from_choices([[0, 0, 1]])
    assert Tree.from_choices([[0, 0, 1]], close=True).choices == ((0,), (0, 0), (0, 0, 1))


def test_the_bare_root_is_a_tree():
    assert (ROOT.size, ROOT.depth, ROOT.max_rank, ROOT.nodes, ROOT.parents) == (1, 0, -1, ((),), (-1,))
    assert Tree.from_choices([]) == ROOT


def test_numpy_integers_are_integers():
    tree = Tree.from_choices([tuple(path) for path in np.array([[1], [0]])])
    assert tree.choices == ((0,), (1,))
    assert all(type(rank) is int for path in tree.choices for rank in path)


@pytest.mark.parametrize("entry", [3, "01", None, {}, [], [-1], [0.5], ["0"], [None], [True], [[0]]])
def test_what_is_no_path_is_refused_by_its_place(entry):
    with pytest.raises(InputError, match=r"^choices: entry 1 is [^\n]*$"):
        Tree.from_choices([[0], entry])


@pytest.mark.parametrize("choices", [((1,), (0,)), ((0,), (0,)), ([0],), ((0, 0), (0,))])
def test_the_constructor_takes_only_the_canonical_form(choices):
    with pytest.raises(InputError, match="canonical"):
        Tree(choices)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published trees are not here")
def test_published_trees_have_64_nodes_and_10_guesses():
    published = json.loads(PUBLISHED.read_text())["trees"]
    assert len(published) == 9
    for name, choices in published.items():
        tree = Tree.from_choices(choices, where=name)
        assert (tree.size, tree.max_rank) == (64, 9)
