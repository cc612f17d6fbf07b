"""How far heads are from independent, and how far a decoding is from the average row: both depth by depth."""

import numpy as np
import pandas as pd

from treeopt.search.accuracy import Floats
from treeopt.search.bootstrap import LEVEL, resampled_ratios, sums_by_prompt
from treeopt.search.estimate import Estimator, Independent, Joint
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.search.replay import replay
from treeopt.tree import Tree


def path_values(estimator: Estimator, tree: Tree) -> Floats:
    """The probability [N] that an estimator gives the whole path to each node of a tree, 1 for the root."""
    values = np.zeros(tree.size)
    values[0] = 1.0
    for node, path in enumerate(tree.nodes):
        given = dict(zip(*estimator.children(path), strict=True))
        for child in tree.children(node):
            values[child] = values[node] * given.get(tree.nodes[child][-1], 0.0)
    return values


def depth_shares(table: RankTable, tree: Tree) -> pd.DataFrame:
    """Share of steps that accept a guess at each depth of a tree, as three ways of using one table have it.

    Columns `depth` (from 1); `product`, the sum of the nodes' products of head accuracies (Cai et al. 2024, sec.
    2.3.3); `frequency`, of their path frequencies over all rows; `replayed`, the share of the steps that decoding
    takes. 1 + the sum of a column is its tokens per step. Grow the tree from other prompts: then nothing was fitted,
    product and frequency differ by the heads' dependence alone, frequency and replayed by which rows steps start at.
    """
    depths = np.array(tree.depths)
    _, accepted = (replayed := replay(table, tree)).accepted_by_depth()
    shares = {
        name: np.bincount(depths, path_values(estimator, tree), minlength=tree.depth + 1)[1:]
        for name, estimator in (("product", Independent.of_ranks(table)), ("frequency", Joint(table)))
    }
    return pd.DataFrame(
        {"depth": np.arange(1, tree.depth + 1), **shares, "replayed": accepted / replayed.steps}
    )


def top_chain(table: RankTable, seed: int = 0) -> pd.DataFrame:
    """How often the first d heads' top guesses are all right, against the product of their accuracies.

    Columns `depth` (d, from 1), `product`, `frequency` (the product over depth of n(all right) / n(all before right,
    next known)), `ratio` = frequency / product, and `low`, `high`, the ends of its 95 % interval by bootstrap over
    prompts. 1 at depth 1, where both are the same. NaN from the depth on that no row reaches.
    """
    known = table.ranks != UNKNOWN
    right = table.ranks == 0
    before = np.cumprod(np.pad(right, ((0, 0), (1, 0)), constant_values=True), axis=1, dtype=bool)[:, :-1]
    hits, trials, alone, asked = (
        _by_prompt(table, rows) for rows in (before & right, before & known, right, known)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        conditional, marginal = hits.sum(axis=0) / trials.sum(axis=0), alone.sum(axis=0) / asked.sum(axis=0)
        ratio = np.cumprod(conditional / marginal)
        resampled = np.cumprod(
            resampled_ratios(hits, trials, np.random.default_rng(seed))
            / resampled_ratios(alone, asked, np.random.default_rng(seed)),
            axis=1,
        )
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(resampled, (tail, 1 - tail), axis=0)
    return pd.DataFrame(
        {
            "depth": np.arange(1, table.heads + 1),
            "product": np.cumprod(marginal),
            "frequency": np.cumprod(conditional),
            "ratio": ratio,
            "low": low,
            "high": high,
        }
    )


def _by_prompt(table: RankTable, rows: np.ndarray) -> np.ndarray:
    """True rows [P, K] counted by prompt [prompts, K]."""
    counts = np.zeros((len(table.ids), table.heads), np.int64)
    np.add.at(counts, table.sequence, rows)
    return sums_by_prompt(table.ids, counts)
