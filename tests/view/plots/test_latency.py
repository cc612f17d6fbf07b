"""The staircase of latencies: medians and quartiles as sampled, each part as its own line."""

import numpy as np
import pytest

from tests.view.plots.drawing import drawn
from treeopt.errors import InputError
from treeopt.search.latency import LatencyProfile
from treeopt.view.plots.latency import COLUMNS, draw_latency, latency_info


def profile(*sizes, simulated=False):
    rows = [
        {"batch": batch, "context": 100, "tokens": tokens, "part": part, "latency_ms": batch * latency}
        for batch in (1, 4)
        for tokens, part, latencies in sizes
        for latency in latencies
    ]
    return LatencyProfile.from_rows(rows, simulated=simulated)


MEASURED = profile(
    (8, "step", [5, 1, 3, 2, 4]),
    (1, "plain", [2]),
    (2, "step", [2, 2]),
    (8, "heads", [0.5]),
    (2, "heads", [0.4]),
)


def test_the_info_has_median_and_quartiles_of_every_part_and_size():
    info = latency_info(MEASURED, 1, 100)
    assert list(info.columns) == list(COLUMNS)
    assert list(info.itertuples(index=False, name=None)) == [
        ("plain", 1, 2.0, 2.0, 2.0, False),
        ("step", 2, 2.0, 2.0, 2.0, False),
        ("step", 8, 3.0, 2.0, 4.0, False),
        ("heads", 2, 0.4, 0.4, 0.4, False),
        ("heads", 8, 0.5, 0.5, 0.5, False),
    ]
    assert latency_info(MEASURED, 4, 100)["median"].tolist() == [8, 8, 12, 1.6, 2]


def test_a_step_of_one_token_stands_for_plain_decoding_that_was_not_timed():
    info = latency_info(profile((1, "step", [3]), (4, "step", [5])), 1, 100)
    assert info[["part", "tokens", "median"]].to_numpy().tolist() == [
        ["plain", 1, 3],
        ["step", 1, 3],
        ["step", 4, 5],
    ]


def test_a_setting_that_was_not_timed_is_named_with_those_that_were():
    with pytest.raises(
        InputError, match=r"batch 2, context 100; there are batch 1 context 100, batch 4 context 100"
    ):
        latency_info(MEASURED, 2, 100)


@pytest.mark.parametrize("simulated", [False, True])
def test_the_drawing_has_a_staircase_a_part_and_a_line_of_plain_decoding(simulated):
    info = latency_info(LatencyProfile(MEASURED.samples, simulated), 1, 100)
    axes = drawn(draw_latency, info)
    plain, *stairs = axes.lines
    assert list(plain.get_ydata()) == [2, 2] and plain.get_label() == "plain decoding"
    assert {line.get_label(): line.get_xydata().tolist() for line in stairs} == {
        "whole step": [[2, 2], [8, 3]],
        "heads": [[2, 0.4], [8, 0.5]],
    }
    assert {line.get_drawstyle() for line in stairs} == {"steps-mid"}
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (2, 4)
    assert "ms" in axes.get_ylabel() and "N" in axes.get_xlabel()
    assert axes.get_title(loc="right") == "simulated" * simulated
    assert np.isfinite(axes.get_ylim()).all()
