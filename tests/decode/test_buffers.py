"""Tree buffers against the tree walked node by node."""

import pytest
import torch
from hypothesis import given

from tests.strategies import trees
from treeopt.decode.buffers import TreeBuffers
from treeopt.errors import MismatchError
from treeopt.tree import ROOT, Tree

CPU = torch.device("cpu")


def build(tree, heads=4, vocabulary=100):
    return TreeBuffers.build(tree, heads, vocabulary, CPU)


@given(trees())
def test_a_node_sees_itself_and_its_ancestors(tree):
    visible = build(tree).visible
    for i, node in enumerate(tree.nodes):
        for j, other in enumerate(tree.nodes):
            is_ancestor = any(other == node[:length] for length in range(len(node) + 1))
            assert bool(visible[i, j]) == is_ancestor


@given(trees())
def test_depths_children_and_drafts(tree):
    buffers = build(tree)
    assert buffers.depths.tolist() == [len(node) for node in tree.nodes]
    for node, children in enumerate(buffers.children):
        assert [tree.nodes[child][:-1] for child in children] == [tree.nodes[node]] * len(children)
    assert sum(map(len, buffers.children)) == tree.size - 1
    guesses = [(head, rank) for head in range(4) for rank in range(buffers.width)]
    assert [guesses[index] for index in buffers.draft_index] == [
        (len(path) - 1, path[-1]) for path in tree.choices
    ]


def test_the_bare_root_needs_no_heads():
    buffers = build(ROOT, heads=0)
    assert buffers.width == 0 and not len(buffers.draft_index) and buffers.visible.tolist() == [[True]]


def test_a_tree_deeper_than_the_heads_is_refused_by_its_path():
    tree = Tree.from_choices([[0], [0, 1], [0, 1, 0], [0, 1, 0, 2]])
    with pytest.raises(MismatchError, match=r"\[0, 1, 0, 2\] has depth 4, but there are 3 heads"):
        build(tree, heads=3)


def test_a_rank_past_the_vocabulary_is_refused_by_its_path():
    assert build(Tree.from_choices([[6]]), vocabulary=7).width == 7
    with pytest.raises(MismatchError, match=r"\[0, 7\] takes rank 7, but there are 7 tokens"):
        build(Tree.from_choices([[0], [0, 7]]), vocabulary=7)
