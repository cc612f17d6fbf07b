"""What the ablation of Cai et al. 2024 claims (dense against sparse, Fig. 4), each claim held against data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from treeopt.errors import InputError

STRAIGHT = 0.95
"""R^2 of tokens per step on log N from which on growth is called about logarithmic."""

ABOUT = 2.0
"""Within this factor of a size counts as about that size."""

Claim = tuple[str, bool, str]


def logarithmic_fit(tokens: pd.Series, tokens_per_step: pd.Series) -> tuple[float, float]:
    """Tokens per step gained by doubling N, and R^2, of the least-squares line on log2 N."""
    doublings = np.log2(tokens.to_numpy(float))
    rates = tokens_per_step.to_numpy(float)
    slope, start = np.polyfit(doublings, rates, 1)
    left = rates - (start + slope * doublings)
    return float(slope), float(1 - left @ left / ((rates - rates.mean()) @ (rates - rates.mean())))


def check_claims(trees: pd.DataFrame, *, small: int = 64, large: int = 256) -> pd.DataFrame:
    """A row for each claim: `claim`, whether it `holds` in these data, and `by` how much, in words.

    `trees` is what `dense_vs_sparse` gives: a row a tree with `kind` ("sparse" or "dense"), `tokens` (N),
    `tokens_per_step`, and `tokens_per_s`, NaN where the size was not timed; claims about speed are left out where
    none was. InputError without a sparse tree of `small` tokens or without dense trees.
    """
    sparse = trees[trees["kind"] == "sparse"].sort_values("tokens")
    dense = trees[(trees["kind"] == "dense") & (trees["tokens"] <= large)]
    if small not in set(sparse["tokens"]) or dense.empty:
        raise InputError(
            f"claims: need a sparse tree of {small} tokens and dense trees of at most {large}; grow to {small}"
        )
    claims = [*_about_steps(sparse, dense, small, large)]
    timed = sparse.dropna(subset=["tokens_per_s"])
    if len(timed):
        claims += _about_speed(timed, dense.dropna(subset=["tokens_per_s"]), small)
    return pd.DataFrame(claims, columns=["claim", "holds", "by"])


def _about_steps(sparse: pd.DataFrame, dense: pd.DataFrame, small: int, large: int) -> Iterator[Claim]:
    rate = _at(sparse, small, "tokens_per_step")
    wide = dense.loc[dense["tokens"] > large / ABOUT, "tokens_per_step"]
    if len(wide):
        yield (
            f"sparse at {small} tokens is above dense at about {large}",
            bool(rate > wide.median()),
            f"{rate:.3f} tokens per step against {wide.median():.3f}, the median of {len(wide)} dense trees of more "
            f"than {large / ABOUT:.0f} tokens: {rate / wide.median() - 1:+.1%}",
        )
    best = _best(dense, "tokens_per_step")
    yield (
        f"sparse at {small} tokens is above every dense tree up to {large}",
        bool(rate > best["tokens_per_step"]),
        f"{rate:.3f} tokens per step against {best['tokens_per_step']:.3f}, the best of {len(dense)} "
        f"({best['tokens']} tokens): {rate / best['tokens_per_step'] - 1:+.1%}",
    )
    grown = sparse[sparse["tokens"] > 1]
    gain, straight = logarithmic_fit(grown["tokens"], grown["tokens_per_step"])
    yield (
        f"tokens per step grow about logarithmically (R^2 of at least {STRAIGHT})",
        straight >= STRAIGHT,
        f"R^2 {straight:.3f} on log N, N = {grown['tokens'].min()} to {grown['tokens'].max()}; "
        f"{gain:+.3f} tokens per step with every doubling",
    )


def _about_speed(timed: pd.DataFrame, dense: pd.DataFrame, small: int) -> Iterator[Claim]:
    best = _best(timed, "tokens_per_s")
    yield (
        f"the fastest tree has about {small} tokens (within a factor of {ABOUT:g})",
        bool(small / ABOUT <= best["tokens"] <= small * ABOUT),
        f"it has {best['tokens']}, of the {len(timed)} sizes timed up to {timed['tokens'].max()}",
    )
    beyond = timed[timed["tokens"] > small]
    if small in set(timed["tokens"]) and len(beyond):
        last, speed = beyond.iloc[-1], _at(timed, small, "tokens_per_s")
        slower = beyond["tokens_per_s"].max() / speed - 1
        yield (
            f"speed falls past {small} tokens",
            bool(slower < 0),
            f"{last['tokens_per_s'] / speed - 1:+.1%} from {small} to {last['tokens']} tokens; "
            f"{slower:+.1%} at the fastest size past {small}",
        )
    if len(dense):
        fastest = dense["tokens_per_s"].max()
        yield (
            "the fastest sparse tree is faster than any dense one",
            bool(best["tokens_per_s"] > fastest),
            f"{best['tokens_per_s']:.1f} token/s against {fastest:.1f}: {best['tokens_per_s'] / fastest - 1:+.1%}",
        )


def _at(trees: pd.DataFrame, tokens: int, column: str) -> float:
    return float(trees.loc[trees["tokens"] == tokens, column].iloc[0])


def _best(trees: pd.DataFrame, column: str) -> "pd.Series[Any]":
    return trees.iloc[int(trees[column].to_numpy().argmax())]
