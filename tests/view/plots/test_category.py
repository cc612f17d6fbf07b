"""Values by category: each series beside the others, whatever it is made from."""

from typing import Any

import numpy as np
import pytest

from tests.strategies import rank_table
from tests.view.plots.drawing import drawn
from treeopt.errors import InputError
from treeopt.search.replay import replay
from treeopt.tree import Tree
from treeopt.view.plots.category import APART, COLUMNS, category_info, draw_categories

SERIES: dict[str, Any] = {
    "ours": {"writing": (2.0, 1.5, 2.5), "coding": 3.0},
    "theirs": {"coding": 2.5, "maths": 1.0},
}


def test_the_info_has_values_with_or_without_intervals():
    info = category_info(SERIES)
    assert list(info.columns) == list(COLUMNS)
    assert info[["category", "series", "value"]].to_numpy().tolist() == [
        ["writing", "ours", 2.0],
        ["coding", "ours", 3.0],
        ["coding", "theirs", 2.5],
        ["maths", "theirs", 1.0],
    ]
    assert info[["low", "high"]].to_numpy()[0].tolist() == [1.5, 2.5]
    assert info["low"].isna().tolist() == [False, True, True, True]
    with pytest.raises(InputError, match="no values"):
        category_info({"ours": {}})


def test_a_replay_gives_tokens_per_step_with_intervals():
    table = rank_table(np.zeros((9, 1), int), [3, 4, 2], width=1, categories=["a", "b", "a"])
    replayed = replay(table, Tree.from_choices([[0]]))
    info = category_info({"tree": replayed})
    parts = replayed.by_category()
    assert dict(zip(info["category"], info["value"], strict=True)) == {
        name: part.tokens_per_step for name, part in parts.items()
    }
    assert (info["low"] <= info["value"]).all() and (info["value"] <= info["high"]).all()
    assert info["low"].notna().all()


def test_series_stand_side_by_side_in_their_category():
    axes = drawn(draw_categories, category_info(SERIES), label="speedup (x)")
    ours, theirs = (line for line in axes.lines if line.get_label() in SERIES)
    assert ours.get_xydata().ravel() == pytest.approx([2, -APART / 4, 3, 1 - APART / 4])
    assert theirs.get_xydata().ravel() == pytest.approx([2.5, 1 + APART / 4, 1, 2 + APART / 4])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["writing", "coding", "maths"]
    assert axes.get_xlabel() == "speedup (x)" and axes.yaxis_inverted()
    writing, coding = axes.collections[0].get_segments()
    assert writing[:, 0].tolist() == [1.5, 2.5] and not len(coding)
