"""The text drawing: every node is there, once, under its parent, in lines that fit."""

import re

from hypothesis import given

from tests.strategies import trees
from treeopt.search.baselines import dense
from treeopt.tree import ROOT, Tree
from treeopt.view.tree import WIDTH, draw


def paths_of(drawing: str) -> list[tuple[int, ...]]:
    """The paths a reader sees: a node's depth is told by its indentation, its parent by the line above it."""
    paths: list[tuple[int, ...]] = []
    above: list[int] = []
    for line in drawing.splitlines()[1:]:
        branch = "─" in line  # else the labels of the line before go on
        ranks = [int(label.partition(":")[0]) for label in line.lstrip("│ ├└─").split("   ")]
        depth = len(re.split(r"[├└\d]", line)[0]) // 3 - (not branch)
        paths += [(*above[:depth], rank) for rank in ranks]
        if branch:
            above = [*above[:depth], ranks[0]]
    return paths


@given(trees(max_depth=5, max_rank=12, max_leaves=40))
def test_the_drawing_shows_every_path_once_parents_first(tree):
    paths = paths_of(draw(tree))
    assert sorted(paths, key=lambda path: (len(path), path)) == list(tree.choices)
    assert draw(tree).startswith(f"{tree.size} node")


@given(trees(max_depth=3, max_rank=30, max_leaves=60))
def test_values_change_nothing_but_the_labels_and_lines_stay_short(tree):
    values = {path: 0.9 ** len(path) / (1 + path[-1]) for path in tree.choices}
    drawing = draw(tree, values)
    assert paths_of(drawing) == paths_of(draw(tree))
    assert max(map(len, drawing.splitlines()[1:]), default=0) <= WIDTH


def test_the_drawing_reads_as_intended():
    tree = Tree.from_choices([[0], [1], [2], [0, 0], [0, 1], [0, 0, 0], [2, 0]])
    values = {path: 0.5 ** len(path) for path in tree.choices} | {(2, 0): 0.00031}
    assert draw(tree, values).splitlines() == [
        "8 nodes: the root, 3 at depth 1, 3 at depth 2, 1 at depth 3. Below, each by its rank: value",
        "├─ 0: 0.500",
        "│  ├─ 0: 0.250",
        "│  │  └─ 0: 0.125",
        "│  └─ 1: 0.250",
        "├─ 1: 0.500",
        "└─ 2: 0.500",
        "   └─ 0: 3e-04",
    ]
    assert draw(tree).splitlines()[1:4] == ["├─ 0", "│  ├─ 0", "│  │  └─ 0"]


def test_siblings_without_children_share_lines_that_wrap_between_labels():
    lines = draw(dense([40]), {(rank,): 0.01 for rank in range(40)}).splitlines()[1:]
    assert len(lines) == 5
    assert lines[0].startswith("└─ 0: 0.010   1: 0.010   2: 0.010")
    assert lines[1].startswith("   9: 0.010")


def test_plain_decoding_is_the_root_alone():
    assert draw(ROOT) == "1 node: the root alone, plain decoding"


def test_a_very_deep_tree_is_drawn():
    assert len(draw(dense([1] * 2000)).splitlines()) == 2001
