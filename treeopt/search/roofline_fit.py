"""Fits the hardware model to measured latencies, and says how far off it is on sizes that it was not fitted to."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeopt.errors import InputError
from treeopt.search.hardware import Gpu, Shape
from treeopt.search.latency import LatencyProfile
from treeopt.search.roofline import PARTS, Floats, Roofline, sides_ms, work

RATIOS = np.geomspace(1e-3, 1e3, 241)
"""Tried for the share of compute that is reached over that of bandwidth."""

AS_GOOD, NOISE = 1.05, 0.01
"""Errors within this factor of the least, or below what timing noise makes anyway, are alike.

Of those the model nearest to the bare GPU is taken. At batch 1 memory is the longer side, so the compute rate hardly
shows, and a constant looks much like work that does not hide.
"""

FEWEST = 5
"""Latencies that a fit needs: it has up to five unknowns."""


@dataclass(frozen=True)
class Points:
    """Latencies to fit: four arrays [n]; `latency_ms` in milliseconds, or relative, which leaves `bandwidth` moot."""

    batch: NDArray[np.int64]
    context: NDArray[np.int64]
    tokens: NDArray[np.int64]
    latency_ms: Floats

    @classmethod
    def of(cls, profile: LatencyProfile) -> "Points":
        """Medians of plain decoding and of every tree step of a profile."""
        found = []
        for batch, context in profile.settings():
            found.append((batch, context, 1, profile.plain_ms(batch, context)))
            sizes = [size for size in profile.sizes(batch, context) if size > 1]
            found += [(batch, context, size, profile.median(batch, context, size)) for size in sizes]
        batches, contexts, tokens, latencies = zip(*found, strict=True)
        return cls(np.array(batches), np.array(contexts), np.array(tokens), np.array(latencies))

    def take(self, which: NDArray[np.bool_]) -> "Points":
        """Those where `which` [n] is true."""
        return Points(self.batch[which], self.context[which], self.tokens[which], self.latency_ms[which])


def fit(gpu: Gpu, shape: Shape, points: Points, parts: Sequence[str] = PARTS) -> Roofline:
    """The model with the least squared relative error, every unknown at least 0; of those alike, the plainest.

    Given the ratio of the two rates, and whether work comes in tiles, latency is linear in the others: those are
    found exactly, and the ratio by trying RATIOS. `tree_ms` is only for whole steps. InputError for fewer than FEWEST
    latencies.
    """
    if len(points.latency_ms) < FEWEST:
        raise InputError(
            f"latency profile: {len(points.latency_ms)} sizes to fit; time at least {FEWEST}, plain decoding included"
        )
    columns = [np.ones_like(points.latency_ms)]
    if set(parts) == set(PARTS):
        columns.append(np.where(points.tokens > 1, 1.0, 0.0))
    candidates: list[_Candidate] = []
    for tiled in (True, False):
        done = work(shape, points.batch, points.context, points.tokens, tiled=tiled, parts=parts)
        compute, memory = sides_ms(gpu, done)
        for ratio in RATIOS.tolist():
            longer, both = np.maximum(compute / ratio, memory), compute / ratio + memory
            design = np.stack([longer.sum(axis=0), both.sum(axis=0), *columns], axis=1)
            solutions = _solutions(design / points.latency_ms[:, None])
            candidates += [_Candidate(*solution, ratio, tiled) for solution in solutions]
    enough = max(AS_GOOD * min(candidate.error for candidate in candidates), NOISE)
    alike = [candidate for candidate in candidates if candidate.error <= enough]
    return min(alike, key=lambda candidate: candidate.distance(points)).model(gpu)


class _Candidate(NamedTuple):
    """A solution: what multiplies the longer sides, both sides, and the constants; its root mean square error."""

    found: Floats
    error: float
    ratio: float
    tiled: bool

    def model(self, gpu: Gpu) -> Roofline:
        # longer * a + (longer + shorter) * b = (longer + shorter * exposed) / bandwidth
        a, b, *constants = self.found.tolist()
        bandwidth = 1 / (a + b)
        named = dict(zip(("fixed_ms", "tree_ms"), constants, strict=False))
        return Roofline(gpu, self.ratio * bandwidth, bandwidth, b * bandwidth, **named, tiled=self.tiled)

    def distance(self, points: Points) -> tuple[float, bool, float]:
        """From the bare GPU: the shift of the ratio, the exposed share, and the constants' share of the latency."""
        a, b, *constants = self.found.tolist()
        share = sum(constants) * float(np.mean(1 / points.latency_ms))
        return round(abs(math.log(self.ratio)) + b / (a + b) + share, 6), not self.tiled, self.error


def _solutions(design: Floats) -> Iterator[tuple[Floats, float]]:
    """Every x > 0 over some of the columns with the least |design x - 1|, and the root mean square of what is left.

    One of the first two columns is among them. The best x >= 0 over all columns is one of these.
    """
    columns = range(design.shape[1])
    for chosen in (
        list(some) for count in range(1, len(columns) + 1) for some in combinations(columns, count)
    ):
        solved = np.linalg.lstsq(design[:, chosen], np.ones(len(design)))[0]
        if chosen[0] < 2 and solved.min() > 0:
            found = np.zeros(len(columns))
            found[chosen] = solved
            yield found, float(np.sqrt(np.mean((design @ found - 1) ** 2)))


def errors(model: Roofline, shape: Shape, points: Points) -> Floats:
    """Relative errors [n] of the model's latencies: 0.1 is a tenth too much."""
    predicted = model.latency_ms(shape, points.batch, points.context, points.tokens)
    return np.asarray(predicted / points.latency_ms - 1, np.float64)


def held_out_sizes(gpu: Gpu, shape: Shape, points: Points) -> Floats:
    """Relative errors of every other tree size, fitted without it: the even ones of the list by the odd, and back.

    Plain decoding is always fitted. Empty where a half is too few to fit.
    """
    sizes = np.unique(points.tokens[points.tokens > 1])
    halves = [np.isin(points.tokens, sizes[start::2]) for start in (0, 1)]
    return _held_out(gpu, shape, points, halves)


def held_out_settings(gpu: Gpu, shape: Shape, points: Points) -> Floats:
    """Relative errors of every (batch, context), fitted to all the others; empty where there is only one."""
    settings = sorted(set(zip(points.batch.tolist(), points.context.tolist(), strict=True)))
    left_out = [(points.batch == batch) & (points.context == context) for batch, context in settings]
    return _held_out(gpu, shape, points, left_out)


def _held_out(gpu: Gpu, shape: Shape, points: Points, folds: Sequence[NDArray[np.bool_]]) -> Floats:
    def of_folds() -> Iterator[Floats]:
        for fold in folds:
            if np.count_nonzero(~fold) >= FEWEST:
                yield errors(fit(gpu, shape, points.take(~fold)), shape, points.take(fold))

    return np.concatenate([np.zeros(0), *of_folds()])
