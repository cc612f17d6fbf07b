"""Trees that know no accuracies: what an optimised tree is compared with."""

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from treeopt.search.accuracy import AccuracyTable
from treeopt.tree import Tree, chain, dense

__all__ = ["best_dense", "chain", "dense", "random_dense"]


def random_dense(rng: np.random.Generator, heads: int, max_size: int, max_rank: int) -> Tree:
    """A dense tree of random shape with at most `max_size` nodes, root included.

    It is what an optimised tree is compared with in Fig. 4 of Cai et al. 2024.
    The depth is uniform up to `heads`; then, from the top down, each width is uniform over what still fits.
    """
    widths: list[int] = []
    size, leaves = 1, 1
    for _ in range(rng.integers(1, heads + 1)):
        widest = min(max_rank + 1, (max_size - size) // leaves)
        if widest < 1:
            break
        widths.append(int(rng.integers(1, widest + 1)))
        leaves *= widths[-1]
        size += leaves
    return dense(widths)


def best_dense(accuracies: AccuracyTable, max_size: int, count: int = 1) -> list[tuple[Tree, float]]:
    """The `count` dense trees of at most `max_size` nodes with the most expected tokens per step, best first.

    With c_k the accuracy of head k's first widths[k - 1] guesses together, independent heads expect
    1 + sum over d of prod_{k <= d} c_k (Cai et al. 2024, sec. 2.3.3), which is given with each tree. All
    shapes are tried.
    """
    within = np.cumsum(accuracies.values, axis=1).tolist()
    shapes = _shapes(within, max_size - 1)
    best = heapq.nlargest(count, shapes, key=lambda shape: shape[1])
    return [(dense(widths), expected) for widths, expected in best]


def _shapes(
    within: Sequence[Sequence[float]], room: int, leaves: int = 1, reached: float = 1.0
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Widths for the heads in `within`, of at most `room` nodes below `leaves`, with their expected tokens."""
    yield (), reached
    if not within:
        return
    for width in range(1, min(len(within[0]), room // leaves) + 1):
        below = _shapes(within[1:], room - leaves * width, leaves * width, reached * within[0][width - 1])
        for widths, expected in below:
            yield (width, *widths), reached + expected
