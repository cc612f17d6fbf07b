"""Estimators: how likely it is that all guesses along a path are right.

An estimator gives the probability of each guess of the next head, given the path so far. A node's value
is the product of these down its path, so it never grows down the tree and greedy growth is optimal for
their sum.
"""

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from treeopt.search.accuracy import AccuracyTable
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
        order = np.argsort(-accuracies.values, axis=1, kind="stable")
        probabilities = np.take_along_axis(accuracies.values, order, axis=1)
        self._guesses = list(zip(order.tolist(), probabilities.tolist(), strict=True))

    def children(self, path: Path) -> Guesses:
        """See `Estimator.children`; here the same for all paths of one depth."""
        return self._guesses[len(path)] if len(path) < self.heads else ((), ())

    def up_to_rank(self, rank: int) -> Self:
        """See `Estimator.up_to_rank`."""
        return type(self)(AccuracyTable(self._accuracies.values[:, : rank + 1]))
