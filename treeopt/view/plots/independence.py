"""Dependence of heads by depth; the infos are `treeopt.search.independence`'s."""

from typing import TYPE_CHECKING

import pandas as pd

from treeopt.view.style import INK, PALETTE, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAYS = {
    "product": "product of accuracies",
    "frequency": "path frequency",
    "replayed": "replayed",
}
HATCHES = ("", "///", "...")
"""One beside each colour, for print in grey."""


def draw_top_chain(axes: "Axes", info: pd.DataFrame, *, label: str, place: int = 0) -> "Axes":
    """How often the top guesses of the first heads are all right, over the product of their accuracies.

    `info` is what `top_chain` gives; intervals are 95 %. Call once for each model with a `place` of its own, from 0,
    which picks colour and marker.
    """
    across = info["depth"] + 0.06 * place
    axes.plot(across, info["ratio"], label=label, **line_look(place, PALETTE[place]))
    axes.vlines(across, info["low"], info["high"], color=PALETTE[place], linewidth=0.9)
    if not place:
        axes.axhline(1, color=INK, linestyle="--", linewidth=1)
        axes.annotate(
            "independent heads", (info["depth"].max(), 1), (0, 2), "data", "offset points", ha="right"
        )
    axes.set_yscale("log", base=2)
    powers = [2**power for power in range(int(axes.get_ylim()[1]).bit_length() + 1)]
    axes.set_yticks(powers, [f"{power}x" for power in powers])
    axes.minorticks_off()
    axes.set_xticks(info["depth"])
    axes.set(xlabel="top guesses of the first heads, all right", ylabel="frequency / product of accuracies")
    axes.legend(loc="upper left")
    return axes


def draw_depth_shares(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Share of steps that accept a guess at each depth, in %, side by side for each way of knowing it.

    `info` is what `depth_shares` gives; the legend has the tokens per step that each way comes to.
    """
    for place, (way, name) in enumerate(WAYS.items()):
        across = info["depth"] + 0.27 * (place - 1)
        label = f"{name}: {1 + info[way].sum():.3f}"
        bars = axes.bar(
            across, 100 * info[way], width=0.25, label=label, color=PALETTE[place], hatch=HATCHES[place]
        )
        for bar in bars:
            bar.set(edgecolor="w", linewidth=0.4)
    axes.set_xticks(info["depth"])
    axes.set_ylim(0, 100)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="depth (head)", ylabel="steps that accept a guess there (%)")
    axes.legend(title="tokens per step", loc="upper right")
    return axes
