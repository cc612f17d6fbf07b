"""The curves of a training log: what they are (a table), then how they are drawn (on Axes)."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from treeopt.view.style import INK, WIDTH_CM, colours, note, save_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = {"stage": str, "step": int, "epoch": float, "quantity": str, "head": int, "value": float}
"""Columns of the info, with their types."""

TRAIN, HELD_OUT, TEACHER = "train loss", "held-out loss", "distance to teacher"
FIELDS = {
    TRAIN: ("train_lm_loss", "train_loss"),
    HELD_OUT: ("held_out_lm_loss", "held_out_loss"),
    "top-1": ("held_out_lm_top1", "held_out_top1"),
    "top-5": ("held_out_lm_top5", "held_out_top5"),
}
"""Where a record has each quantity: the backbone's number, and the heads' list."""

FROZEN = ("medusa1", "warmup")
"""Stages in which the backbone learns nothing, so that it has no training loss and its accuracy stays."""

HEIGHT_CM, LEGEND_ROWS = 7.0, 16


def training_info(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The numbers of a log (`log.jsonl`) in long form, a row for each finite number; see `COLUMNS`.

    `step` runs on over the stages: each starts at the last step logged of the one before. `epoch` is that of the
    stage, NaN where not logged. `quantity` is "train loss", "held-out loss" (nats), "top-1" or "top-5" (shares of
    the held-out truths, 0 to 1); of a self-distilled backbone, "distance to teacher" (KL, nats) instead of a train
    loss. `head` is 0 for the backbone, 1 to K for the heads. Records without a step (the settings) give no rows.
    """
    steps = [(record.get("stage") or "", record) for record in records if record.get("step") is not None]
    last: dict[str, int] = {}
    for stage, record in steps:
        last[stage] = max(last.get(stage, 0), record["step"])
    starts = dict(zip(last, accumulate(last.values(), initial=0), strict=False))
    distilled = any(record.get("self_distill") for record in records)
    rows = [
        (stage, starts[stage] + record["step"], record.get("epoch"), quantity, head, value)
        for stage, record in steps
        for quantity, head, value in _numbers(record, distilled)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def draw_loss(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Loss in nats against the step, of the backbone and each head: lines in training, points on held-out answers.

    A self-distilled backbone's training line is dotted, as it is another loss. Returns `axes`, labelled for a legend.
    """
    _draw(axes, info, TRAIN)
    _draw(axes, info, TEACHER, linestyle=":")
    _draw(axes, info, HELD_OUT, linestyle="none", marker="o", markersize=3.2, mec="w", mew=0.4)
    return _finish(axes, info, "Loss (lines: training, points: held out)", "loss (nats)")


def draw_accuracy(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Held-out top-1 (solid) and top-5 (dashed) accuracy in % against the step, of each head.

    The backbone is there only where it changes: a frozen one is a level line far above the heads. Returns `axes`,
    labelled for a legend.
    """
    frozen = info["quantity"].isin(["top-1", "top-5"]) & (info["head"] == 0) & info["stage"].isin(FROZEN)
    learning = info[~frozen]
    _draw(axes, learning, "top-1", scale=100, marker="o", markersize=2)
    _draw(axes, learning, "top-5", scale=100, linestyle="--", marker="o", markersize=2)
    axes.set_ylim(bottom=0)
    return _finish(axes, info, "Held out (solid: top-1, dashed: top-5)", "accuracy (%)")


def training_figure(records: Sequence[Mapping[str, Any]]) -> "Figure":
    """Loss and held-out accuracy side by side, 16 cm wide, with one legend beside them."""
    from matplotlib.figure import Figure

    info = training_info(records)
    with styled():
        figure = Figure(figsize=(WIDTH_CM / 2.54, HEIGHT_CM / 2.54), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_loss(left, info)
        draw_accuracy(right, info)
        handles, labels = (left if left.lines else right).get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside right center", ncols=1 + len(handles) // LEGEND_ROWS)
    return figure


def save_training_plot(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Write `training_figure` as SVG or PNG, by the suffix of `path`; the same log gives the same bytes.

    Errors: InputError for another suffix, and when the place cannot be written.
    """
    save_figure(training_figure(records), path)


def _numbers(record: Mapping[str, Any], distilled: bool) -> list[tuple[str, int, float]]:
    """Quantity, head and value of each finite number that a record has."""
    found = []
    for quantity, (own, heads) in FIELDS.items():
        for head, value in enumerate([record.get(own), *(record.get(heads) or [])]):
            learning = quantity == TRAIN and head == 0
            if value is None or not math.isfinite(value) or (learning and record.get("stage") in FROZEN):
                continue
            found.append((TEACHER if learning and distilled else quantity, head, value))
    return found


def _colours(info: pd.DataFrame) -> dict[int, Any]:
    """A colour for every head that the info has: the palette's, or shades of one scale where those are too few."""
    heads = sorted(info["head"].unique())
    shades = colours(max(heads, default=0))
    return {head: shades[head - 1] if head else INK for head in heads}


def _draw(axes: "Axes", info: pd.DataFrame, quantity: str, scale: float = 1, **style: Any) -> None:
    """A line for every head and stage."""
    rows = info[info["quantity"] == quantity]
    for head, colour in _colours(info).items():
        for _, line in rows[rows["head"] == head].groupby("stage", sort=False):
            axes.plot(line["step"], scale * line["value"], color=colour, **style)


def _finish(axes: "Axes", info: pd.DataFrame, title: str, unit: str) -> "Axes":
    """Names of everything: title, axes, heads (for a legend) and stages; or a word where nothing is drawn."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set(xlabel="step", ylabel=unit)
    ends = info.groupby("stage", sort=False)["step"].max()
    axes.set_title(title, loc="left", pad=14 if len(ends) > 1 else 6)
    if not axes.lines:
        note(axes, "nothing logged")
        return axes
    for (before, end), (after, _) in pairwise(ends.items()):
        axes.axvline(end, color="0.5", linewidth=0.6, zorder=1)
        for name, side in ((f"{before} ", "right"), (f" {after}", "left")):
            top = axes.get_xaxis_transform()
            axes.text(end, 1, name, ha=side, va="bottom", color="0.4", transform=top)
    for head, colour in _colours(info).items():
        axes.plot([], [], color=colour, label=f"head {head}" if head else "backbone")
    if (info["quantity"] == TEACHER).any():
        axes.plot([], [], color=INK, linestyle=":", label="KL to teacher")
    return axes
