"""Calibrated probabilities: by hand, on heads that mean what they say or half of it, and never from their own fold."""

from dataclasses import replace

import numpy as np
import pytest

from tests.strategies import rank_table
from treeopt.search.reliability import cross_calibrated, fit_curves


def table_of(given, right):
    """One head with one guess a row, right or not, in an answer that has one token more."""
    ranks = np.append(np.where(right, 0, 1), 0)[:, None]
    given = np.append(given, 0.0).astype(np.float32)[:, None, None]
    return replace(rank_table(ranks, [len(ranks)], width=1), probabilities=given)


def test_steps_are_drawn_together_to_their_mean():
    """0, 1, 0, 1 is 0, 1/2, 1/2, 1 when pooled to rise, and the two halves become one point between them."""
    (curve,) = fit_curves(table_of([0.4, 0.1, 0.3, 0.2], [True, False, False, True]))
    np.testing.assert_allclose(curve.given, [0, 0.1, 0.25, 0.4], rtol=1e-6)
    np.testing.assert_allclose(curve.right, [0, 0, 0.5, 1])
    np.testing.assert_allclose(
        curve(np.array([[0.05, 0.175], [0.325, 0.9]])), [[0, 0.25], [0.75, 1]], rtol=1e-6
    )


@pytest.mark.parametrize("right", [[True, False], [False, True]])
def test_equal_probabilities_are_one_point_whatever_their_order(right):
    (curve,) = fit_curves(table_of([0.3, 0.3], right))
    np.testing.assert_allclose(curve(np.array([0.3, 0.6])), [0.5, 0.5])


@pytest.mark.parametrize("honesty", [1.0, 0.5])
def test_what_heads_say_becomes_how_often_they_are_right(honesty):
    rng = np.random.default_rng(0)
    given = rng.random(40_000)
    (curve,) = fit_curves(table_of(given, rng.random(40_000) < honesty * given))
    grid = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(curve(grid), honesty * grid, atol=0.03)


def two_folds(ranks):
    given = -np.sort(-np.random.default_rng(1).random((40, 2, 3)) / 3, axis=2)
    return replace(rank_table(ranks, [20, 20], width=3), probabilities=given.astype(np.float32))


def test_each_fold_is_calibrated_by_the_others():
    ranks = np.random.default_rng(2).integers(0, 4, (40, 2))
    table, fold = two_folds(ranks), np.array([0, 1])
    calibrated = cross_calibrated(table, fold)
    for head, curve in enumerate(fit_curves(table.select([1]))):
        np.testing.assert_array_equal(calibrated[:20, head], curve(table.probabilities[:20, head]))
    changed = cross_calibrated(two_folds(np.concatenate([ranks[:20], np.zeros_like(ranks[20:])])), fold)
    np.testing.assert_array_equal(changed[20:], calibrated[20:])
    assert (changed[:20] != calibrated[:20]).any()
    assert (np.diff(calibrated, axis=2) <= 0).all()


def test_a_head_that_was_never_tried_keeps_what_it_says():
    table = replace(
        rank_table(np.zeros((2, 2), np.int16), [2], width=1), probabilities=np.full((2, 2, 1), 0.25)
    )
    curves = fit_curves(table)
    assert curves[0](np.array(0.25)) == 1.0
    assert curves[1](np.array(0.25)) == 0.25
