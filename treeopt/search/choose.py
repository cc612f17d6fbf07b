"""The fastest tree on one machine: each size's tokens per step over the latency measured for that size."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, replace
from itertools import combinations

import numpy as np

from treeopt.artifact import require_match
from treeopt.errors import InputError
from treeopt.search.bootstrap import RESAMPLES, Floats, interval, resampled_ratios
from treeopt.search.choice import Choice, Plain, Point, read_choice, write_choice
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay_all

__all__ = ["Choice", "Plain", "Point", "choose", "read_choice", "write_choice"]

WORTH = 1.01
"""A size is worth profiling next where it could beat the best by this factor: less drowns in timing noise."""

TILE = 16
"""Latency tends to jump past multiples of this many tokens (Cai et al. 2024, App. G): those come first."""


def choose(profile: LatencyProfile, growth: Growth, table: RankTable | None, seed: int = 0) -> list[Choice]:
    """The fastest tree of a growth at every (batch, context) of a latency profile.

    Only sizes that were timed compete, at their median latency. Tokens per step come from replaying `table`,
    all of it, where there is one, and else from the growth's values. A tree must beat plain decoding, or the
    answer is "no tree". Speedup = tokens per step / overhead (Cai et al. 2024, App. B.1).

    Raises MismatchError where the inputs come from different models or heads, InputError for a setting
    without plain decoding or without a size that the growth reaches.
    """
    ranks = {} if table is None else table.provenance | {"positions": table.positions}
    inputs = {"growth": growth.provenance, "ranks": ranks, "latency": profile.provenance}
    for (name, facts), (other, others) in combinations(inputs.items(), 2):
        require_match(name, facts, other, others)
    if not profile.settings():
        raise InputError("latency profile: has no samples; time some sizes with `treeopt profile`")
    timed = {size for setting in profile.settings() for size in profile.sizes(*setting)}
    rates = _Rates(growth, table, timed, seed)
    provenance = {name: fact for facts in inputs.values() for name, fact in facts.items()}
    choices = [_choose_at(profile, rates, batch, context, seed) for batch, context in profile.settings()]
    return [replace(choice, provenance=provenance) for choice in choices]


class _Rates:
    """Tokens per step of the growth's trees: of the `timed` sizes, of one less, and of the largest.

    All are replayed together, once, whatever the settings.
    """

    def __init__(self, growth: Growth, table: RankTable | None, timed: Set[int], seed: int) -> None:
        self.growth, self.table, self.seed = growth, table, seed
        wanted = {1, growth.size} | {size - less for size in timed for less in (0, 1)}
        sizes = [size for size in wanted if 1 <= size <= growth.size]
        replays = [] if table is None else replay_all(table, [growth.tree(size) for size in sizes])
        self._replays = dict(zip(sizes, replays, strict=False))

    def mean(self, size: int) -> float:
        """Tokens per step of `size` tokens."""
        if self.table is None:
            return float(self.growth.tokens_per_step[size - 1])
        return self._replays[size].tokens_per_step

    def resampled(self, size: int) -> Floats | None:
        """Tokens per step [RESAMPLES] of prompts drawn with replacement, the same draws for every size."""
        if self.table is None:
            return None
        return resampled_ratios(*self._replays[size].by_prompt(), np.random.default_rng(self.seed))


def _choose_at(profile: LatencyProfile, rates: _Rates, batch: int, context: int, seed: int) -> Choice:
    timed = [size for size in profile.sizes(batch, context) if size > 1]
    sizes = [size for size in timed if size <= rates.growth.size]
    if not sizes and rates.growth.size > 1:
        raise InputError(
            f"batch {batch}, context {context}: no profiled size ({_listed(timed)}) is within the growth's "
            f"{rates.growth.size} tokens; profile smaller sizes, or grow with a larger --budget"
        )
    samples = {1: profile.plain_latencies(batch, context)}
    samples |= {size: profile.latencies(batch, context, size) for size in sizes}
    points = [
        _point(batch, size, latencies, rates, np.random.default_rng((seed, batch, context, size)))
        for size, latencies in samples.items()
    ]
    plain = points[0]
    beyond = [size for size in timed if size > rates.growth.size]
    best = max(points, key=lambda point: (point.tokens_per_s, -point.tokens))
    return Choice(
        batch=batch,
        context=context,
        dtype=profile.provenance.get("dtype"),
        choices=None if best is plain else rates.growth.tree(best.tokens).choices,
        **asdict(best),
        plain=Plain(plain.latency_ms, plain.tokens_per_s),
        speedup=best.tokens_per_s / plain.tokens_per_s,
        curve=tuple(points[1:]),
        estimated_from="growth" if rates.table is None else "replay",
        simulated=profile.simulated,
        next_sizes=_next_sizes(points, best, rates, batch),
        notes=tuple(_notes(profile, rates, best, plain, beyond)),
    )


def _point(batch: int, size: int, latencies: Floats, rates: _Rates, rng: np.random.Generator) -> Point:
    latency, rate, resampled = float(np.median(latencies)), rates.mean(size), rates.resampled(size)
    between = None
    if resampled is not None:
        medians = np.median(rng.choice(latencies, (RESAMPLES, len(latencies))), axis=1)
        between = interval(batch * resampled * 1000 / medians)
    return Point(size, rate, latency, _tokens_per_s(batch, rate, latency), between)


def _tokens_per_s(batch: int, tokens_per_step: float, latency_ms: float) -> float:
    """Over the whole batch: in one latency every sequence takes a step of its own."""
    return batch * tokens_per_step * 1000 / latency_ms


def _next_sizes(points: Sequence[Point], best: Point, rates: _Rates, batch: int) -> tuple[int, ...]:
    """The middle of every gap between timed sizes, or after them, that may hide a size worth having.

    Trees nest and latency hardly ever falls with size, so no size in a gap beats the tokens per step of the
    gap's largest size at the latency of the size before the gap.
    """
    ends = [*(point.tokens for point in points[1:]), rates.growth.size + 1]
    gaps = [(point, end) for point, end in zip(points, ends, strict=True) if end - point.tokens > 1]
    return tuple(
        _middle(point.tokens, end)
        for point, end in gaps
        if _tokens_per_s(batch, rates.mean(end - 1), point.latency_ms) > WORTH * best.tokens_per_s
    )


def _middle(start: int, end: int) -> int:
    """The size halfway between two others, or the nearest multiple of TILE where that is between them too."""
    middle = (start + end) // 2
    tiled = TILE * round(middle / TILE)
    return tiled if start < tiled < end else middle


def _notes(
    profile: LatencyProfile, rates: _Rates, best: Point, plain: Point, beyond: Sequence[int]
) -> Iterator[str]:
    if profile.simulated:
        yield "latencies are simulated, not measured: profile the real machine before relying on this"
    if beyond:
        yield (
            f"left out: profiled sizes {_listed(beyond)}, beyond the growth's {rates.growth.size} tokens; "
            f"a larger --budget may reach them"
        )
    if best is not plain and best.interval and best.interval[0] <= plain.tokens_per_s:
        yield "the interval reaches down to plain decoding: more prompts or latency samples would tell"
    dtypes = profile.provenance.get("dtype"), rates.table and rates.table.provenance.get("dtype")
    if all(dtypes) and dtypes[0] != dtypes[1]:
        yield f"latencies are of {dtypes[0]}, ranks of {dtypes[1]}: acceptance may differ"


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
