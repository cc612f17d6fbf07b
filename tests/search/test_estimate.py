"""Estimators."""

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import accuracy_tables
from treeopt.search.estimate import Independent


@given(accuracy_tables(), st.integers(0, 4))
def test_guesses_come_by_falling_probability_then_rank(table, highest):
    estimator = Independent(table).up_to_rank(highest)
    for head in range(table.heads):
        row = table.values[head, : highest + 1]
        ranks, probabilities = estimator.children((0,) * head)
        assert list(ranks) == sorted(range(len(row)), key=lambda rank: (-row[rank], rank))
        assert list(probabilities) == [row[rank] for rank in ranks]
    assert estimator.children((0,) * table.heads) == ((), ())
