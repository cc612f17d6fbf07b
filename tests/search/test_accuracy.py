"""Accuracy tables: checked numbers, pooling, trials."""

import numpy as np
import pytest
from hypothesis import given

from tests.strategies import accuracy_tables
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.accuracy_files import read_accuracy


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([[0.5, 0.6]], r"head 1 sums to 1\.1, above 1; .*cumulative"),
        ([[0.5], [1.5]], r"head 2, rank 0 is 1\.5; accuracies lie from 0 to 1"),
        ([[0.5, -0.1]], r"head 1, rank 1 is -0\.1"),
        ([[0.5, np.nan]], "head 1, rank 1 is nan"),
        ([[0.5, np.inf]], "head 1, rank 1 is inf"),
        ([[]], r"shape \(1, 0\)"),
        ([0.5], r"shape \(1,\)"),
    ],
)
def test_wrong_numbers_are_refused_by_head_and_rank(values, complaint):
    with pytest.raises(InputError, match=rf"^mine: [^\n]*{complaint}[^\n]*$"):
        AccuracyTable(np.array(values, float), where="mine")


def test_rounding_may_exceed_one_by_a_little():
    AccuracyTable(np.array([[0.3333334, 0.3333333, 0.3333334]]))


@given(accuracy_tables())
def test_cumulative_tables_are_differenced(table):
    cumulative = np.cumsum(table.values, axis=1)
    np.testing.assert_array_equal(AccuracyTable.from_cumulative(cumulative).values, table.values)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([[0.1, 0.2], [0.5, 0.4]], r"head 2 falls from 0\.5 at rank 0 to 0\.4 at rank 1"),
        ([[0.1, 1.2]], r"head 1, rank 1 is 1\.2"),
        ([[np.nan, 0.2]], "head 1, rank 0 is nan"),
    ],
)
def test_cumulative_tables_that_cannot_be_are_refused(values, complaint):
    with pytest.raises(InputError, match=complaint):
        AccuracyTable.from_cumulative(np.array(values))


def test_each_head_is_divided_by_its_own_trials():
    hits = [np.array([[True, False]] * 3 + [[False, True]]), np.array([[True, False], [False, False]])]
    table = AccuracyTable.from_hits(hits)
    np.testing.assert_array_equal(table.values, [[0.75, 0.25], [0.5, 0.0]])
    np.testing.assert_array_equal(table.trials, [4, 2])
    assert table.few_trials(at_least=4) == [2]
    assert table.few_trials() == [1, 2]


@pytest.mark.parametrize("hits", [[], [np.zeros(3, bool)], [np.zeros((3, 2), bool), np.zeros((3, 4), bool)]])
def test_hits_of_other_shapes_are_refused(hits):
    with pytest.raises(InputError, match="shapes"):
        AccuracyTable.from_hits(hits)


def test_unknown_trials_are_not_few():
    assert AccuracyTable(np.array([[0.5]])).few_trials() == []


@given(accuracy_tables())
def test_pooling_keeps_the_sum_and_never_rises(table):
    pooled = table.contiguous()
    assert (np.diff(pooled.values, axis=1) <= 0).all()
    np.testing.assert_allclose(pooled.values.sum(axis=1), table.values.sum(axis=1), atol=1e-12)
    sorted_already = (np.diff(table.values, axis=1) <= 0).all(axis=1)
    np.testing.assert_array_equal(pooled.values[sorted_already], table.values[sorted_already])


def test_pooling_averages_what_is_out_of_order():
    pooled = AccuracyTable(np.array([[0.5, 0.02, 0.2]])).contiguous()
    np.testing.assert_allclose(pooled.values, [[0.5, 0.11, 0.11]])


@given(accuracy_tables())
def test_csv_round_trip(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("accuracy") / "accuracy.csv"
    trials = np.arange(table.heads) + 7
    full = AccuracyTable(table.values, trials=trials, low=table.values / 3, high=table.values)
    full.write_csv(path)
    read = read_accuracy(path)
    assert read.trials is not None
    for name in ("values", "trials", "low", "high"):
        np.testing.assert_array_equal(getattr(read, name), getattr(full, name))
    table.write_csv(path)
    read = read_accuracy(path)
    assert (read.trials, read.low, read.high) == (None, None, None)
