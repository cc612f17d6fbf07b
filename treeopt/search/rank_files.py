"""Reading rank tables: treeopt's own, and those of any drafter that can say "the truth was my i-th guess"."""

import csv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeopt.errors import InputError
from treeopt.search.ranks import UNKNOWN, RankTable

FAR = np.iinfo(np.int32).max
"""A rank that is a miss at any width."""


def read_ranks(path: str | Path, *, width: int | None = None) -> RankTable:
    """Read a rank table by its suffix: `.csv`, `.npz`, otherwise safetensors as `RankTable.save` writes it.

    CSV: a row a position with `id,category,offset,rank_1..rank_K` and perhaps `ended`; a rank is a
    number, `miss`, or empty (or -1) for unknown. NPZ: integer `ranks` [P, K] and `sequence` [P]; perhaps
    `offset` [P], `probabilities` [P, K, R], and for each answer `ids`, `categories`, `ended`; and `width`.
    `width` (R) says how many ranks the drafter kept, higher ones being misses; without it, all ranks that occur
    were kept. Raises InputError.
    """
    readers = {".csv": _read_csv, ".npz": _read_npz}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        return RankTable.load(path)
    try:
        return reader(Path(path), width)
    except (OSError, EOFError, zipfile.BadZipFile, csv.Error, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_csv(path: Path, width: int | None) -> RankTable:
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        heads = sum(name.startswith("rank_") for name in columns)
        names = [f"rank_{head}" for head in range(1, heads + 1)]
        missing = [name for name in ["id", "offset", *(names or ["rank_1"])] if name not in columns]
        if missing:
            raise InputError(f"no column {', '.join(missing)}; give id,category,offset,rank_1..rank_K")
        rows = list(enumerate(reader, start=2))
    first = {row["id"]: row for _, row in reversed(rows)}
    ids = list(dict.fromkeys(row["id"] for _, row in rows))
    index = {name: number for number, name in enumerate(ids)}
    # [P, 2 + K], put in order below: rows of one answer may lie anywhere in the file
    table = np.array(
        [
            [index[row["id"]], _cell(row, "offset", at), *(_cell(row, name, at) for name in names)]
            for at, row in rows
        ],
        np.int64,
    ).reshape(len(rows), 2 + heads)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return RankTable(
        ranks=table[:, 2:],
        sequence=table[:, 0],
        offset=table[:, 1],
        ids=tuple(ids),
        categories=tuple(first[name].get("category") or "all" for name in ids),
        ended=tuple(first[name].get("ended") or "limit" for name in ids),
        width=_width(table[:, 2:]) if width is None else width,
        provenance={"source": path.name},
    )


def _cell(row: Mapping[str, str | None], name: str, line: int) -> int:
    text = (row[name] or "").strip()
    if name != "offset" and text.lower() in ("", "miss"):
        return FAR if text else UNKNOWN
    try:
        return int(text)
    except ValueError as error:
        hint = "a whole number" if name == "offset" else "a whole number, miss, or empty for unknown"
        raise InputError(f"line {line}: {name} is {text!r}; give {hint}") from error


def _read_npz(path: Path, width: int | None) -> RankTable:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = [name for name in ("ranks", "sequence") if name not in arrays]
    if missing:
        raise InputError(f"no array {', '.join(missing)}; give integer ranks [P, K] and sequence [P]")
    ranks, sequence = arrays["ranks"], arrays["sequence"]
    count = len(arrays["ids"]) if "ids" in arrays else int(sequence.max(initial=-1)) + 1
    if width is None:
        width = int(arrays["width"]) if "width" in arrays else _width(ranks)

    def names(array: str, default: list[str]) -> tuple[str, ...]:
        return tuple(str(name) for name in arrays.get(array, default))

    return RankTable(
        ranks=ranks,
        sequence=sequence,
        offset=arrays["offset"] if "offset" in arrays else _offsets(sequence),
        ids=names("ids", [str(number) for number in range(count)]),
        categories=names("categories", ["all"] * count),
        ended=names("ended", ["limit"] * count),
        width=width,
        provenance={"source": path.name},
        probabilities=arrays.get("probabilities"),
    )


def _offsets(sequence: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Place of each row in its run of equal entries."""
    place = np.arange(len(sequence))
    starts = np.where(np.diff(sequence, prepend=-1) != 0, place, 0)
    return place - np.maximum.accumulate(starts)


def _width(ranks: np.ndarray[Any, Any]) -> int:
    """As many ranks as occur."""
    return int(ranks.max(initial=0, where=ranks < FAR)) + 1
