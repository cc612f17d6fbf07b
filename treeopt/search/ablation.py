"""The ablation of Cai et al. 2024, Fig. 4: random dense trees against optimised sparse ones of every size."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from treeopt.artifact import require_match
from treeopt.errors import InputError
from treeopt.search.baselines import random_dense
from treeopt.search.estimate import ESTIMATORS
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay_all
from treeopt.tree import Tree

DENSE, SPARSE = "dense", "sparse"

DRAWS = 40
"""Random shapes drawn for each that is wanted, at most: a small table has few different ones."""


def dense_vs_sparse(
    fitted: RankTable,
    judged: RankTable,
    latency: LatencyProfile | None = None,
    *,
    dense: int = 300,
    budget: int = 256,
    batch: int = 1,
    context: int | None = None,
    estimator: str = "independent",
    seed: int = 0,
) -> pd.DataFrame:
    """A row a tree: `kind` ("dense" or "sparse"), `name`, `tokens` (N), `tokens_per_step`, `tokens_per_s`.

    Sparse trees are grown from `fitted` by an estimator, one of each size from the bare root to `budget`; dense ones
    are `dense` different random shapes of at most `budget` nodes, named by their widths. All are replayed on `judged`.
    Token/s are over `batch`, from the median latency at `context` (None: the only one profiled), NaN where the
    size was not timed. With a profile, shapes of timed sizes are added until there are as many of these, as far as a
    bounded number of draws finds them.

    Raises InputError for a context that was not profiled, MismatchError for a profile of another model or heads.
    """
    medians: dict[int, float] = {}
    if latency is not None:
        require_match("ranks", judged.provenance, "latency", latency.provenance)
        medians = _medians(latency, batch, _context(latency, batch, context))
    growth = grow(ESTIMATORS[estimator](fitted, None), budget)
    rng = np.random.default_rng(seed)
    shapes = _random_shapes(rng, judged, dense, budget, [size for size in medians if 1 < size <= budget])
    named = [(DENSE, "x".join(map(str, _widths(tree))), tree) for tree in shapes]
    named += [(SPARSE, estimator, growth.tree(size)) for size in range(1, growth.size + 1)]
    replays = replay_all(judged, [tree for _, _, tree in named])
    rows = [
        (kind, name, tree.size, rate, batch * rate * 1000 / medians.get(tree.size, np.nan))
        for (kind, name, tree), rate in zip(named, (run.tokens_per_step for run in replays), strict=True)
    ]
    return pd.DataFrame(rows, columns=["kind", "name", "tokens", "tokens_per_step", "tokens_per_s"])


def _context(latency: LatencyProfile, batch: int, context: int | None) -> int:
    """The context asked for, or the only one; InputError where there is none or a choice."""
    profiled = [there for size, there in latency.settings() if size == batch]
    if context in profiled:
        return int(context or 0)
    if context is None and len(profiled) == 1:
        return profiled[0]
    listed = f"name one of {', '.join(map(str, profiled))}" if profiled else "profile that batch"
    asked = "no context was named" if context is None else f"context {context} was not profiled"
    raise InputError(f"ablation: {asked} at batch {batch}; {listed}")


def _medians(latency: LatencyProfile, batch: int, context: int) -> dict[int, float]:
    """Median latency in ms of each size that was timed, plain decoding's for one token."""
    sizes = latency.sizes(batch, context)
    timed = {size: latency.median(batch, context, size) for size in sizes}
    return timed | {1: latency.plain_ms(batch, context)}


def _random_shapes(
    rng: np.random.Generator, judged: RankTable, count: int, budget: int, timed: Sequence[int]
) -> list[Tree]:
    """`count` different dense trees, and more of `timed` sizes until there are as many of these, in DRAWS at most."""
    found: dict[Tree, None] = {}
    of_timed = 0
    for _ in range(DRAWS * count):
        any_size = len(found) < count
        if not any_size and (of_timed >= count or not timed):
            break
        most = budget if any_size else int(rng.choice(timed))
        tree = random_dense(rng, judged.heads, most, judged.width - 1)
        if tree not in found and (any_size or tree.size in timed):
            found[tree] = None
            of_timed += tree.size in timed
    return list(found)


def _widths(tree: Tree) -> list[int]:
    """Guesses of each head of a dense tree."""
    layers = Counter(tree.depths)
    return [below // above for above, below in pairwise(layers[depth] for depth in sorted(layers))]
