"""Token/s by size: plain decoding, every timed size, and the one that was chosen."""

from dataclasses import replace

import pytest

from tests.view.plots.drawing import drawn
from treeopt.search.choice import Choice, Plain, Point
from treeopt.view.plots.throughput import COLUMNS, draw_throughput, throughput_info

CURVE = (Point(2, 1.5, 12.0, 125.0, (110.0, 140.0)), Point(4, 2.0, 16.0, 125.0 + 25, None))
CHOICE = Choice(
    batch=1,
    context=64,
    dtype="float32",
    choices=((0,), (1,), (0, 0)),
    tokens=4,
    tokens_per_step=2.0,
    latency_ms=16.0,
    tokens_per_s=150.0,
    interval=None,
    plain=Plain(10.0, 100.0),
    speedup=1.5,
    curve=CURVE,
    estimated_from="replay",
    simulated=False,
)
NO_TREE = replace(
    CHOICE,
    choices=None,
    tokens=1,
    tokens_per_step=1.0,
    latency_ms=10.0,
    tokens_per_s=100.0,
    interval=(90.0, 110.0),
)


def test_the_info_has_plain_decoding_then_every_size():
    info = throughput_info(CHOICE)
    assert list(info.columns) == list(COLUMNS)
    numbers = info.drop(columns=["low", "high"])
    assert list(numbers.itertuples(index=False, name=None)) == [
        ("plain", 1, 1.0, 10.0, 100.0, 1.0, False, False),
        ("tree", 2, 1.5, 12.0, 125.0, 1.25, False, False),
        ("tree", 4, 2.0, 16.0, 150.0, 1.5, True, False),
    ]
    assert info["low"].isna().tolist() == [True, False, True]
    assert info[["low", "high"]].to_numpy()[1].tolist() == [110, 140]


def test_no_tree_chooses_plain_decoding():
    info = throughput_info(NO_TREE)
    assert info["chosen"].tolist() == [True, False, False]
    assert info[["low", "high"]].to_numpy()[0].tolist() == [90, 110]


@pytest.mark.parametrize(
    ("choice", "star", "words"),
    [
        (CHOICE, [4, 150], "chosen: N = 4, 150 token/s, 1.50x"),
        (NO_TREE, [1, 100], "chosen: no tree, 100 token/s, 1.00x"),
    ],
)
@pytest.mark.parametrize("simulated", [False, True])
def test_the_drawing_has_the_curve_plain_decoding_and_the_chosen_point(choice, star, words, simulated):
    axes = drawn(draw_throughput, throughput_info(replace(choice, simulated=simulated)))
    plain, curve, chosen = axes.lines
    assert list(plain.get_ydata()) == [100, 100]
    assert curve.get_xydata().tolist() == [[2, 125], [4, 150]]
    assert chosen.get_xydata().tolist() == [star] and chosen.get_label() == words
    assert axes.get_xscale() == "log" and [label.get_text() for label in axes.get_xticklabels()] == [
        "1",
        "2",
        "4",
    ]
    assert axes.get_title(loc="right") == "simulated" * simulated


def test_a_choice_without_sizes_is_drawn_too():
    axes = drawn(draw_throughput, throughput_info(replace(NO_TREE, curve=())))
    assert axes.lines[2].get_xydata().tolist() == [[1, 100]]
