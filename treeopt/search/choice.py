"""The answer of the search: a tree and its predicted speed, with all it was compared with; `choice.json`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from treeopt.artifact import read_json, write_json
from treeopt.errors import InputError
from treeopt.tree import ROOT, Tree

Interval = tuple[float, float]

MANY = 2**31
"""More than any batch, context or number of tokens."""


@dataclass(frozen=True)
class Point:
    """One timed size: N tokens, tokens per step, ms a step, token/s over the batch and its 95 % interval."""

    tokens: int
    tokens_per_step: float
    latency_ms: float
    tokens_per_s: float
    interval: Interval | None = None


@dataclass(frozen=True)
class Plain:
    """Plain decoding at the same setting."""

    latency_ms: float
    tokens_per_s: float


@dataclass(frozen=True)
class Choice:
    """The fastest tree for one batch and context, and what it was chosen from.

    `choices` is None for "no tree": plain decoding is the fastest. `interval` covers 95 % of resampled prompts
    and latency samples, of the tree as chosen: it does not undo the optimism of having picked the best, which
    decoding other prompts shows; it is None without ranks. `estimated_from` says whether tokens per step were
    replayed or are the growth's values. `next_sizes` are sizes worth profiling next, `notes` what a reader of
    the numbers should know.
    """

    batch: int
    context: int
    dtype: str | None
    choices: tuple[tuple[int, ...], ...] | None
    tokens: int
    tokens_per_step: float
    latency_ms: float
    tokens_per_s: float
    interval: Interval | None
    plain: Plain
    speedup: float
    curve: tuple[Point, ...]
    estimated_from: str
    simulated: bool
    next_sizes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def tree(self) -> Tree:
        """The tree to decode with: the bare root where plain decoding is the fastest."""
        return ROOT if self.choices is None else Tree(self.choices)


def write_choice(path: str | Path, choices: Sequence[Choice], provenance: Mapping[str, Any]) -> None:
    """Write `choice.json`; `provenance` joins each choice's own. Several choices stand under `points`."""
    points = [asdict(replace(choice, provenance=choice.provenance | dict(provenance))) for choice in choices]
    write_json(path, points[0] if len(points) == 1 else {"points": points}, "choice")


def read_choice(path: str | Path) -> list[Choice]:
    """Read what `write_choice` wrote; InputError for anything else, numbers that contradict the tree among it."""
    content = read_json(path, "choice")
    try:
        points = [_from_json(point, str(path)) for point in content.get("points", [content])]
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"{path}: not a whole choice file ({error}); `treeopt choose` makes this file"
        ) from error
    if not points:
        raise InputError(f"{path}: points is empty; `treeopt choose` makes this file")
    return points


def _from_json(point: Mapping[str, Any], where: str) -> Choice:
    choices, dtype = point["choices"], point["dtype"]
    choice = Choice(
        batch=_whole(point, "batch", 1),
        context=_whole(point, "context", 0),
        dtype=None if dtype is None else str(dtype),
        choices=None if choices is None else Tree.from_choices(choices, where=where).choices,
        **asdict(_point_from_json(point)),
        plain=Plain(_above_0(point["plain"], "latency_ms"), _above_0(point["plain"], "tokens_per_s")),
        speedup=_above_0(point, "speedup"),
        curve=tuple(map(_point_from_json, point["curve"])),
        estimated_from=str(point["estimated_from"]),
        simulated=point["simulated"],
        next_sizes=tuple(map(int, point["next_sizes"])),
        notes=tuple(map(str, point["notes"])),
        provenance=dict(point["provenance"]),
    )
    if choice.tokens != choice.tree.size:
        raise ValueError(f"tokens is {choice.tokens}, but its choices are a tree of {choice.tree.size}")
    if choice.choices and choice.tokens not in {timed.tokens for timed in choice.curve}:
        raise ValueError(f"curve has no point of its {choice.tokens} tokens")
    if type(choice.simulated) is not bool:
        raise ValueError(f"simulated is {choice.simulated!r:.40}")
    return choice


def _point_from_json(point: Mapping[str, Any]) -> Point:
    return Point(
        _whole(point, "tokens", 1),
        _above_0(point, "tokens_per_step"),
        _above_0(point, "latency_ms"),
        _above_0(point, "tokens_per_s"),
        _interval(point["interval"]),
    )


def _interval(ends: Any) -> Interval | None:
    if ends is None:
        return None
    low, high = (_above_0({"interval": end}, "interval") for end in ends)
    if low > high:
        raise ValueError(f"interval is {ends!r:.60}, which ends before it starts")
    return low, high


def _whole(point: Mapping[str, Any], name: str, least: int) -> int:
    value = point[name]
    if type(value) is not int or not least <= value < MANY:
        raise ValueError(f"{name} is {value!r:.40}, not a whole number from {least}")
    return value


def _above_0(point: Mapping[str, Any], name: str) -> float:
    value = point[name]
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r:.40}, not a number above 0")
    return float(value)
