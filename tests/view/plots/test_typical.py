"""The sweep over epsilon, with the rules that have none as level lines."""

import pytest

from tests.view.plots.drawing import drawn
from treeopt.errors import InputError
from treeopt.view.plots.typical import COLUMNS, draw_typical, typical_info


def record(rule, epsilon, rate, **more):
    return {
        "rule": rule,
        "epsilon": epsilon,
        "tokens_per_step": rate,
        "surprise_gap": rate / 10,
        "repetition": rate / 5,
        **more,
    }


RECORDS = [
    record("sampled", None, 1.5),
    record("typical", 0.25, 2.0, low=1.9, high=2.1),
    record("greedy", None, 1.8),
    record("typical", 0.01, 2.5, low=2.4, high=2.6),
]


def test_the_info_has_typical_decodings_by_epsilon_first():
    info = typical_info(RECORDS)
    assert list(info.columns) == list(COLUMNS)
    assert info[["rule", "tokens_per_step"]].to_numpy().tolist() == [
        ["typical", 2.5],
        ["typical", 2.0],
        ["sampled", 1.5],
        ["greedy", 1.8],
    ]
    assert info["epsilon"].tolist()[:2] == [0.01, 0.25] and info["epsilon"].isna().sum() == 2
    assert info["low"].tolist()[:2] == [2.4, 1.9] and info["low"].isna().sum() == 2


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "no records"),
        ([{"rule": "greedy"}], "record 0 has no 'epsilon'"),
        ([RECORDS[0], record("typical", None, 1)], "record 1 is 'typical' with epsilon None"),
        ([record("greedy", 0.1, 1)], "record 0 is 'greedy' with epsilon 0.1"),
        ([record("nucleus", None, 1)], "record 0 is 'nucleus'"),
    ],
)
def test_records_that_are_none_are_refused(records, words):
    with pytest.raises(InputError, match=words):
        typical_info(records)


@pytest.mark.parametrize(
    ("y", "scale", "unit"),
    [("tokens_per_step", 1, "per step"), ("surprise_gap", 0.1, "nats"), ("repetition", 20, "%")],
)
def test_the_drawing_has_a_curve_and_level_lines(y, scale, unit):
    axes = drawn(draw_typical, typical_info(RECORDS), y=y)
    curve, greedy, sampled = axes.lines
    assert list(curve.get_xdata()) == [0.01, 0.25]
    assert list(curve.get_ydata()) == pytest.approx([2.5 * scale, 2.0 * scale])
    assert list(greedy.get_ydata()) == pytest.approx([1.8 * scale] * 2) and greedy.get_label() == "greedy"
    assert list(sampled.get_ydata()) == pytest.approx([1.5 * scale] * 2)
    assert greedy.get_linestyle() != sampled.get_linestyle() and unit in axes.get_ylabel()


def test_another_y_is_refused():
    with pytest.raises(InputError, match="cannot draw 'speed'"):
        drawn(draw_typical, typical_info(RECORDS), y="speed")
