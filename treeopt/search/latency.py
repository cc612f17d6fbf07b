"""Latencies of decoding steps as they were measured: raw samples by batch, context and tokens verified."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeopt.artifact import read_json, require_match, sha256_file, write_json
from treeopt.errors import InputError, MismatchError

PARTS = ("plain", "step", "verify", "heads", "accept")
"""What a sample timed: a plain decoding step, a whole tree decoding step, or one part of the latter."""

SHORTEST_MS, LONGEST_MS = 1e-9, 1e9
"""No decoding step is shorter or longer; what is beyond was not measured."""

COLUMNS = ("batch", "context", "tokens", "part", "latency_ms")
SAME_MACHINE = ("model_sha256", "heads_sha256", "dtype", "device", "platform")

Setting = tuple[int, int]
"""(batch, context): sequences served together, and tokens each has in the cache."""


@dataclass(frozen=True, eq=False)
class LatencyProfile:
    """Samples of decoding latency, one a row, with the columns of COLUMNS; `latency_ms` in milliseconds.

    `tokens` is N, the tokens verified for each sequence, so 1 is plain decoding. `simulated` marks numbers
    that come from a hardware model and not from a clock. Make one with `from_rows`, `from_csv` or `read`,
    which check every row.
    """

    samples: pd.DataFrame
    simulated: bool = False
    provenance: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        simulated: bool = False,
        provenance: Mapping[str, Any] | None = None,
        where: str = "sample",
    ) -> Self:
        """Check the samples and keep them; InputError names a bad one as `where` and its number, from 0.

        A row without a `part` is a plain step where tokens = 1 and a whole tree step elsewhere.
        """
        checked = [_sample(row, f"{where} {number}") for number, row in enumerate(rows)]
        return cls(pd.DataFrame(checked, columns=list(COLUMNS)), simulated, dict(provenance or {}))

    @classmethod
    def from_csv(cls, path: str | Path) -> Self:
        """Read any engine's latencies: columns `batch,context,tokens,latency_ms`, where tokens = 1 is plain.

        Several rows of one setting and size are samples of it. InputError names the file and the line.
        """
        where = f"{path} line"
        checked = [_sample(row, f"{where} {line}") for line, row in _csv_rows(Path(path))]
        if not checked:
            raise InputError(
                f"{path}: has no rows below its header; write one for each size that you measured"
            )
        source = {"latency_file": Path(path).name, "latency_sha256": sha256_file(path)}
        return cls(pd.DataFrame(checked, columns=list(COLUMNS)), provenance=source)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read `latency.json`, or a file named `.csv` as `from_csv` does."""
        if Path(path).suffix.lower() == ".csv":
            return cls.from_csv(path)
        content = read_json(path, "latency", fields=("samples",))
        samples, provenance = content["samples"], content.get("provenance", {})
        if not isinstance(samples, list) or not all(isinstance(row, dict) for row in samples):
            raise InputError(f"{path}: 'samples' is not a list of objects; `treeopt profile` makes this file")
        if not isinstance(provenance, dict):
            raise InputError(f"{path}: 'provenance' is not an object; `treeopt profile` makes this file")
        if not samples:
            raise InputError(f"{path}: has no samples; time some sizes with `treeopt profile`")
        simulated = content.get("simulated", False) is not False
        return cls.from_rows(samples, simulated=simulated, provenance=provenance, where=f"{path}: sample")

    def write(self, path: str | Path) -> None:
        """Write `latency.json`."""
        rows = self.samples.to_dict("records")
        content = {"samples": rows, "simulated": self.simulated, "provenance": self.provenance}
        write_json(path, content, "latency")

    def merge(self, other: "LatencyProfile") -> "LatencyProfile":
        """All samples of both; MismatchError unless they are of the same model, heads, dtype and machine."""
        require_match("one latency profile", self.provenance, "the other", other.provenance, SAME_MACHINE)
        if self.simulated != other.simulated:
            raise MismatchError(
                "one latency profile is simulated and the other measured; compare them, but do not mix them"
            )
        samples = pd.concat([self.samples, other.samples], ignore_index=True)
        return LatencyProfile(samples, self.simulated, self.provenance | other.provenance)

    @cached_property
    def _groups(self) -> dict[tuple[int, int, int, str], NDArray[np.float64]]:
        keys = zip(*(self.samples[name].tolist() for name in COLUMNS[:-1]), strict=True)
        groups: dict[tuple[int, int, int, str], list[float]] = {}
        for key, latency in zip(keys, self.samples["latency_ms"].tolist(), strict=True):
            groups.setdefault(key, []).append(latency)
        return {key: np.array(latencies) for key, latencies in groups.items()}

    def settings(self) -> list[Setting]:
        """Every (batch, context) with samples, in rising order."""
        return sorted({(batch, context) for batch, context, _, _ in self._groups})

    def sizes(self, batch: int, context: int) -> list[int]:
        """Tokens N of the tree steps that were timed at this setting, in rising order."""
        return sorted(n for b, c, n, part in self._groups if (b, c, part) == (batch, context, "step"))

    def latencies(self, batch: int, context: int, tokens: int, part: str = "step") -> NDArray[np.float64]:
        """All samples [n] of one size, in ms; InputError where it was not measured."""
        found = self._groups.get((batch, context, tokens, part))
        if found is None:
            raise InputError(
                f"{self._name}: no {part} latency for {tokens} tokens at batch {batch}, context {context}; "
                f"profile that size"
            )
        return found

    def median(self, batch: int, context: int, tokens: int, part: str = "step") -> float:
        """Median latency in ms."""
        return float(np.median(self.latencies(batch, context, tokens, part)))

    def quartiles(self, batch: int, context: int, tokens: int, part: str = "step") -> tuple[float, float]:
        """Lower and upper quartile of the latency, in ms."""
        lower, upper = np.quantile(self.latencies(batch, context, tokens, part), (0.25, 0.75))
        return float(lower), float(upper)

    def plain_latencies(self, batch: int, context: int) -> NDArray[np.float64]:
        """Samples [n] of plain decoding in ms: timed as such, else tree steps of one token."""
        for part in ("plain", "step"):
            found = self._groups.get((batch, context, 1, part))
            if found is not None:
                return found
        raise InputError(
            f"{self._name}: no plain decoding at batch {batch}, context {context} to compare with; "
            f"add rows with tokens = 1"
        )

    def plain_ms(self, batch: int, context: int) -> float:
        """Median latency of a plain decoding step, in ms."""
        return float(np.median(self.plain_latencies(batch, context)))

    @property
    def _name(self) -> str:
        return str(self.provenance.get("latency_file", "latency profile"))


