"""Tokens per step by the size of the tree: by estimator, and of dense trees against sparse ones."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from treeopt.errors import InputError
from treeopt.search.compare import DENSE, RANDOM, VISITED
from treeopt.view.plots.frame import axis_label, frame, picked
from treeopt.view.style import MUTED, PALETTE, SIZE, colours, legend_above, line_look, size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(
    estimator="str",
    on_policy="bool",
    tokens="int",
    tokens_per_step="float",
    low="float",
    high="float",
    predicted="float",
)
TREE_COLUMNS = dict(kind="str", name="str", tokens="int", tokens_per_step="float", tokens_per_s="float")
LABELS = {"tokens_per_step": "tokens per step", "tokens_per_s": "token/s over the batch"}
GREY = {RANDOM: "#999999", DENSE: "#444444"}
"""Trees that know no accuracies, beside those that do."""


def budget_info(estimators: Mapping[str, Any], *, comparison: int = 0) -> pd.DataFrame:
    """A row for each way to a tree and size N, from what `benchmarks/estimators.py` writes (`estimators.json`).

    `tokens_per_step` is by replay, `low` and `high` end its 95 % interval; `predicted` is what the way itself
    expected, NaN where it expects nothing. `on_policy` ways weight rows by visits. A file of several rank tables has
    a `comparison` each, counted from 0. InputError for anything else.
    """
    comparisons = estimators.get("comparisons")
    if not isinstance(comparisons, Sequence) or not 0 <= comparison < len(comparisons):
        raise InputError(
            f"estimators: no comparison {comparison}; benchmarks/estimators.py makes this file, one for each rank table"
        )
    rows = []
    for number, line in enumerate(comparisons[comparison].get("lines", ())):
        fields = ("name", "tokens", "tokens_per_step", "interval", "predicted")
        name, tokens, rate, (low, high), predicted = picked(line, fields, f"estimators: line {number}")
        rows.append((name.removesuffix(VISITED), name.endswith(VISITED), tokens, rate, low, high, predicted))
    return frame(rows, COLUMNS, "estimators: the comparison has no lines")


def draw_budget(axes: "Axes", info: pd.DataFrame, *, predicted: bool = False) -> "Axes":
    """Tokens per step against N: a line for each estimator, dashed where on-policy; trees of one size as crosses.

    The band is the 95 % interval of the first line; all move together with the prompts. With `predicted`, what each
    way expected is dotted.
    """
    ways = [
        (key, line.sort_values("tokens"))
        for key, line in info.groupby(["estimator", "on_policy"], sort=False)
    ]
    lines, single = [way for way in ways if len(way[1]) > 1], [line for _, line in ways if len(line) == 1]
    places = {name: place for place, name in enumerate(dict.fromkeys(name for (name, _), _ in lines))}
    shades = colours(len(places))
    for (name, on_policy), line in lines:
        colour = GREY.get(str(name), shades[places[name]])
        look = line_look(places[name], colour) | {"linestyle": "--" if on_policy else "-"}
        if line is lines[0][1]:
            axes.fill_between(
                line["tokens"], line["low"], line["high"], color=colour, alpha=0.13, linewidth=0
            )
        axes.plot(line["tokens"], line["tokens_per_step"], label=None if on_policy else str(name), **look)
        if predicted:
            axes.plot(line["tokens"], line["predicted"], color=colour, linestyle=":", linewidth=0.9)
    if single:
        points = pd.concat(single)
        axes.plot(
            points["tokens"], points["tokens_per_step"], "x", color=MUTED, markersize=4, label="given trees"
        )
    for shown, style, name in ((info["on_policy"].any(), "--", "on-policy"), (predicted, ":", "predicted")):
        if shown:
            axes.plot([], [], color=MUTED, linestyle=style, label=name)
    size_axis(axes, info["tokens"].tolist())
    axes.set_ylabel("tokens per step")
    legend_above(axes)
    return axes


def ablation_info(trees: pd.DataFrame | Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What `dense_vs_sparse` computed, fresh or read from a file: a row a tree; see `TREE_COLUMNS`.

    `tokens_per_s` is NaN where the size was not timed. InputError where a column is missing.
    """
    rows: Sequence[Mapping[Any, Any]] = trees.to_dict("records") if isinstance(trees, pd.DataFrame) else trees
    wanted = [picked(row, TREE_COLUMNS, f"ablation: tree {number}") for number, row in enumerate(rows)]
    return frame(wanted, TREE_COLUMNS, "ablation: no trees to draw; treeopt.search.ablation makes them")


def draw_dense_sparse(axes: "Axes", info: pd.DataFrame, y: str = "tokens_per_step") -> "Axes":
    """Blue dots for dense trees, red stars for sparse ones, against N, as Fig. 4 of Cai et al. 2024 has them.

    `y` is "tokens_per_step" or "tokens_per_s", of which trees of sizes that were not timed have none.
    """
    label = axis_label(LABELS, y, "dense against sparse")
    shown = info.dropna(subset=[y])
    for kind, colour, name, marker, size in (
        ("dense", PALETTE[0], "dense, random", "o", 3.0),
        ("sparse", PALETTE[1], "sparse, optimised", "*", 6.0),
    ):
        rows = shown[shown["kind"] == kind]
        if len(rows):
            look: dict[str, Any] = {
                "linestyle": "none",
                "marker": marker,
                "markersize": size,
                "color": colour,
            }
            axes.plot(rows["tokens"], rows[y], label=f"{name} ({len(rows)})", mew=0, alpha=0.8, **look)
    axes.set(xlabel=SIZE, ylabel=label)
    axes.legend()
    return axes
