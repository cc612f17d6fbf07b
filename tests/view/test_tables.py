"""Tables of text: aligned, and nothing left out without a sign."""

import numpy as np
import pytest

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choose import choose
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.view.tables import accuracy_table, curve_table, runs_table, runs_text, table

ACCURACIES = AccuracyTable(np.array([[0.6, 0.2], [0.5, 0.3]]))


def test_a_table_is_aligned():
    assert table(["name", "N", "token/s"], [["a", 4, 12.5], ["longer", 1234, None]]).splitlines() == [
        "name        N  token/s",
        "a           4   12.500",
        "longer  1,234        -",
    ]
    assert table(["name", "N"], []) == "name  N"


@pytest.mark.parametrize(("latency", "chosen"), [(11, "4"), (99, "plain")])
def test_the_curve_starts_with_plain_decoding_and_marks_the_choice(latency, chosen):
    rows = [
        {"batch": 1, "context": 0, "tokens": n, "latency_ms": ms}
        for n, ms in ((1, 10), (2, 99), (4, latency))
    ]
    [choice] = choose(LatencyProfile.from_rows(rows), grow(Independent(ACCURACIES), 4), None)
    lines = curve_table(choice).splitlines()
    assert [line.split()[0] for line in lines] == ["N", "plain", "2", "4"]
    assert [line.split()[0] for line in lines if line.endswith("<")] == [chosen]


def test_accuracies_stand_with_their_trials_and_intervals():
    values = ACCURACIES.values
    known = AccuracyTable(values, trials=np.array([1200, 80]), low=values - 0.1, high=values + 0.1)
    assert accuracy_table(known).splitlines() == [
        "head  trials               rank 0               rank 1",
        "1      1,200  0.600 (0.500-0.700)  0.200 (0.100-0.300)",
        "2         80  0.500 (0.400-0.600)  0.300 (0.200-0.400)",
    ]
    assert accuracy_table(ACCURACIES, ranks=1).splitlines() == [
        "head  trials  rank 0",
        "1          -   0.600",
        "2          -   0.500",
    ]


def test_runs_show_the_columns_that_some_run_has():
    runs = [
        {"name": "plain", "tokens": 1, "tokens_per_step": 1.0, "choices": None, "identical_to_plain": True},
        {"name": "best", "tokens": 16, "tokens_per_step": 1.8, "choices": [[0]], "identical_to_plain": False},
    ]
    assert runs_table(runs).splitlines() == [
        "name    N  tokens/step  as plain",
        "plain   1        1.000       yes",
        "best   16        1.800        no",
    ]


def test_runs_show_what_depths_and_categories_accepted():
    part = {"tokens_per_step": 1.5, "interval": [1.25, 1.75], "acceptance": [0.5, None]}
    runs = [
        {"name": "plain", "tokens": 1, "tokens_per_step": 1.0, "acceptance": [], "categories": {}},
        {"name": "best", "tokens": 16, **part, "categories": {"code": part | {"acceptance": [0.25]}}},
    ]
    first, second, legend = runs_text(runs).split("\n\n")
    assert first.splitlines() == [
        "name    N  tokens/step         95 %",
        "plain   1        1.000            -",
        "best   16        1.500  1.250-1.750",
    ]
    assert second.splitlines() == [
        "name   category  tokens/step         95 %  depth 1  depth 2",
        "plain       all        1.000            -        -        -",
        "best        all        1.500  1.250-1.750    0.500        -",
        "best       code        1.500  1.250-1.750    0.250        -",
    ]
    assert legend.startswith("depth k: ")
    assert "depth" not in runs_text(runs[:1])
    many = runs_text(runs * 5)
    assert "code" not in many and many.endswith("by category: --json")
