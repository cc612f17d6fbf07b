"""Bootstrap by prompt: intervals that know that the tokens of one answer belong together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95

Floats = NDArray[np.float64]


def sums_by_prompt(ids: Sequence[str], counts: NDArray[Any]) -> NDArray[Any]:
    """Add up `counts` [sequences, ...] over the sequences that share a prompt id: [prompts, ...]."""
    prompt = {name: index for index, name in enumerate(dict.fromkeys(ids))}
    sums = np.zeros((len(prompt), *counts.shape[1:]), counts.dtype)
    np.add.at(sums, [prompt[name] for name in ids], counts)
    return sums


def resampled_ratios(
    numerators: NDArray[Any], denominators: NDArray[Any], rng: np.random.Generator
) -> Floats:
    """sum(numerators) / sum(denominators) of prompts drawn with replacement: [RESAMPLES, ...].

    Both are [prompts, ...] and broadcast against each other. NaN where a resample has no denominator.
    """
    prompts = len(numerators)
    times = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES).astype(np.float64)
    above = np.tensordot(times, numerators, axes=1)
    below = np.tensordot(times, denominators, axes=1)
    unknown = np.full(np.broadcast(above, below).shape, np.nan)
    return np.asarray(np.divide(above, below, out=unknown, where=below > 0))


def interval(resampled: Floats) -> tuple[float, float]:
    """95 % percentile interval (Efron 1979) of figures resampled [RESAMPLES], but for those that are NaN."""
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(resampled, (tail, 1 - tail))
    return float(low), float(high)


def ratio_interval(
    numerators: NDArray[Any], denominators: NDArray[Any], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """95 % percentile interval of `resampled_ratios` (Efron 1979): its lower and its upper end.

    0 and 1 where no resample has a denominator.
    """
    ratios = resampled_ratios(numerators, denominators, rng)
    nothing = np.isnan(ratios).all(axis=0)
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(np.where(nothing, 0.0, ratios), [tail, 1 - tail], axis=0)
    return low, np.where(nothing, 1.0, high)
