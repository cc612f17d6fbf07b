"""Small tables: what stands in them (headings and rows), and aligned text of it, for the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choice import Choice, Interval
from treeopt.search.latency import LatencyProfile
from treeopt.view.printable import on_one_line

Cells = tuple[list[str], list[list[Any]]]
"""Headings, and rows of values for `cell`."""

RUN_COLUMNS = {
    "name": "name",
    "tokens": "N",
    "steps": "steps",
    "emitted": "emitted",
    "tokens_per_step": "tokens/step",
    "interval": "95 %",
    "tokens_per_s": "token/s",
    "overhead": "overhead",
    "speedup": "speedup",
    "speedup_interval": "95 %",
    "identical_to_plain": "as plain",
}
"""Columns of a table of runs: fields of `evaluation.json`, and their headings."""

PART_COLUMNS = ("tokens_per_step", "interval", "tokens_per_s", "speedup", "speedup_interval")
"""Those of them that a run has for each category too."""

DEPTH = "depth"

MANY = 8
"""Runs beyond which a text leaves categories to --json."""


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Align rows under headings: the first column to the left, all others to the right; None is a dash."""
    cells = [list(headings), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)


def curve_table(choice: Choice) -> str:
    """`curve_cells` as text."""
    return table(*curve_cells(choice))


def accuracy_table(accuracy: AccuracyTable, ranks: int = 4) -> str:
    """`accuracy_cells` as text."""
    return table(*accuracy_cells(accuracy, ranks))


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """`runs_cells` as text."""
    return table(*runs_cells(runs))


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """All runs in a table, and one of their acceptance by depth, over all prompts and in each category."""
    few = len(runs) <= MANY
    headings, rows = parts_cells(runs, by_category=few)
    parts = [runs_table(runs), table(headings, rows)]
    if headings[-1].startswith(DEPTH):
        parts.append(
            f"{DEPTH} k: of the steps that accepted all guesses above it, the share that accepted there"
        )
    return "\n\n".join(parts if few else [*parts, "by category: --json"])


def curve_cells(choice: Choice) -> Cells:
    """Every size that was compared, plain decoding first; the chosen one is marked."""
    plain = choice.plain
    rows: list[list[Any]] = [["plain", 1.0, plain.latency_ms, plain.tokens_per_s, None, 1.0]]
    for point in choice.curve:
        speedup = point.tokens_per_s / plain.tokens_per_s
        rows.append([str(point.tokens), point.tokens_per_step, point.latency_ms, point.tokens_per_s])
        rows[-1] += [_interval(point.interval, ".1f"), speedup]
    chosen = next((i for i, point in enumerate(choice.curve, 1) if point.tokens == choice.tokens), 0)
    marked = [[*row, "<" if i == chosen else ""] for i, row in enumerate(rows)]
    return ["N", "tokens/step", "ms/step", "token/s", "95 %", "speedup", ""], marked


def accuracy_cells(accuracy: AccuracyTable, ranks: int = 4) -> Cells:
    """Accuracy of each head's first guesses, with trials and 95 % intervals where they are known."""
    shown = min(ranks, accuracy.width)
    rows = []
    for head in range(accuracy.heads):
        row: list[Any] = [str(head + 1), None if accuracy.trials is None else int(accuracy.trials[head])]
        for rank in range(shown):
            value = f"{accuracy.values[head, rank]:.3f}"
            if accuracy.low is not None and accuracy.high is not None:
                value += f" ({accuracy.low[head, rank]:.3f}-{accuracy.high[head, rank]:.3f})"
            row.append(value)
        rows.append(row)
    return ["head", "trials", *(f"rank {rank}" for rank in range(shown))], rows


def runs_cells(runs: Sequence[Mapping[str, Any]]) -> Cells:
    """Runs of an evaluation or a replay, side by side; columns that no run has are left out."""
    columns = [name for name in RUN_COLUMNS if any(run.get(name) is not None for run in runs)]
    return [RUN_COLUMNS[name] for name in columns], [[run.get(name) for name in columns] for run in runs]


def parts_cells(runs: Sequence[Mapping[str, Any]], *, by_category: bool = True) -> Cells:
    """Acceptance by depth of each run, all in all and in each category; columns that no run has are left out."""
    parts = [
        (run["name"], category, part)
        for run in runs
        for category, part in ({"all": run} | (run.get("categories", {}) if by_category else {})).items()
    ]
    columns = [name for name in PART_COLUMNS if any(part.get(name) is not None for _, _, part in parts)]
    depth = max(len(part.get("acceptance") or ()) for _, _, part in parts)
    rows = [
        [name, category, *(part.get(column) for column in columns), *(part.get("acceptance") or ())]
        for name, category, part in parts
    ]
    headings = [*(RUN_COLUMNS[name] for name in columns), *(f"{DEPTH} {k + 1}" for k in range(depth))]
    width = 2 + len(headings)
    return ["name", "category", *headings], [row + [None] * (width - len(row)) for row in rows]


def latency_cells(profile: LatencyProfile) -> Cells:
    """Median, quartiles and overhead of every size at every batch and context."""
    rows: list[list[Any]] = []
    for batch, context in profile.settings():
        samples = {1: profile.plain_latencies(batch, context)}
        samples |= {size: profile.latencies(batch, context, size) for size in profile.sizes(batch, context)}
        plain = profile.plain_ms(batch, context)
        for size, latencies in sorted(samples.items()):
            low, median, high = np.quantile(latencies, (0.25, 0.5, 0.75)).tolist()
            rows.append([str(batch), context, size, median, f"{low:.3f}-{high:.3f}", median / plain])
    return ["batch", "context", "N", "ms/step", "quartiles", "overhead"], rows


def _interval(interval: Interval | None, spec: str) -> str | None:
    return None if interval is None else f"{interval[0]:{spec}}-{interval[1]:{spec}}"


def cell(value: Any) -> str:
    """A value as it stands in a table: None is a dash, large numbers have commas or fewer decimals, a pair a dash."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return "-".join(map(cell, value))
    if isinstance(value, str):
        return on_one_line(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
