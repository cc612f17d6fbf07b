"""The best size of the tree by batch and context."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.search.choice import Choice
from treeopt.view.plots.frame import axis_label, frame
from treeopt.view.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(
    batch="int",
    context="int",
    tokens="int",
    speedup="float",
    tokens_per_step="float",
    tokens_per_s="float",
    simulated="bool",
)
TITLES = {
    "tokens": "Best N (tokens verified per step)",
    "speedup": "Speedup over plain decoding (x)",
}


def settings_info(choices: Sequence[Choice]) -> pd.DataFrame:
    """A row for each batch and context, in rising order; `tokens` and `speedup` are 1 where no tree is faster."""
    rows = [
        [getattr(choice, name) for name in COLUMNS]
        for choice in sorted(choices, key=lambda choice: (choice.batch, choice.context))
    ]
    return frame(rows, COLUMNS, "settings: no choices to draw; treeopt choose makes them")


def draw_settings(axes: "Axes", info: pd.DataFrame, value: str = "tokens") -> "Axes":
    """Batches down, contexts across, the best size ("tokens") or the "speedup" in each cell, or "no tree".

    `info` may be any table with `batch`, `context`, `tokens` and `speedup`; it is marked where a column `simulated`
    says so. Settings that it lacks stay empty.
    """
    from matplotlib.colors import LogNorm

    title = axis_label(TITLES, value, "settings")
    shown, sizes = (_grid(info, column) for column in (value, "tokens"))
    values, none = shown.to_numpy(float), sizes.to_numpy(float) == 1
    norm = LogNorm(1, max(2.0, np.nanmax(values)))
    axes.imshow(np.where(none, np.nan, values), cmap="cividis", norm=norm, aspect="auto")
    for row, column in np.argwhere(~np.isnan(values)).tolist():
        number = values[row, column]
        light = none[row, column] or float(np.asarray(norm(number), float)) >= 0.5
        text = "no\ntree" if none[row, column] else f"{number:.0f}" if value == "tokens" else f"{number:.2f}"
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            size=SMALL,
            color="k" if light else "w",
            linespacing=0.9,
        )
    axes.set_xticks(
        range(len(shown.columns)), [_short(context) for context in shown.columns.to_numpy(int).tolist()]
    )
    axes.set_yticks(range(len(shown.index)), shown.index.astype(str))
    axes.set(xlabel="context (tokens in the cache)", ylabel="batch (sequences)")
    simulated = "simulated" in info and bool(info["simulated"].any())
    axes.set_title(title + ", simulated" * simulated, loc="left")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _grid(info: pd.DataFrame, column: str) -> pd.DataFrame:
    return info.pivot_table(index="batch", columns="context", values=column)


def _short(context: int) -> str:
    """In thousands of 1024 where it is a multiple."""
    return f"{context // 1024}k" if context and context % 1024 == 0 else str(context)
