"""Ratios by category, against sums by hand."""

import pandas as pd

from treeopt.search.categories import ratios_by_category

LOG = pd.DataFrame(
    [
        (1, "math", 30, 10),
        (1, "math", 10, 10),
        (2, "math", 40, 10),
        (3, "coding", 12, 4),
        (3, "coding", 12, 4),
    ],
    columns=["question", "category", "tokens", "steps"],
)


def test_ratios_are_of_sums():
    found = ratios_by_category(LOG, "tokens", "steps")
    assert list(found) == ["math", "coding"]
    assert (found["math"][0], found["coding"][0]) == (80 / 30, 3)


def test_intervals_draw_questions_and_not_answers():
    low, high = ratios_by_category(LOG, "tokens", "steps")["math"][1:]
    assert (low, high) == (2, 4)  # one question alone, or the other: its two answers stay together
    assert ratios_by_category(LOG, "tokens", "steps")["coding"] == (3, 3, 3)
