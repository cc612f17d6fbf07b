"""What the plots of dependent heads show is what their infos say."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from tests.strategies import rank_table
from treeopt.search.independence import depth_shares, top_chain
from treeopt.tree import Tree
from treeopt.view.plots.independence import WAYS, draw_depth_shares, draw_top_chain


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    easy = rng.random((400, 1)) < 0.5
    return rank_table(np.where(rng.random((400, 3)) < np.where(easy, 0.9, 0.3), 0, 1), [20] * 20, width=2)


def named(axes):
    legend = axes.get_legend()
    return [text.get_text() for text in legend.texts]


def test_a_chain_is_a_line_with_its_intervals(table):
    info = top_chain(table)
    axes = draw_top_chain(Figure().subplots(), info, label="first")
    assert draw_top_chain(axes, info, label="second", place=1) is axes
    for name, line in zip(("first", "second"), (axes.lines[0], axes.lines[-1]), strict=True):
        assert line.get_label() == name
        np.testing.assert_array_equal(line.get_ydata(), info["ratio"])
    intervals = axes.collections[0]
    assert isinstance(intervals, LineCollection)
    ends = np.array([np.asarray(segment)[:, 1] for segment in intervals.get_segments()])
    np.testing.assert_array_equal(ends, info[["low", "high"]])
    assert named(axes) == ["first", "second"]
    assert axes.get_xlabel() and "/" in axes.get_ylabel()
    assert axes.get_ylim()[1] >= info["high"].max()


def test_shares_are_bars_and_the_legend_adds_them_up(table):
    info = depth_shares(table, Tree.from_choices([[0], [1], [0, 0], [0, 0, 0]]))
    axes = draw_depth_shares(Figure().subplots(), info)
    for bars, way in zip(axes.containers, WAYS, strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(100 * info[way])
    assert named(axes) == [f"{name}: {1 + info[way].sum():.3f}" for way, name in WAYS.items()]
    assert "(%)" in axes.get_ylabel()
