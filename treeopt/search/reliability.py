"""How far heads mean what they say: the share of guesses that are right, by the probability that they were given."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from treeopt.search.accuracy import Floats
from treeopt.search.ranks import UNKNOWN, RankTable


@dataclass(frozen=True, eq=False)
class Curve:
    """One head's: linear between the points `given` and `right`, both of which rise, and level beyond the last."""

    given: Floats
    right: Floats

    def __call__(self, probabilities: NDArray[np.floating]) -> Floats:
        """Calibrated probabilities of any shape; they never fall where the given ones rise."""
        return np.asarray(np.interp(probabilities, self.given, self.right), np.float64)


def fit_curves(table: RankTable) -> tuple[Curve, ...]:
    """A curve for each head, from all its guesses at rows whose truth is known.

    By isotonic regression, each of whose steps is drawn together to its mean, so that the curve rises between them
    (centred, Oron and Flournoy 2017); it starts at 0. A head without any trial keeps what it says.
    """
    assert table.probabilities is not None
    ranks = np.arange(table.width)
    curves = []
    for head, truths in enumerate(table.ranks.T):
        known = truths != UNKNOWN
        given = table.probabilities[known, head].astype(np.float64).ravel()
        right = (truths[known, None] == ranks).ravel()
        curves.append(
            _centred(given, right) if len(given) else Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        )
    return tuple(curves)


def cross_calibrated(table: RankTable, fold: NDArray[np.int64]) -> Floats:
    """Probabilities [P, K, R] of each answer, calibrated by what heads are worth in the other folds' answers.

    `fold` [answers] says which fold each is in.
    """
    assert table.probabilities is not None
    calibrated = np.empty(table.probabilities.shape)
    for number in np.unique(fold):
        own = (fold == number)[table.sequence]
        for head, curve in enumerate(fit_curves(table.select(np.flatnonzero(fold != number).tolist()))):
            calibrated[own, head] = curve(table.probabilities[own, head])
    falling: Floats = np.minimum.accumulate(calibrated, axis=2)  # against rounding between two points
    return falling


def _centred(given: Floats, right: NDArray[np.bool_]) -> Curve:
    order = np.lexsort(
        (~right, given)
    )  # of equal probabilities the right ones first, so that they are pooled
    fitted = isotonic_regression(right[order].astype(np.float64))
    starts = fitted.blocks[:-1]
    centres = np.add.reduceat(given[order], starts) / np.diff(fitted.blocks)
    return Curve(np.concatenate([[0.0], centres]), np.concatenate([[0.0], fitted.x[starts]]))
