"""Trees that know no accuracies: what an optimised tree is compared with."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from treeopt.errors import InputError
from treeopt.tree import Tree


def chain(depth: int) -> Tree:
    """The top guess of each head, one below the other: decoding with heads but without a tree."""
    return dense([1] * depth)


def dense(widths: Sequence[int]) -> Tree:
    """The Cartesian product of the first `widths[k - 1]` guesses of each head k.

    Draft nodes: sum over k of prod_{j <= k} widths[j - 1] (Cai et al. 2024, sec. 2.1.2). InputError for a
    width below 1.
    """
    if any(width < 1 for width in widths):
        raise InputError(f"dense tree: widths {list(widths)}; each head gives at least 1 guess")
    levels = (product(*map(range, widths[:depth])) for depth in range(1, len(widths) + 1))
    return Tree(tuple(path for level in levels for path in level))


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
