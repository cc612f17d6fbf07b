"""Trees rebuilt at every step from the heads' own probabilities: what a runtime with dynamic trees would take.

At each row the tree has the paths of the highest product of probabilities, as OPT-Tree grows them (Wang et al. 2024,
arXiv 2406.17276). The text does not depend on trees, so replay is as exact as it is for a fixed one: all that is
asked of a row is how many nodes must be there before the truth's own path is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeopt.search.accuracy import Floats
from treeopt.search.ranks import RankTable
from treeopt.search.replay import Steps, visited_rows

Whole = NDArray[np.int64]

UNIT = 2**32
"""Costs are -ln(probability) in whole 1 / UNIT: sums are exact, so equal products tie whatever their order."""

NEVER = 2**42
"""Cost of a path that no tree takes, since its probability is 0: 1024 nats, more than 10 heads of float32 can make."""

ROWS = 1024
"""Rows whose paths are sorted at a time."""


@dataclass(frozen=True, eq=False)
class Paths:
    """The paths of each row [P] by falling product of its probabilities, up to `most` of them.

    In order of product, then depth, then path, as `grow` has it. `costs` [P, most] are those of the first ones, NEVER
    where there are fewer. `joins` [P, K] is the size N from which on the tree has the truth's path to each depth, and
    `truths` [P, K] that path's cost; where it never joins, `most` + 2 and NEVER.
    """

    most: int
    costs: Whole
    joins: Whole
    truths: Whole

    def sizes(self, size: int, cost: int = NEVER - 1) -> Whole:
        """Nodes [P] of each row's tree: of at most `size` nodes, with no path above `cost`."""
        joined: Whole = (self.costs[:, : size - 1] <= cost).sum(axis=1)
        return joined + 1

    def expected(self, rows: Whole, sizes: Whole) -> float:
        """Mean tokens per step that the trees of these rows [S], of these sizes [S], expect by their probabilities."""
        costs = self.costs[rows]
        values = np.where(costs < NEVER, np.exp(-costs / UNIT), 0.0)
        return 1 + float(values[np.arange(self.most) < sizes[:, None] - 1].sum() / len(rows))

    def accepted(self, size: int, cost: int = NEVER - 1) -> Whole:
        """Guesses [P] that each row's tree accepts, of at most `size` nodes, with no path above `cost`."""
        depths: Whole = ((self.joins <= size) & (self.truths <= cost)).sum(axis=1)
        return depths


def likeliest_paths(probabilities: Floats, ranks: NDArray[np.int16], most: int) -> Paths:
    """The `most` likeliest paths of each row, by probabilities [P, K, R] that never rise with rank, and ranks [P, K].

    Depth by depth, all rows of a block together: of the paths one level up, the i-th best can have a child of rank j
    among the `most` best only where (i + 1) (j + 1) <= most, since all (i', j') up to (i, j) come before it.
    O(P K m log m) for m = most log R.
    """
    assert 1 <= most < 2**20 // probabilities.shape[-1]
    with np.errstate(divide="ignore"):
        costs = np.round(-np.log(probabilities.astype(np.float64)) * UNIT)
    costs = np.minimum(costs, NEVER).astype(np.int64)
    rows = len(ranks)
    found = [
        _block(costs[low : low + ROWS], ranks[low : low + ROWS].astype(np.int64), most)
        for low in range(0, max(rows, 1), ROWS)
    ]
    best, joins, truths = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Paths(most, best, joins, truths)


