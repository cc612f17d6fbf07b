"""Published accuracies continued, and ranks drawn from accuracies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import accuracy_tables
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.ranks import UNKNOWN
from treeopt.search.replay import replay
from treeopt.search.synthetic import drawn_ranks, extrapolated


@given(st.floats(0.01, 0.1), st.floats(1.1, 3), st.integers(2, 6))
def test_a_power_law_is_continued_as_it_is(scale, power, known):
    law = scale * np.arange(1, 11) ** -power
    law[0] = 0.5  # the top guess is not of the law
    found = extrapolated(AccuracyTable(law[None, : known + 1]), 10)
    np.testing.assert_allclose(found.values[0], law)


def test_what_is_known_stays_and_what_is_too_much_is_cut():
    known = AccuracyTable(np.array([[0.5, 0.1, 0.06, 0.03], [0.3, 0.1, 0.07, 0.05]]))
    np.testing.assert_array_equal(extrapolated(known, 9).values[:, :4], known.values)
    np.testing.assert_array_equal(extrapolated(known, 2).values, known.values[:, :2])


def test_nothing_follows_from_one_guess_beside_the_top():
    with pytest.raises(InputError, match="head 2 has 1 guesses above 0"):
        extrapolated(AccuracyTable(np.array([[0.5, 0.1, 0.05], [0.5, 0.1, 0.0]])), 5)


def test_accuracies_that_would_sum_above_1_are_refused():
    with pytest.raises(InputError, match=r"extrapolated accuracies: head 1 sums to"):
        extrapolated(AccuracyTable(np.array([[0.5, 0.1, 0.1]])), 9)


@given(accuracy_tables(), st.integers(0, 4), st.integers(0, 6))
def test_drawn_ranks_are_a_table_of_answers_of_that_length(accuracies, answers, length):
    table = drawn_ranks(accuracies, answers, length)
    assert (table.lengths == length).all() and len(table.ids) == answers
    unknown = table.offset[:, None] + np.arange(1, table.heads + 1) >= length
    np.testing.assert_array_equal(table.ranks == UNKNOWN, unknown)
    np.testing.assert_array_equal(table.ranks, drawn_ranks(accuracies, answers, length).ranks)


def test_drawn_ranks_have_these_accuracies_and_independent_heads():
    accuracies = AccuracyTable(np.array([[0.6, 0.2, 0.0, 0.1], [0.3, 0.1, 0.2, 0.0]]))
    table = drawn_ranks(accuracies, 200, 100, seed=1)
    np.testing.assert_allclose(table.accuracy().values, accuracies.values, atol=0.02)
    np.testing.assert_array_equal(table.accuracy().values[accuracies.values == 0], 0)
    growth = grow(Independent(accuracies), 8)
    assert replay(table, growth.tree(8)).tokens_per_step == pytest.approx(growth.tokens_per_step[7], rel=0.02)
