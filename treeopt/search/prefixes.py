"""Counts of rank prefixes: how many rows of a rank table begin with a path, and how they go on."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.tree import Path

Weights = NDArray[np.int64]
"""How often each row counts [P]; a row that counts 0 times is left out."""


def require_weights(table: RankTable, weights: Weights | None) -> Weights:
    """The weights themselves, or 1 for every row where None is given."""
    if weights is None:
        return np.ones(table.positions, np.int64)
    assert weights.shape == (table.positions,) and weights.dtype.kind in "iu" and (weights >= 0).all()
    return weights


def marginals(table: RankTable, weights: Weights | None = None) -> AccuracyTable:
    """Share of each rank in each head's own trials, as `RankTable.accuracy` has it, but without intervals."""
    counts = np.stack(list(_head_counts(table, require_weights(table, weights))))
    trials = counts.sum(axis=1)
    return AccuracyTable(counts[:, :-1] / np.maximum(trials, 1)[:, None], trials=trials)


def _head_counts(table: RankTable, weights: Weights) -> Iterator[NDArray[np.int64]]:
    for ranks in table.ranks.T:
        counts = np.bincount(ranks - UNKNOWN, weights, minlength=table.width + 2)  # UNKNOWN, ranks, MISS
        yield counts[1:].astype(np.int64)


class PrefixCounts:
    """The rows of a table sorted by their ranks, so that those which begin with one path lie together.

    Counting what follows a path takes O(R log P), however many rows there are.
    """

    def __init__(self, table: RankTable, weights: Weights | None = None) -> None:
        weights = require_weights(table, weights)
        ranks, weights = table.ranks[weights > 0], weights[weights > 0]
        order = np.lexsort(ranks.T[::-1])
        self.heads = table.heads
        self.width = table.width
        self._ranks = np.ascontiguousarray(ranks[order].T)  # [K, P]
        self._upto = np.concatenate([[0], np.cumsum(weights[order])])  # [P + 1]
        self._edges = np.arange(table.width + 2, dtype=np.int16)  # where each rank, MISS and nothing begin
        self._blocks: dict[Path, tuple[int, int]] = {(): (0, len(order))}

    def following(self, path: Path) -> NDArray[np.int64]:
        """Of the rows that begin with `path`, how many have each rank next, MISS last: [R + 1].

        Rows whose next rank is unknown are left out, so the sum is n(prefix whose next rank is known).
        """
        start, end = self._block(path)
        edges = start + np.searchsorted(self._ranks[len(path), start:end], self._edges)
        counts: NDArray[np.int64] = np.diff(self._upto[edges])
        return counts

    def _block(self, path: Path) -> tuple[int, int]:
        """First row and end of the rows that begin with `path`; kept, as growth asks for parents first."""
        if path not in self._blocks:
            start, end = self._block(path[:-1])
            wanted = self._edges[path[-1] : path[-1] + 2]
            first, last = np.searchsorted(self._ranks[len(path) - 1, start:end], wanted)
            self._blocks[path] = (start + int(first), start + int(last))
        return self._blocks[path]
