"""The answer of the search: a tree and its predicted speed, with all it was compared with; `choice.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from treeopt.artifact import read_json, write_json
from treeopt.errors import InputError
from treeopt.tree import ROOT, Tree

Interval = tuple[float, float]


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
    """Read what `write_choice` wrote; InputError for anything else."""
    content = read_json(path, "choice")
    try:
        return [_from_json(point, str(path)) for point in content.get("points", [content])]
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(
            f"{path}: not a whole choice file ({error}); `treeopt choose` makes this file"
        ) from error


def _from_json(point: Mapping[str, Any], where: str) -> Choice:
    choices, dtype = point["choices"], point["dtype"]
    return Choice(
        batch=int(point["batch"]),
        context=int(point["context"]),
        dtype=None if dtype is None else str(dtype),
        choices=None if choices is None else Tree.from_choices(choices, where=where).choices,
        **asdict(_point_from_json(point)),
        plain=Plain(float(point["plain"]["latency_ms"]), float(point["plain"]["tokens_per_s"])),
        speedup=float(point["speedup"]),
        curve=tuple(map(_point_from_json, point["curve"])),
        estimated_from=str(point["estimated_from"]),
        simulated=bool(point["simulated"]),
        next_sizes=tuple(map(int, point["next_sizes"])),
        notes=tuple(map(str, point["notes"])),
        provenance=dict(point["provenance"]),
    )


def _point_from_json(point: Mapping[str, Any]) -> Point:
    interval = point["interval"]
    return Point(
        int(point["tokens"]),
        float(point["tokens_per_step"]),
        float(point["latency_ms"]),
        float(point["tokens_per_s"]),
        None if interval is None else (float(interval[0]), float(interval[1])),
    )
