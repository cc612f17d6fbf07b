"""How often each guess of each head is right."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.search.accuracy import AccuracyTable
from treeopt.view.plots.frame import frame
from treeopt.view.style import SMALL, colours, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(head="int", rank="int", accuracy="float", low="float", high="float", trials="Int64")

SHOWN = 10
"""Ranks drawn unless more are asked for: later guesses are hardly ever right."""

LEAST, TICKS = 0.02, (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
"""In %: where the axis of the curves begins at the lowest, and its ticks."""


def accuracy_info(table: AccuracyTable) -> pd.DataFrame:
    """A row for each head (from 1) and rank (from 0), in shares from 0 to 1 of the head's `trials`.

    `accuracy` is of exactly that guess. `low` and `high` end its 95 % interval, NaN where it is not known, as
    `trials` is then NA.
    """
    values = table.values  # noqa: PD011
    low, high = (np.full_like(values, np.nan) if end is None else end for end in (table.low, table.high))
    trials = [None] * table.heads if table.trials is None else table.trials.tolist()
    rows = [
        (head + 1, rank, values[head, rank], low[head, rank], high[head, rank], trials[head])
        for head, rank in np.ndindex(values.shape)
    ]
    return frame(rows, COLUMNS, "accuracies: no heads to draw; calibrate on some prompts")


def draw_accuracy_heatmap(axes: "Axes", info: pd.DataFrame, *, ranks: int = SHOWN) -> "Axes":
    """Heads down, the first `ranks` guesses across, each cell shaded and with its accuracy in %."""
    from matplotlib.colors import PowerNorm

    shown = info[info["rank"] < ranks]
    table = 100 * shown.pivot_table(index="head", columns="rank", values="accuracy")
    cells = table.to_numpy(float)
    picture = axes.imshow(cells, cmap="cividis", norm=PowerNorm(0.5, 0, max(cells.max(), 1)), aspect="auto")
    shades = np.asarray(picture.norm(cells), float)
    for (row, column), value in np.ndenumerate(cells):
        colour = "w" if shades[row, column] < 0.5 else "k"
        text = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
        axes.text(column, row, text, ha="center", va="center", size=SMALL, color=colour)
    axes.set_xticks(range(len(table.columns)), table.columns.astype(str))
    axes.set_yticks(range(len(table.index)), table.index.astype(str))
    axes.set(xlabel="rank of the guess (0 = top)", ylabel="head")
    axes.set_title("Accuracy of exactly that guess (%)", loc="left")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def draw_accuracy_curves(axes: "Axes", info: pd.DataFrame, *, ranks: int = SHOWN) -> "Axes":
    """Accuracy in % (on a log axis) against the rank, a line a head, with 95 % intervals where they are known.

    Heads stand a little beside each other; a guess that was never right is left out.
    """
    shown = info[(info["rank"] < ranks) & (info["accuracy"] > 0)]
    heads = list(shown.groupby("head"))
    for place, ((head, line), colour) in enumerate(zip(heads, colours(len(heads)), strict=True)):
        across = line["rank"] + 0.08 * (place - (len(heads) - 1) / 2)
        value, low, high = (100 * line[name] for name in ("accuracy", "low", "high"))
        look = line_look(place, colour)
        axes.plot(across, value, label=f"head {head}", **look)
        axes.vlines(across, low.clip(LEAST), high, color=colour, linewidth=0.9)
    axes.set_yscale("log")
    axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_ylim(max(LEAST, 50 * shown["accuracy"].min()), 100)
    axes.set_xticks(range(min(ranks, int(info["rank"].max()) + 1)))
    axes.set(xlabel="rank of the guess (0 = top)", ylabel="accuracy (%)")
    known = bool(shown["low"].notna().any())
    axes.set_title("Accuracy of exactly that guess" + ", 95 % intervals" * known, loc="left")
    if heads:
        axes.legend(ncols=2)
    return axes
