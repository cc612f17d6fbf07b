"""What a run comes to: the figures and the sentence, whichever of them are known."""

from dataclasses import replace

import numpy as np
import pytest

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choose import choose
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.view.outcome import figures, figures_cells, off_prediction, recommendation, slower_than_plain

ACCURACIES = AccuracyTable(np.array([[0.6, 0.2], [0.5, 0.3]]))


def choice(latency_ms=11, *, simulated=False):
    rows = [{"batch": 1, "context": 8, "tokens": n, "latency_ms": ms} for n, ms in ((1, 10), (3, latency_ms))]
    profile = LatencyProfile.from_rows(rows, simulated=simulated)
    [chosen] = choose(profile, grow(Independent(ACCURACIES), 3), None)
    return chosen


def evaluation(chosen, measured=None, **plain):
    runs = [{"name": name, "choices": [], "tokens_per_s": rate} for name, rate in plain.items()]
    if measured is not None:
        runs.append(
            {"name": "tree", "choices": [list(p) for p in chosen.tree.choices], "tokens_per_s": measured}
        )
    return {"runs": runs}


def test_measured_is_of_the_chosen_tree_and_speedup_over_the_faster_plain_decoder():
    chosen = choice()
    found = figures(chosen, None, evaluation(chosen, 150.0, plain=100.0, hf_generate=120.0))
    assert (found["measured"], found["plain"], found["hf_generate"]) == (150.0, 100.0, 120.0)
    assert found["speedup"] == pytest.approx(1.25)
    other = evaluation(chosen, plain=100.0)
    other["runs"].append({"name": "other", "choices": [[0]], "tokens_per_s": 999.0})
    assert figures(chosen, None, other)["measured"] is None
    assert figures(replace(chosen, batch=4), None, evaluation(chosen, 150.0))["measured"] is None


def test_the_best_tree_is_held_against_the_faster_plain_decoder():
    chosen = choice()
    assert slower_than_plain(evaluation(chosen, 150.0, plain=100.0, hf_generate=120.0)) is None
    assert slower_than_plain(evaluation(chosen, plain=100.0)) is None, "no tree, nothing slower"
    text = slower_than_plain(evaluation(chosen, 110.0, plain=100.0, hf_generate=120.0))
    assert text is not None and "110.0 token/s with tree, 120.0 without" in text
    two = evaluation(chosen, 110.0, plain=120.0)
    two["runs"].append({"name": "other", "choices": [[0]], "tokens_per_s": 130.0})
    assert slower_than_plain(two) is None


def test_replayed_is_tokens_per_step_over_latency():
    ranks = RankTable(
        ranks=np.array([[0, 0], [0, -1], [-1, -1]]),
        sequence=np.zeros(3, int),
        offset=np.arange(3),
        ids=("a",),
        categories=("x",),
        ended=("limit",),
        width=2,
    )
    assert figures(choice(), ranks, None)["replayed"] == pytest.approx(3 * 1000 / 11)


@pytest.mark.parametrize(
    ("chosen", "measured", "words"),
    [
        (choice(), None, "predicted 1.73x plain decoding, not yet measured by decoding, at batch 1"),
        (choice(simulated=True), None, "predicted 1.73x plain decoding, simulated, not measured"),
        (choice(), 150.0, "Decode with the tree of 3 tokens: measured 1.50x the fastest plain decoding"),
        (choice(), 90.0, "Decode plainly: the tree of 3 tokens was chosen, but measured 0.90x"),
        (choice(99), None, "Decode plainly: no tree of these heads is faster on this machine"),
        (choice(99, simulated=True), None, "no tree of these heads is faster by the hardware model"),
    ],
)
def test_the_recommendation_says_what_it_rests_on(chosen, measured, words):
    found = figures(chosen, None, evaluation(chosen, measured, plain=100.0) if measured else None)
    assert words in recommendation(chosen, found)


def test_what_is_not_known_has_no_row():
    _, rows = figures_cells(figures(choice(), None, None))
    assert [row[0] for row in rows] == ["predicted by the choice"]


@pytest.mark.parametrize(
    ("measured", "interval", "off"),
    [
        (99.0, (100.0, 120.0), True),
        (121.0, (100.0, 120.0), True),
        (100.0, (100.0, 120.0), False),
        (99.0, None, False),
        (None, (100.0, 120.0), False),
    ],
)
def test_a_measurement_outside_the_predicted_interval_is_said(measured, interval, off):
    text = off_prediction({"measured": measured, "predicted_interval": interval})
    assert (text is not None) == off
    if text:
        assert (
            text == f"measured {measured:.1f} token/s, outside the predicted 95 % interval of 100.0 to 120.0"
        )