def _csv_rows(path: Path) -> Iterable[tuple[int, dict[str, str]]]:
    """Data rows of a CSV file with their line numbers; the header must have every column but `part`."""
    needed = [name for name in COLUMNS if name != "part"]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in needed if name not in header]
            if missing:
                raise InputError(
                    f"{path}: no column {', '.join(missing)} (found {', '.join(header)!a:.80}); "
                    f"the header must be {','.join(needed)}"
                )
            for cells in filter(None, reader):
                if len(cells) != len(header):
                    raise InputError(
                        f"{path} line {reader.line_num}: {len(cells)} values under {len(header)} columns; "
                        f"give one for each"
                    )
                yield reader.line_num, dict(zip(header, map(str.strip, cells), strict=True))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error}); save it as one") from error


def _sample(row: Mapping[str, Any], where: str) -> tuple[int, int, int, str, float]:
    """One checked row, in the order of COLUMNS."""
    batch, context, tokens = (
        _whole(row, name, least, where) for name, least in (("batch", 1), ("context", 0), ("tokens", 1))
    )
    part = row.get("part") or ("plain" if tokens == 1 else "step")
    if part not in PARTS:
        raise InputError(f"{where}: part is {part!r:.40}; it is one of {', '.join(PARTS)}")
    if part == "plain" and tokens != 1:
        raise InputError(f"{where}: a plain step of {tokens} tokens; plain decoding has tokens = 1")
    latency = _number(row.get("latency_ms"))
    if not SHORTEST_MS <= latency <= LONGEST_MS:
        raise InputError(
            f"{where}: latency_ms is {row.get('latency_ms')!r:.40}; it is a number of milliseconds above 0,"
            f" to {LONGEST_MS:g}"
        )
    return batch, context, tokens, part, latency


def _whole(row: Mapping[str, Any], name: str, least: int, where: str) -> int:
    value = _number(row.get(name))
    if not value.is_integer() or value < least:
        raise InputError(f"{where}: {name} is {row.get(name)!r:.40}; it is a whole number from {least}")
    return int(value)


def _number(value: Any) -> float:
    """The number that a cell holds, NaN where it holds none."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
