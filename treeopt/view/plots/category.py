"""One number by category of prompts, for several series side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.search.replay import Replay
from treeopt.view.plots.frame import frame
from treeopt.view.style import colours, legend_above, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(category="str", series="str", value="float", low="float", high="float")
APART = 0.7
"""Share of a category's height over which its series are spread."""

Known = float | tuple[float, float, float]
"""A value, alone or with the ends of its interval."""


def category_info(series: Mapping[str, Mapping[str, Known] | Replay], *, seed: int = 0) -> pd.DataFrame:
    """A row for each series and category; `low` and `high` end its interval, NaN where unknown.

    A series is a mapping of category to value, or to (value, low, high); or a replay, of which the tokens per step
    are taken, with 95 % intervals by bootstrap over prompts.
    """
    rows = [
        (category, name, *(known if isinstance(known, tuple) else (known, None, None)))
        for name, own in series.items()
        for category, known in (_of_replay(own, seed) if isinstance(own, Replay) else own).items()
    ]
    return frame(rows, COLUMNS, "categories: no values to draw")


def _of_replay(replayed: Replay, seed: int) -> Mapping[str, Known]:
    parts = replayed.by_category().items()
    return {name: (part.tokens_per_step, *part.interval(np.random.default_rng(seed))) for name, part in parts}


def draw_categories(axes: "Axes", info: pd.DataFrame, *, label: str = "tokens per step") -> "Axes":
    """Categories down in the order of the info, a dot a series with its interval; `label` names value and unit."""
    categories = list(dict.fromkeys(info["category"]))
    series = list(info.groupby("series", sort=False))
    for place, ((name, rows), colour) in enumerate(zip(series, colours(len(series)), strict=True)):
        down = rows["category"].map(categories.index) + APART * ((place + 0.5) / len(series) - 0.5)
        axes.hlines(down, rows["low"], rows["high"], color=colour, linewidth=1)
        axes.plot(
            rows["value"],
            down,
            label=str(name),
            **(line_look(place, colour) | {"linestyle": "none", "markersize": 4}),
        )
    for edge in range(1, len(categories)):
        axes.axhline(edge - 0.5, color="#e6e6e6", linewidth=0.5, zorder=0)
    axes.set_yticks(range(len(categories)), categories)
    axes.set_ylim(len(categories) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label)
    legend_above(axes)
    return axes
