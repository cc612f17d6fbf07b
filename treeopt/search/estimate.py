"""Estimators: how likely it is that all guesses along a path are right.

An estimator gives the probability of each guess of the next head, given the path so far. A node's value
is the product of these down its path, so it never grows down the tree and greedy growth is optimal for
their sum. All can be made from chosen rows of a rank table, such as those that a decoding visits.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np

from treeopt.search.accuracy import AccuracyTable, Floats
from treeopt.search.kappa import fit_kappas
from treeopt.search.prefixes import PrefixCounts, Weights, marginals
from treeopt.search.ranks import RankTable
from treeopt.tree import Path

Guesses = tuple[Sequence[int], Sequence[float]]


class Estimator(Protocol):
    """What growth needs to know."""

    name: str
    heads: int

    def children(self, path: Path) -> Guesses:
        """Ranks of the head after `path`, and the probability of each given that `path` is right.

        By descending probability, ties by rank; both empty past the last head. The lists are not changed
        by anyone.
        """

    def up_to_rank(self, rank: int) -> Self:
        """The same estimator without guesses above `rank`."""


class Independent:
    """Heads independent of each other: a path's value is prod_j a_j^(i_j) (Cai et al. 2024, sec. 2.3.3)."""

    name = "independent"

    def __init__(self, accuracies: AccuracyTable) -> None:
        self.heads = accuracies.heads
        self._accuracies = accuracies
        self._guesses = [_by_probability(row) for row in accuracies.values]

    @classmethod
    def of_ranks(cls, table: RankTable, weights: Weights | None = None) -> Self:
        """From the accuracies of a rank table's rows, each counted as often as `weights` [P] says."""
        return cls(marginals(table, weights))

    def children(self, path: Path) -> Guesses:
        """See `Estimator.children`; here the same for all paths of one depth."""
        return self._guesses[len(path)] if len(path) < self.heads else ((), ())

    def up_to_rank(self, rank: int) -> Self:
        """See `Estimator.up_to_rank`."""
        return type(self)(AccuracyTable(self._accuracies.values[:, : rank + 1]))


class Joint:
    """Path frequencies: a path's value is the share of rows whose ranks begin with it.

    Unknown ends do not bias it: it is the product over depth of n(prefix + r) / n(prefix whose next rank
    is known). `weights` [P], whole numbers, say how often each row counts, once where None.
    """

    name = "joint"

    def __init__(self, table: RankTable, weights: Weights | None = None) -> None:
        self.heads = table.heads
        self._counts = PrefixCounts(table, weights)
        self._guessed = table.width

    def children(self, path: Path) -> Guesses:
        """See `Estimator.children`; empty too after a path that no row with a known next rank follows."""
        if len(path) >= self.heads:
            return (), ()
        counts = self._counts.following(path)
        known = counts.sum()
        return _by_probability(counts[: self._guessed] / known) if known else ((), ())

    def up_to_rank(self, rank: int) -> Self:
        """See `Estimator.up_to_rank`."""
        limited = copy.copy(self)
        limited._guessed = min(self._guessed, rank + 1)
        return limited


class Shrunk(Joint):
    """Path frequencies drawn towards the heads' own accuracies, the more the fewer rows follow the path.

    P(r_d | prefix) = (n(prefix + r_d) + kappa_d q_d(r_d)) / (n(prefix) + kappa_d), q_d the accuracies of
    head d: the form of MacKay and Peto 1995, A Hierarchical Dirichlet Language Model. `kappas` are one for
    each depth from 2 on, fitted by held-out likelihood where None; at depth 1 the prefix is empty and both
    are the same. Infinity gives `Independent`, 0 gives `Joint`.
    """

    def __init__(
        self, table: RankTable, weights: Weights | None = None, kappas: Sequence[float] | None = None
    ) -> None:
        super().__init__(table, weights)
        self.kappas = fit_kappas(table, weights) if kappas is None else tuple(kappas)
        assert len(self.kappas) == self.heads - 1 and all(kappa >= 0 for kappa in self.kappas)
        self.name = f"shrunk (kappa {', '.join(f'{kappa:.3g}' for kappa in self.kappas) or 'none'})"
        self._marginals = marginals(table, weights).values

    def children(self, path: Path) -> Guesses:
        """See `Estimator.children`."""
        if not 0 < len(path) < self.heads or self.kappas[len(path) - 1] == 0:
            return super().children(path)
        accuracies = self._marginals[len(path), : self._guessed]
        kappa = self.kappas[len(path) - 1]
        if kappa == np.inf:
            return _by_probability(accuracies)
        counts = self._counts.following(path)
        return _by_probability((counts[: self._guessed] + kappa * accuracies) / (counts.sum() + kappa))


MakeEstimator = Callable[[RankTable, Weights | None], Estimator]
"""Makes an estimator from the rows of a rank table, each counted as often as the weights say."""

ESTIMATORS: dict[str, MakeEstimator] = {
    "independent": Independent.of_ranks,
    "joint": Joint,
    "shrunk": Shrunk,
}
"""By the name that `treeopt grow --estimator` knows them by; the first, the published one, is the default."""


def _by_probability(probabilities: Floats) -> Guesses:
    order = np.argsort(-probabilities, kind="stable")
    return order.tolist(), probabilities[order].tolist()
