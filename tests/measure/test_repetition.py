"""The share of repeated n-grams against a slow twin and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.measure.repetition import repeated_share


def slow_share(ids: list[int], n: int) -> float:
    """Look at every n-gram and search for it among all earlier ones."""
    starts = range(len(ids) - n + 1)
    repeats = [any(ids[i : i + n] == ids[j : j + n] for j in range(i)) for i in starts]
    return sum(repeats) / len(repeats) if repeats else 0.0


@pytest.mark.parametrize(
    ("ids", "share"),
    [
        ([], 0.0),
        ([1, 2, 3], 0.0),
        ([1, 2, 3, 4], 0.0),
        ([1, 2, 3, 4, 1, 2, 3, 4], 1 / 5),
        ([7] * 5, 1 / 2),
        ([7] * 103, 99 / 100),
        (list(range(100)), 0.0),
    ],
)
def test_known_shares_of_four_grams(ids, share):
    assert repeated_share(ids) == pytest.approx(share)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 5))
def test_equals_the_slow_search(ids, n):
    assert repeated_share(ids, n) == pytest.approx(slow_share(ids, n))
