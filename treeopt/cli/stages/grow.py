"""Growth from the run's ranks, or from a table of accuracies that someone has."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treeopt.artifact import provenance, sha256_file
from treeopt.cli.growing import PUBLISHED, Growing
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.accuracy_files import read_accuracy, split_name
from treeopt.search.coverage import PassTable, grow_coverage
from treeopt.search.estimate import ESTIMATORS, Independent
from treeopt.search.grow import Growth, grow
from treeopt.search.on_policy import on_policy
from treeopt.search.prefixes import Weights, marginals
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable


def from_ranks(
    path: Path,
    budget: int,
    *,
    split: str = "calibrate",
    growing: Growing = PUBLISHED,
    contiguous: bool = False,
    **limits: int | None,
) -> Growth:
    """Grow from one half of a rank table's answers."""
    table = read_ranks(path)
    half = table.split(split)
    origin = derived(
        table.provenance,
        ranks_sha256=sha256_file(path),
        split=split,
        heads=table.heads,
        positions=half.positions,
        **asdict(growing),
    )
    facts = origin | _settings(budget, contiguous, limits)
    make = _pooled if contiguous else ESTIMATORS[growing.estimator]
    if growing.on_policy:
        return on_policy(half, make, budget, **limits, provenance=facts)
    return grow(make(half, None), budget, **limits, provenance=facts)


def from_table(
    source: str, budget: int, *, cumulative: bool = False, contiguous: bool = False, **limits: int | None
) -> Growth:
    """Grow from FILE or FILE:NAME: JSON, CSV, or the reference tool's `.pt`, for which alone torch is loaded."""
    path, _ = split_name(source)
    table = _read_table(source, path, cumulative)
    origin = provenance(accuracy=source, accuracy_sha256=sha256_file(path), heads=table.heads)
    estimator = Independent(table.contiguous() if contiguous else table)
    return grow(estimator, budget, **limits, provenance=origin | _settings(budget, contiguous, limits))


def from_passes(path: Path, budget: int, *, split: str = "calibrate", **limits: int | None) -> Growth:
    """Grow by coverage from one half of the recorded steps."""
    table = PassTable.load(path)
    origin = derived(table.provenance, passes_sha256=sha256_file(path), split=split)
    return grow_coverage(
        table.split(split), budget, **limits, provenance=origin | _settings(budget, False, limits)
    )


def derived(origin: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """A provenance of today that takes over what another says about model, text and settings."""
    header = provenance()
    return provenance(**{name: fact for name, fact in origin.items() if name not in header} | facts)


def _read_table(source: str, path: Path, cumulative: bool) -> AccuracyTable:
    if path.suffix != ".pt":
        return read_accuracy(source, cumulative=cumulative)
    if cumulative:
        raise InputError(f"{path}: holds hits of exactly each guess; leave --cumulative out")
    from treeopt.model.checkpoints import read_heads_accuracy

    return AccuracyTable.from_hits(read_heads_accuracy(path), where=str(path))


def _pooled(table: RankTable, weights: Weights | None) -> Independent:
    return Independent(marginals(table, weights).contiguous())


def _settings(budget: int, contiguous: bool, limits: Mapping[str, int | None]) -> dict[str, Any]:
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return {"budget": budget, "contiguous": contiguous} | given
