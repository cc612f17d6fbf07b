"""Reading tables of accuracies that others made: JSON or CSV."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeopt.artifact import load_json
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable

Floats = NDArray[np.float64]

COLUMNS = ("accuracy", "trials", "low", "high")


def read_accuracy(source: str | Path, *, cumulative: bool = False) -> AccuracyTable:
    """Read a JSON matrix (heads x ranks, alone or under `accuracy`) or a CSV of `head,rank,accuracy`.

    In CSV heads count from 1 and ranks from 0, in any order; `trials`, and `low` with `high`, may follow.
    With `cumulative` the entries are top-i accuracies. A JSON object with `topk_accuracy` holds such
    tables by name and is cumulative by definition: `source` is then FILE:NAME. Raises InputError.
    """
    path, name = split_name(source)
    if path.suffix.lower() == ".csv":
        columns = _read_csv(path)
        trials = columns["trials"][:, 0].astype(np.int64) if "trials" in columns else None
        if cumulative:
            return AccuracyTable.from_cumulative(columns["accuracy"], trials=trials, where=str(path))
        low, high = columns.get("low"), columns.get("high")
        return AccuracyTable(columns["accuracy"], trials=trials, low=low, high=high, where=str(path))
    content = load_json(path)
    if isinstance(content, dict) and "topk_accuracy" in content:
        content, cumulative = _named(content["topk_accuracy"], name, path), True
    elif isinstance(content, dict) and "accuracy" in content:
        content = content["accuracy"]
    values = _matrix(content, str(source))
    make = AccuracyTable.from_cumulative if cumulative else AccuracyTable
    return make(values, where=str(source))


def split_name(source: str | Path) -> tuple[Path, str | None]:
    """FILE or FILE:NAME; a file whose own name has a colon is found first."""
    file, colon, name = str(source).rpartition(":")
    if colon and name and not Path(source).exists() and Path(file).exists():
        return Path(file), name
    return Path(source), None


def _named(tables: Any, name: str | None, path: Path) -> Any:
    if not isinstance(tables, Mapping) or not tables:
        raise InputError(f"{path}: topk_accuracy is no object of named tables")
    if name is None and len(tables) == 1:
        return next(iter(tables.values()))
    if name not in tables:
        asked = f"has no table {name!r}" if name else "holds several tables"
        raise InputError(f"{path}: {asked}; name one as {path}:NAME, NAME of {', '.join(tables)}")
    return tables[name]


def _matrix(content: Any, where: str) -> Floats:
    if (
        not isinstance(content, list)
        or not content
        or not all(isinstance(row, list) and row for row in content)
    ):
        raise InputError(
            f"{where}: no matrix of accuracies; give a list of ranks for each head, [[0.6, 0.2], ...]"
        )
    for head, row in enumerate(content, start=1):
        if len(row) != len(content[0]):
            raise InputError(
                f"{where}: head {head} has {len(row)} ranks and head 1 has {len(content[0])}; give all heads"
                " the same, with 0 where a rank was never right"
            )
        for rank, entry in enumerate(row):
            if not isinstance(entry, (int, float)) or isinstance(entry, bool):
                raise InputError(f"{where}: head {head}, rank {rank} is {entry!r}, not a number")
    try:
        return np.array(content, np.float64)
    except OverflowError as error:
        raise InputError(f"{where}: holds a number too large to be an accuracy") from error


def _read_csv(path: Path) -> dict[str, Floats]:
    """The columns [K, R] that all rows of a long table have, such as `AccuracyTable.write_csv` writes."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    cells: dict[tuple[int, int], dict[str, float]] = {}
    for line, row in enumerate(rows, start=2):
        place = _whole(row, "head", path, line) - 1, _whole(row, "rank", path, line)
        if min(place) < 0:
            raise InputError(f"{path}: line {line}: heads count from 1, ranks from 0")
        if place in cells:
            raise InputError(f"{path}: line {line}: head {place[0] + 1}, rank {place[1]} is given twice")
        known = {name for name in COLUMNS if row.get(name) not in (None, "")}
        cells[place] = {name: _number(row, name, path, line) for name in known | {"accuracy"}}
        for name in known - {"accuracy"}:
            value, most = cells[place][name], math.inf if name == "trials" else 1.0
            if not 0 <= value <= most or (name == "trials" and not value.is_integer()):
                raise InputError(f"{path}: line {line}: {name} is {value:g}; it cannot be that")
    if not cells:
        raise InputError(f"{path}: no rows; give head,rank,accuracy")
    heads, ranks = (max(place[axis] for place in cells) + 1 for axis in (0, 1))
    for place in np.ndindex(heads, ranks):  # the first gap comes at most one past the cells given
        if place not in cells:
            raise InputError(
                f"{path}: head {place[0] + 1} has no rank {place[1]}; give all heads the same ranks, from 0 on"
            )

    given = [name for name in COLUMNS if all(name in cell for cell in cells.values())]
    return {
        name: np.array([[cells[head, rank][name] for rank in range(ranks)] for head in range(heads)])
        for name in given
    }


def _number(row: Mapping[str, Any], name: str, path: Path, line: int) -> float:
    try:
        return float(row[name])
    except (KeyError, TypeError, ValueError) as error:
        found = repr(row[name]) if name in row else "absent"
        raise InputError(
            f"{path}: line {line}: {name} is {found}, not a number; the columns are head,rank,accuracy"
        ) from error


def _whole(row: Mapping[str, Any], name: str, path: Path, line: int) -> int:
    number = _number(row, name, path, line)
    if not (number.is_integer() and abs(number) < 2**31):
        raise InputError(f"{path}: line {line}: {name} is {number}, not a whole number")
    return int(number)
