"""Accuracies by head and rank: every cell in the info, and drawn where it belongs."""

import numpy as np
import pytest
from hypothesis import given
from matplotlib.figure import Figure

from tests.strategies import accuracy_tables
from tests.view.plots.drawing import drawn
from treeopt.search.accuracy import AccuracyTable
from treeopt.view.plots.accuracy import (
    COLUMNS,
    LEAST,
    accuracy_info,
    draw_accuracy_curves,
    draw_accuracy_heatmap,
)

VALUES = np.array([[0.6, 0.05, 0.0], [0.5, 0.3, 0.004]])
KNOWN = AccuracyTable(VALUES, trials=np.array([1200, 80]), low=VALUES / 2, high=VALUES * 1.5)


def test_the_info_has_a_row_for_every_head_and_rank():
    info = accuracy_info(KNOWN)
    assert list(info.columns) == list(COLUMNS)
    rows = list(info.itertuples(index=False, name=None))
    assert rows[:2] == [
        (1, 0, 0.6, 0.3, pytest.approx(0.9), 1200),
        (1, 1, 0.05, 0.025, pytest.approx(0.075), 1200),
    ]
    assert [row[:3] for row in rows[3:]] == [(2, 0, 0.5), (2, 1, 0.3), (2, 2, 0.004)]
    assert {row[-1] for row in rows[3:]} == {80}


def test_intervals_and_trials_that_nobody_knows_are_missing():
    info = accuracy_info(AccuracyTable(VALUES))
    assert info[["low", "high", "trials"]].isna().to_numpy().all()
    assert "intervals" not in drawn(draw_accuracy_curves, info).get_title(loc="left")


def test_the_heatmap_has_each_accuracy_in_percent_in_its_cell():
    axes = drawn(draw_accuracy_heatmap, accuracy_info(KNOWN), ranks=2)
    [picture] = axes.images
    assert np.asarray(picture.get_array()) == pytest.approx(100 * VALUES[:, :2])
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "60", (1, 0): "5.0", (0, 1): "50", (1, 1): "30"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]


def test_the_curves_are_the_accuracies_in_percent_and_their_intervals():
    axes = drawn(draw_accuracy_curves, accuracy_info(KNOWN))
    first, second = axes.lines
    assert [line.get_label() for line in axes.lines] == ["head 1", "head 2"]
    assert list(first.get_ydata()) == pytest.approx([60, 5])  # a guess never right has no place on a log axis
    assert list(second.get_ydata()) == pytest.approx([50, 30, 0.4])
    assert np.round(second.get_xdata()).tolist() == [0, 1, 2]
    ends = [segment[:, 1].tolist() for segment in axes.collections[1].get_segments()]
    assert ends == [pytest.approx(pair) for pair in ([25, 75], [15, 45], [0.2, 0.6])]
    assert "%" in axes.get_ylabel() and "95 %" in axes.get_title(loc="left")
    assert axes.get_ylim()[0] >= LEAST


@given(accuracy_tables())
def test_any_table_can_be_drawn(table):
    info = accuracy_info(table)
    left, right = Figure().subplots(1, 2)
    draw_accuracy_heatmap(left, info)
    draw_accuracy_curves(right, info)
    assert len(left.texts) == len(info) == table.heads * table.width
    assert len(right.lines) == info.groupby("head")["accuracy"].any().sum()
