"""Layout and drawing of trees: nothing crosses, nothing overlaps, and what is drawn is what the info says."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from tests.strategies import trees
from tests.view.plots.drawing import drawn
from treeopt.search.baselines import chain, dense
from treeopt.tree import ROOT, Tree
from treeopt.view.plots.tree import COLUMNS, LARGEST, SMALLEST, SPACE, draw_tree, tree_info
from treeopt.view.style import MUTED

SMALL_TREE = Tree.from_choices([[0], [1], [0, 0], [0, 2]])
VALUES = {(0,): 0.6, (1,): 0.25, (0, 0): 0.3, (0, 2): 1e-5}


def test_a_tree_laid_out_by_hand():
    info = tree_info(SMALL_TREE, VALUES)
    assert list(info.columns) == list(COLUMNS)
    assert list(info.itertuples(index=False, name=None)) == [
        ((), None, 0, -1, 1.0, 0, 1.0),
        ((0,), (), 1, 0, 0.5, -1, 0.6),
        ((1,), (), 1, 1, 1.5, -1, 0.25),
        ((0, 0), (0,), 2, 0, 0.0, -2, 0.3),
        ((0, 2), (0,), 2, 2, 1.0, -2, 1e-5),
    ]


def test_subtrees_that_do_not_reach_each_other_stand_close():
    deep = tree_info(Tree.from_choices([[0], [1], [1, 0], [1, 1], [1, 2]])).set_index("path")["x"]
    assert deep[(1,)] - deep[(0,)] == SPACE  # three grandchildren on one side only need no room above
    both = tree_info(dense([2, 3])).set_index("path")["x"]
    assert both[(1,)] - both[(0,)] == 3 * SPACE


@given(trees(max_depth=5, max_rank=5, max_leaves=20))
def test_no_two_nodes_of_a_layer_are_too_close_and_no_edges_cross(tree):
    info = tree_info(tree)
    assert info["x"].min() == 0
    for _, layer in info.groupby("depth"):
        order = layer.sort_values("path")
        assert (
            np.diff(order["x"]) >= SPACE - 1e-9
        ).all()  # in the order of paths, so of parents too: no crossing
    place = info.set_index("path")["x"]
    for node in range(tree.size):
        children = [place[tree.nodes[child]] for child in tree.children(node)]
        if children:
            assert place[tree.nodes[node]] == pytest.approx((children[0] + children[-1]) / 2)


def test_values_set_area_and_colour_and_ranks_stand_on_the_edges():
    axes = drawn(draw_tree, tree_info(SMALL_TREE, VALUES))
    edges, points = axes.collections
    info = tree_info(SMALL_TREE, VALUES)
    assert np.asarray(points.get_offsets()) == pytest.approx(info[["x", "y"]].to_numpy(float))
    assert points.get_sizes() == pytest.approx(
        [LARGEST, 0.6 * LARGEST, 0.25 * LARGEST, 0.3 * LARGEST, SMALLEST]
    )
    assert np.asarray(points.get_array()) == pytest.approx([1, 0.6, 0.25, 0.3, 1e-5])
    place: dict[Any, Any] = {
        path: (x, y) for path, x, y in zip(info["path"], info["x"], info["y"], strict=True)
    }
    ends = [(tuple(curve[0]), tuple(curve[-1])) for curve in edges.get_segments()]
    assert ends == [(place[path[:-1]], place[path]) for path in SMALL_TREE.choices]
    assert [(text.get_text(), text.get_position()[0]) for text in axes.texts] == [
        (str(path[-1]), place[path][0]) for path in SMALL_TREE.choices
    ]
    [_, bar] = axes.figure.axes
    assert bar.get_ylabel() == "probability that the path is right"


def test_a_tree_without_values_has_grey_nodes_and_no_colourbar():
    axes = drawn(draw_tree, tree_info(chain(3)))
    assert len(axes.figure.axes) == 1
    assert [tuple(colour) for colour in axes.collections[1].get_facecolors()] == [to_rgba(MUTED)]


def test_the_bare_root_can_be_drawn():
    choices: list[Any] = [None, {}, {(): 1.0}]
    for values in choices:
        axes = drawn(draw_tree, tree_info(ROOT, values))
        assert len(axes.collections[1].get_offsets()) == 1 and not axes.texts


@pytest.mark.parametrize(("width", "every"), [(6.3, True), (3.3, False)])
def test_ranks_never_run_into_each_other(width, every):
    figure = Figure(figsize=(width, 3), layout="constrained")
    tree = dense([16, 2])
    axes: Any = draw_tree(figure.subplots(), tree_info(tree, dict.fromkeys(tree.choices, 0.5)))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    for one, other in pairwise(boxes):
        assert one.y0 != other.y0 or one.x1 <= other.x0
    assert (len(boxes) == len(tree.choices)) == every
