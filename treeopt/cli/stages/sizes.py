"""Trees of several sizes into a runtime's files, so that its own step can be timed by tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import write_text
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.fit import regrow
from treeopt.errors import InputError, UnsupportedError
from treeopt.export.format import Format
from treeopt.export.limits import breaches
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile, Setting

UNKNOWN: Setting = (1, 128)
"""Batch and context in the table to fill in, where the run has no latency that tells what it serves."""


@dataclass(frozen=True)
class Sized:
    """The files by tokens N, the growth that these trees are of, and whether it was grown for the runtime."""

    files: Mapping[int, Sequence[Path]]
    growth: Path
    regrown: bool
    table: str

    @property
    def paths(self) -> list[Path]:
        """All files, by rising size."""
        return [path for files in self.files.values() for path in files]

    def record(self) -> dict[str, Any]:
        """For JSON."""
        trees = [
            {"tokens": size, "files": [str(path) for path in files]} for size, files in self.files.items()
        ]
        return {
            "trees": trees,
            "growth": str(self.growth),
            "regrown": self.regrown,
            "latency_csv": self.table,
        }

    def __str__(self) -> str:
        listed = "\n".join(map(str, self.paths))
        return (
            f"{listed}\n\nTime a step of the runtime with each, and one of plain decoding, which is 1 token; note the"
            f" batch and context that you timed at in latency.csv:\n\n{self.table.rstrip()}"
        )


def export_sizes(run: RunDirectory, sizes: Sequence[int], format: Format, output: Path | None) -> Sized:
    """Write the run's trees of N tokens for each N of `sizes`, into files named by size.

    Where the runtime cannot express one of them, all are of a growth under its limits, from the run's ranks, which
    is written beside them: `choose` then looks among the trees that were timed. Errors come before any file.
    """
    growth, file = Growth.read(run.growth), output or run.directory / format.file_name
    origin = dict(growth.provenance)
    heads = origin["heads"] if type(origin.get("heads")) is int else None
    _require_all_heads(format, sizes, heads)
    regrown = _for_runtime(run, growth, sizes, format, heads)
    used = regrown or growth
    origin |= {"fitted_to": format.name} if regrown else {}
    texts = {size: format.write(used.tree(size), origin, heads) for size in sizes}
    path = file.with_name(f"growth-{format.name}.json") if regrown else run.growth
    if regrown:
        regrown.write(path)
    written: dict[int, list[Path]] = {size: [] for size in sizes}
    for size, files in texts.items():
        for suffix, text in files.items():
            written[size].append(file.with_name(f"{file.stem}_{size}{file.suffix}{suffix}"))
            write_text(written[size][-1], text)
    return Sized(written, path, regrown is not None, _to_fill_in(run, sizes))


def _require_all_heads(format: Format, sizes: Sequence[int], heads: int | None) -> None:
    if format.limits.all_heads and heads is not None and list(sizes) != [heads + 1]:
        raise UnsupportedError(
            f"{format.name}: drafts with all {heads} heads, so that a step has {heads + 1} tokens and no other"
            f" number; give --sizes {heads + 1}"
        )


def _for_runtime(
    run: RunDirectory, growth: Growth, sizes: Sequence[int], format: Format, heads: int | None
) -> Growth | None:
    """A growth of all sizes under the runtime's limits; None where the run's own will do.

    InputError for a size that it has not, UnsupportedError where there are no ranks to grow from.
    """
    limits, largest = format.limits, max(sizes)
    trees = [growth.tree(size) for size in sizes if size <= growth.size]
    breach = next((found for tree in trees for found in breaches(tree.choices, limits, heads)), None)
    if breach is None or not run.ranks.is_file():
        if largest > growth.size:
            more = growth.stopped or f"grow with --budget {largest}, or leave it out"
            raise InputError(f"--sizes {largest}: {run.growth} has trees up to {growth.size} tokens; {more}")
        if breach is None:
            return None
        raise UnsupportedError(
            f"{format.name}: {breach.what}; {run.ranks} is not there to grow others from, so grow with"
            f" --format {format.name}"
        )
    regrown = regrow(run, largest, format, growth.provenance)
    if largest > regrown.size:
        kind = "chain of top guesses" if limits.chain else "tree under its limits"
        raise InputError(
            f"--sizes {largest}: the largest {kind} that {format.name} can be given has {regrown.size} tokens;"
            " leave larger sizes out"
        )
    return regrown


def _to_fill_in(run: RunDirectory, sizes: Sequence[int]) -> str:
    """The CSV that `choose --latency` reads, without its latencies."""
    settings = LatencyProfile.read(run.latency).settings() if run.latency.is_file() else [UNKNOWN]
    rows = [f"{batch},{context},{tokens},\n" for batch, context in settings for tokens in (1, *sizes)]
    return "batch,context,tokens,latency_ms\n" + "".join(rows)
