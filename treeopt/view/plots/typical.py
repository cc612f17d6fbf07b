"""Typical acceptance over epsilon, beside greedy and random sampling."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from treeopt.errors import InputError
from treeopt.view.plots.frame import axis_label, frame, picked
from treeopt.view.style import INK, PALETTE, legend_above, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(
    rule="str",
    epsilon="float",
    tokens_per_step="float",
    low="float",
    high="float",
    surprise_gap="float",
    repetition="float",
)
LABELS = {
    "tokens_per_step": "tokens per step",
    "surprise_gap": "|surprise - entropy| (nats per token)",
    "repetition": "repeated 4-grams (%)",
}
TYPICAL = "typical"
LINES = {"greedy": (INK, "--", "greedy"), "sampled": (PALETTE[1], "-.", "random sampling")}


def typical_info(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A row a decoding, typical ones first, by `epsilon`; NaN for the rules "greedy" and "sampled", which have none.

    `tokens_per_step` with the ends `low` and `high` of its 95 % interval, where a record has them. `surprise_gap` is
    |mean negative log-likelihood - mean entropy| under the backbone, in nats; `repetition` the share of 4-grams that
    repeat, from 0 to 1. InputError for a record of another rule or without one of these.
    """
    rows = []
    for number, record in enumerate(records):
        where = f"typical acceptance: record {number}"
        needed = ("rule", "epsilon", "tokens_per_step", "surprise_gap", "repetition")
        rule, epsilon, rate, gap, repetition = picked(record, needed, where)
        if (rule == TYPICAL) != (epsilon is not None) or rule not in (TYPICAL, *LINES):
            raise InputError(
                f"{where} is {rule!r} with epsilon {epsilon}; it is {TYPICAL} with one, or {' or '.join(LINES)} without"
            )
        rows.append((rule, epsilon, rate, record.get("low"), record.get("high"), gap, repetition))
    rows.sort(key=lambda row: (row[0] != TYPICAL, row[1] or 0))
    return frame(rows, COLUMNS, "typical acceptance: no records to draw")


def draw_typical(axes: "Axes", info: pd.DataFrame, y: str = "tokens_per_step") -> "Axes":
    """`y` ("tokens_per_step", "surprise_gap" or "repetition") against epsilon; the other rules are level lines."""
    label = axis_label(LABELS, y, "typical acceptance")
    scale = 100 if y == "repetition" else 1
    curve = info[info["rule"] == TYPICAL]
    if y == "tokens_per_step":
        axes.fill_between(
            curve["epsilon"], curve["low"], curve["high"], color=PALETTE[0], alpha=0.15, linewidth=0
        )
    axes.plot(curve["epsilon"], scale * curve[y], label="typical", **line_look(0, PALETTE[0]))
    for rule, (colour, style, name) in LINES.items():
        for value in info.loc[info["rule"] == rule, y]:
            axes.axhline(scale * value, color=colour, linestyle=style, linewidth=1, label=name)
    axes.set(xlabel="epsilon", ylabel=label)
    legend_above(axes)
    return axes
