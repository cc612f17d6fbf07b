"""How far path frequencies are drawn towards accuracies: one kappa a depth, by held-out likelihood."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeopt.search.accuracy import Floats
from treeopt.search.prefixes import Weights, require_weights
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.search.split import folds_by_prompt

FOLDS = 5

KAPPAS = (np.inf, *np.logspace(6, -1, 29).tolist(), 0.0)
"""Tried in this order, of equally good ones the first: without evidence heads count as independent."""


@dataclass(frozen=True)
class HeldOut:
    """What rows of one fold do after a path, and what the other folds make of it; one entry a case.

    A case is a fold, a path and a next rank or MISS. `times` is how often it happens in the fold; in the
    other folds `hits` rows go on like that of `trials` that follow the path, and `accuracy` is the share
    of that rank among all rows of the head. Ranks that the other folds never saw are no cases: no kappa
    makes them possible.
    """

    times: Floats
    hits: Floats
    trials: Floats
    accuracy: Floats

    def log_likelihood(self, kappa: float) -> float:
        """Of all cases, under the shrunk estimate with this kappa."""
        if kappa == np.inf:
            return float(self.times @ np.log(self.accuracy))
        if kappa == 0 and (self.hits == 0).any():
            return -np.inf
        estimate = (self.hits + kappa * self.accuracy) / (self.trials + kappa)
        return float(self.times @ np.log(estimate))


def fit_kappas(table: RankTable, weights: Weights | None = None, folds: int = FOLDS) -> tuple[float, ...]:
    """The kappa of each depth from 2 on, of KAPPAS, under which held-out rows are likeliest.

    Misses included; folds are by prompt, since rows of one prompt are alike. `weights` [P] say how often
    each row counts.
    """
    cases = held_out(table, weights, folds)
    return tuple(max(KAPPAS, key=depth.log_likelihood) for depth in cases)


def held_out(table: RankTable, weights: Weights | None = None, folds: int = FOLDS) -> list[HeldOut]:
    """The cases of each depth from 2 on: rows that begin with a path of ranks and whose next rank is known."""
    weights = require_weights(table, weights)
    counted = weights > 0
    ranks, weights = table.ranks[counted].astype(np.int64), weights[counted]
    fold = folds_by_prompt(table.ids, folds)[table.sequence[counted]]
    prefix = np.zeros(len(ranks), np.int64)  # a number for each row's path so far
    cells = table.width + 1  # ranks, MISS
    found = []
    for head in range(table.heads):
        known = ranks[:, head] != UNKNOWN
        ranks, weights, fold, prefix = ranks[known], weights[known], fold[known], prefix[known]
        if head:
            follows = prefix >= 0
            found.append(_cases(prefix, ranks[:, head], follows, weights, fold, cells, folds))
        is_path = (prefix >= 0) & (ranks[:, head] < table.width)
        _, numbers = np.unique(prefix * cells + ranks[:, head], return_inverse=True)
        prefix = np.where(is_path, numbers, -1)
    return found


def _cases(
    prefix: NDArray[np.int64],
    rank: NDArray[np.int64],
    follows: NDArray[np.bool_],
    weights: Weights,
    fold: NDArray[np.int64],
    cells: int,
    folds: int,
) -> HeldOut:
    accuracy = _others(_by_fold(rank, weights, fold, cells, folds))  # [R + 1, folds]
    accuracy /= np.maximum(accuracy.sum(axis=0), 1)
    prefix, rank, weights, fold = prefix[follows], rank[follows], weights[follows], fold[follows]
    paths, path = np.unique(prefix, return_inverse=True)
    nexts, case = np.unique(path * cells + rank, return_inverse=True)
    times = _by_fold(case, weights, fold, len(nexts), folds)  # [path and rank, folds]
    hits = _others(times)
    trials = _others(_by_fold(path, weights, fold, len(paths), folds))[nexts // cells]
    accuracy = accuracy[nexts % cells]
    chosen = (times > 0) & (accuracy > 0)
    return HeldOut(times[chosen], hits[chosen], trials[chosen], accuracy[chosen])


def _by_fold(
    number: NDArray[np.int64], weights: Weights, fold: NDArray[np.int64], numbers: int, folds: int
) -> Floats:
    """Weights of the rows of each number in each fold [numbers, folds]."""
    sums = np.bincount(number * folds + fold, weights, minlength=numbers * folds)
    return np.asarray(sums, np.float64).reshape(numbers, folds)


def _others(by_fold: Floats) -> Floats:
    """What all folds but the own one have."""
    others: Floats = by_fold.sum(axis=1, keepdims=True) - by_fold
    return others
