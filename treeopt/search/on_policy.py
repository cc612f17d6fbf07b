"""Growth from the rows that a decoding visits, in place of all rows.

A step starts where the one before ended, mostly right after a rejection, so the rows that steps start at
are not like the others. But which they are depends on the tree, hence rounds: a heuristic, judged by replay.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treeopt.search.estimate import MakeEstimator
from treeopt.search.grow import Growth, grow
from treeopt.search.prefixes import Weights
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay

ROUNDS = 3


def on_policy(
    table: RankTable,
    make_estimator: MakeEstimator,
    budget: int,
    *,
    max_depth: int | None = None,
    max_rank: int | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Growth:
    """Grow from all rows, replay, grow from the visited rows, and again until the tree stays or ROUNDS are over.

    Gives the growth whose whole tree takes the fewest steps to decode `table`, of equal ones the last. Its
    `estimator` says so where it is from visited rows. Its smaller trees are from the rows that the whole one
    visits: for another size, give that as the budget. Arguments are as in `grow`.
    """
    weights: Weights | None = None
    best, most, before = None, 0.0, None
    for turn in range(ROUNDS + 1):
        growth = grow(
            make_estimator(table, weights),
            budget,
            max_depth=max_depth,
            max_rank=max_rank,
            provenance=provenance,
        )
        tree = growth.tree(growth.size)
        replayed = replay(table, tree)
        if replayed.tokens_per_step >= most:
            most = replayed.tokens_per_step
            best = replace(growth, estimator=f"{growth.estimator}, visited rows") if turn else growth
        if tree == before:
            break
        before = tree
        weights = np.bincount(replayed.rows, minlength=table.positions)
    assert best is not None
    return best
