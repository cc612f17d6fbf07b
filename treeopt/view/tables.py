"""Small aligned tables of text, for the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choice import Choice, Interval

RUN_COLUMNS = {
    "name": "name",
    "tokens": "N",
    "steps": "steps",
    "emitted": "emitted",
    "tokens_per_step": "tokens/step",
    "tokens_per_s": "token/s",
    "overhead": "overhead",
    "speedup": "speedup",
    "identical_to_plain": "as plain",
}
"""Columns of a table of runs: fields of `evaluation.json`, and their headings."""


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Align rows under headings: the first column to the left, all others to the right; None is a dash."""
    cells = [list(headings), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        aligned = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)


def curve_table(choice: Choice) -> str:
    """Every size that was compared, plain decoding first; the chosen one is marked."""
    plain = choice.plain
    rows: list[list[Any]] = [["plain", 1.0, plain.latency_ms, plain.tokens_per_s, None, 1.0]]
    for point in choice.curve:
        speedup = point.tokens_per_s / plain.tokens_per_s
        rows.append([str(point.tokens), point.tokens_per_step, point.latency_ms, point.tokens_per_s])
        rows[-1] += [_interval(point.interval, ".1f"), speedup]
    chosen = next((i for i, point in enumerate(choice.curve, 1) if point.tokens == choice.tokens), 0)
    marked = [[*row, "<" if i == chosen else ""] for i, row in enumerate(rows)]
    return table(["N", "tokens/step", "ms/step", "token/s", "95 %", "speedup", ""], marked)


def accuracy_table(accuracy: AccuracyTable, ranks: int = 4) -> str:
    """Accuracy of each head's first guesses, with trials and 95 % intervals where they are known."""
    shown = min(ranks, accuracy.width)
    rows = []
    for head in range(accuracy.heads):
        row: list[Any] = [str(head + 1), None if accuracy.trials is None else int(accuracy.trials[head])]
        for rank in range(shown):
            cell = f"{accuracy.values[head, rank]:.3f}"
            if accuracy.low is not None and accuracy.high is not None:
                cell += f" ({accuracy.low[head, rank]:.3f}-{accuracy.high[head, rank]:.3f})"
            row.append(cell)
        rows.append(row)
    return table(["head", "trials", *(f"rank {rank}" for rank in range(shown))], rows)


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Runs of an evaluation or a replay, side by side; columns that no run has are left out."""
    columns = [name for name in RUN_COLUMNS if any(run.get(name) is not None for run in runs)]
    rows = [[run.get(name) for name in columns] for run in runs]
    return table([RUN_COLUMNS[name] for name in columns], rows)


def _interval(interval: Interval | None, spec: str) -> str | None:
    return None if interval is None else f"{interval[0]:{spec}}-{interval[1]:{spec}}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