def _block(costs: Whole, ranks: Whole, most: int) -> tuple[Whole, Whole, Whole]:
    """`costs`, `joins` and `truths` of some rows: their heads' costs [rows, K, R] and true ranks [rows, K]."""
    rows, heads, width = costs.shape
    bits = (most * width - 1).bit_length()
    level = np.zeros((rows, 1), np.int64)  # costs of one depth's paths, best first
    order = np.zeros((rows, 1), np.int64)  # place of each of them among these by path alone
    at = np.zeros(rows, np.int64)  # which of them is the truth's, -1 for none
    levels, truths, places = [], [], []
    for head in range(heads):
        pairs = [(i, j) for i in range(level.shape[1]) for j in range(min(width, most // (i + 1)))]
        parent, rank = np.array(pairs, np.int64).T
        # cost, then path: one number to sort by
        keys = np.minimum(level[:, parent] + costs[:, head, rank], NEVER) << bits
        keys += order[:, parent] * width + rank
        wanted = _key_of_truth(level, order, at, costs[:, head], ranks[:, head], bits)
        keys = np.sort(keys, axis=1)[:, :most]
        hit = keys == wanted[:, None]
        level, codes = keys >> bits, keys & ((1 << bits) - 1)
        order = np.empty_like(codes)
        by_path = np.broadcast_to(np.arange(codes.shape[1]), codes.shape)
        np.put_along_axis(order, np.argsort(codes, axis=1), by_path, axis=1)
        at = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
        levels.append(level)
        truths.append(np.where(at < 0, NEVER, np.take_along_axis(level, at[:, None], axis=1)[:, 0]))
        places.append(at)
    joins = _joins(levels, truths, places, most)
    best = np.sort(np.concatenate(levels, axis=1), axis=1)[:, :most]
    best = np.pad(best, ((0, 0), (0, most - best.shape[1])), constant_values=NEVER)
    return best, joins, np.where(joins < most + 2, np.stack(truths, axis=1), NEVER)


def _key_of_truth(level: Whole, order: Whole, at: Whole, costs: Whole, ranks: Whole, bits: int) -> Whole:
    """The key [rows] of the truth's path one level down, -1 where it is no path that a tree may take."""
    width = costs.shape[1]
    parent, rank = np.maximum(at, 0)[:, None], np.clip(ranks, 0, width - 1)[:, None]
    cost = np.take_along_axis(level, parent, axis=1) + np.take_along_axis(costs, rank, axis=1)
    key = ((cost << bits) + np.take_along_axis(order, parent, axis=1) * width + rank)[:, 0]
    possible = (at >= 0) & (ranks >= 0) & (ranks < width) & (cost[:, 0] < NEVER)
    return np.where(possible, key, -1)


def _joins(levels: list[Whole], truths: list[Whole], places: list[Whole], most: int) -> Whole:
    """`joins` [rows, K]: how many paths come before the truth's, on its own level, above it and below it."""
    joins = np.full((len(levels[0]), len(levels)), most + 2, np.int64)
    for head, (cost, place) in enumerate(zip(truths, places, strict=True)):
        before = np.array(place)
        for other, those in enumerate(levels):
            if other < head:
                before += (those <= cost[:, None]).sum(axis=1)
            elif other > head:
                before += (those < cost[:, None]).sum(axis=1)
        joins[:, head] = np.where((cost < NEVER) & (before < most), before + 2, most + 2)
    return joins


def replay_dynamic(table: RankTable, accepted: Whole) -> Steps:
    """Decode every answer with trees of which that of each row [P] accepts so many guesses."""
    (visited,) = visited_rows(table, accepted[None], np.arange(table.positions))
    rows = np.flatnonzero(visited)
    return Steps.starting_at(table, rows, accepted[rows])


def even_threshold(table: RankTable, paths: Paths, size: int, most: int) -> int:
    """The highest cost of a path at which trees of at most `most` nodes have `size` on average over their steps.

    By bisection; of all costs tried, the one that comes nearest.
    """
    low, high = 0, NEVER - 1
    nearest, distance = high, np.inf
    while low <= high:
        cost = (low + high) // 2
        replayed = replay_dynamic(table, paths.accepted(most, cost))
        mean = paths.sizes(most, cost)[replayed.rows].mean()
        if abs(mean - size) < distance:
            nearest, distance = cost, abs(mean - size)
        low, high = (cost + 1, high) if mean < size else (low, cost - 1)
    return nearest
