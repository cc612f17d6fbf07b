"""Reading `evaluation.json`, and what `replay --json` prints: runs by name, each field checked once."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeopt.artifact import read_json
from treeopt.errors import InputError
from treeopt.tree import Tree


def read_evaluation(path: str | Path) -> dict[str, Any]:
    """The content, whose `runs` have what DESIGN names, of the right kinds; InputError names the run and the field.

    Fields that are absent stay so, but for the name and the counts that every run has; `choices` is a list.
    """
    content = read_json(path, "evaluation", ["runs"])
    runs = content["runs"]
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{path}: runs is not a list of runs by name; `treeopt evaluate` makes this file")
    if not isinstance(content.setdefault("provenance", {}), dict):
        raise InputError(f"{path}: provenance is not an object; `treeopt evaluate` makes this file")
    for number, run in enumerate(runs):
        run["choices"] = [] if run.get("choices") is None else run["choices"]  # null: plain decoding
        _check(run, f"{path}: run {number}")
    return content


def _check(run: Mapping[str, Any], where: str) -> None:
    for field in NEEDED:
        if field not in run:
            raise InputError(f"{where}: has no {field}; `treeopt evaluate` makes this file")
    for field, fits in KINDS.items():
        if field in run and not fits(run[field]):
            raise InputError(
                f"{where}: {field} is {run[field]!r:.40}; make the file again with `treeopt evaluate`"
            )
    Tree.from_choices(run["choices"], where=where)
    answers = {len(run[field]) for field in ("step_tokens", "ids") if field in run}
    if len(answers) > 1:
        raise InputError(
            f"{where}: has ids and step_tokens of different length; give one of each for every answer"
        )


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _each(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _object(**kinds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """An object in which these fields, where it has them, fit."""
    return lambda value: (
        isinstance(value, dict) and all(fits(value[name]) for name, fits in kinds.items() if name in value)
    )


_interval = _or_null(lambda value: _each(_number)(value) and len(value) == 2)
_shares = _or_null(_each(_or_null(_number)))
_part = _object(
    tokens_per_step=_number,
    acceptance=_shares,
    tokens_per_s=_or_null(_number),
    speedup=_or_null(_number),
    speedup_interval=_interval,
)
_divergence = _object(
    id=lambda value: isinstance(value, str), position=lambda value: type(value) is int, margin=_number
)

NEEDED = ("name", "tokens", "steps", "emitted", "tokens_per_step")

KINDS: dict[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str),
    "choices": lambda value: isinstance(value, list),
    **dict.fromkeys(("tokens", "steps", "emitted"), _count),
    "step_tokens": _each(_each(_count)),
    "ids": _each(lambda value: isinstance(value, str)),
    "tokens_per_step": _number,
    "interval": _interval,
    "acceptance": _shares,
    **dict.fromkeys(("tokens_per_s", "overhead", "speedup"), _or_null(_number)),
    "identical_to_plain": _or_null(lambda value: type(value) is bool),
    "divergences": _or_null(_each(_divergence)),
    "nan_nodes": _or_null(lambda value: type(value) is int),
    "categories": lambda value: isinstance(value, dict) and all(map(_part, value.values())),
}
"""What each field of a run must be, where it is there."""


def category_speedups(run: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """By category what a run gained over plain decoding, and the ends of its 95 % interval, NaN where unknown."""
    return {
        name: (part["speedup"], *(part.get("speedup_interval") or (math.nan, math.nan)))
        for name, part in run.get("categories", {}).items()
        if part.get("speedup") is not None
    }
