"""The map of the best size: every setting in its cell, and no tree said in words."""

from dataclasses import replace

import pytest

from tests.view.plots.drawing import drawn
from tests.view.plots.test_throughput import CHOICE, NO_TREE
from treeopt.errors import InputError
from treeopt.view.plots.settings import COLUMNS, draw_settings, settings_info

CHOICES = [
    replace(NO_TREE, batch=16, context=2048),
    replace(CHOICE, batch=1, context=100, tokens=64, speedup=2.345),
    replace(CHOICE, batch=16, context=100, tokens=8, speedup=1.2),
]


def test_the_info_has_a_row_for_every_setting_in_rising_order():
    info = settings_info(CHOICES)
    assert list(info.columns) == list(COLUMNS)
    assert info[["batch", "context", "tokens", "speedup"]].to_numpy().tolist() == [
        [1, 100, 64, 2.345],
        [16, 100, 8, 1.2],
        [16, 2048, 1, 1.5],
    ]
    with pytest.raises(InputError, match="no choices"):
        settings_info([])


@pytest.mark.parametrize(("value", "written"), [("tokens", ["64", "8"]), ("speedup", ["2.35", "1.20"])])
def test_each_cell_has_its_number_or_no_tree(value, written):
    axes = drawn(draw_settings, settings_info(CHOICES), value=value)
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): written[0], (0, 1): written[1], (1, 1): "no\ntree"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "2k"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "16"]
    assert "simulated" not in axes.get_title(loc="left")


def test_a_table_of_other_making_is_drawn_and_marked_where_simulated():
    info = settings_info(CHOICES)[["batch", "context", "tokens", "speedup"]]
    assert len(drawn(draw_settings, info).texts) == 3
    assert "simulated" in drawn(draw_settings, info.assign(simulated=True)).get_title(loc="left")


def test_no_tree_anywhere_is_drawn_too():
    axes = drawn(draw_settings, settings_info([NO_TREE]))
    assert [text.get_text() for text in axes.texts] == ["no\ntree"]
    with pytest.raises(InputError, match="cannot draw 'latency'"):
        drawn(draw_settings, settings_info([NO_TREE]), value="latency")
