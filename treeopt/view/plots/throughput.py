"""Token/s by tree size, and the size that was chosen."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from treeopt.search.choice import Choice
from treeopt.view.plots.frame import frame
from treeopt.view.style import INK, PALETTE, line_look, mark_simulated, size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(
    kind="str",
    tokens="int",
    tokens_per_step="float",
    latency_ms="float",
    tokens_per_s="float",
    low="float",
    high="float",
    speedup="float",
    chosen="bool",
    simulated="bool",
)


def throughput_info(choice: Choice) -> pd.DataFrame:
    """Plain decoding (`kind` "plain", `tokens` 1), then a row for each size that was timed (`kind` "tree").

    `tokens_per_s` is over the batch, `low` and `high` the ends of its 95 % interval, NaN where unknown;
    `speedup` is over plain decoding. One row is `chosen`: plain decoding's for "no tree".
    """
    plain = choice.plain
    alone = choice.choices is None
    ends = choice.interval if alone and choice.interval else (None, None)
    rows: list[tuple[object, ...]] = [
        ("plain", 1, 1.0, plain.latency_ms, plain.tokens_per_s, *ends, 1.0, alone, choice.simulated)
    ]
    for point in choice.curve:
        chosen = not alone and point.tokens == choice.tokens
        speedup = point.tokens_per_s / plain.tokens_per_s
        numbers = (point.tokens, point.tokens_per_step, point.latency_ms, point.tokens_per_s)
        rows.append(("tree", *numbers, *(point.interval or (None, None)), speedup, chosen, choice.simulated))
    return frame(rows, COLUMNS, "choice: nothing to draw")


def draw_throughput(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Token/s against N with its 95 % interval, plain decoding as a dashed line, the chosen point as a star."""
    plain, trees = info[info["kind"] == "plain"].iloc[0], info[info["kind"] == "tree"]
    chosen = info[info["chosen"]].iloc[0]
    axes.axhline(plain["tokens_per_s"], color=INK, linestyle="--", linewidth=1, label="plain decoding")
    axes.fill_between(trees["tokens"], trees["low"], trees["high"], color=PALETTE[0], alpha=0.18, linewidth=0)
    label = "trees" + (", 95 % interval" * bool(trees["low"].notna().any()))
    axes.plot(trees["tokens"], trees["tokens_per_s"], label=label, **line_look(0, PALETTE[0]))
    text = "chosen: no tree" if chosen["kind"] == "plain" else f"chosen: N = {chosen['tokens']}"
    text += f", {chosen['tokens_per_s']:,.0f} token/s, {chosen['speedup']:.2f}x"
    star: dict[str, Any] = {
        "marker": "*",
        "markersize": 11,
        "color": PALETTE[1],
        "mec": INK,
        "mew": 0.5,
        "linestyle": "none",
    }
    axes.plot([chosen["tokens"]], [chosen["tokens_per_s"]], label=text, zorder=3, **star)
    size_axis(axes, info["tokens"].tolist())
    axes.set_ylim(bottom=0)
    axes.set_ylabel("token/s over the batch")
    axes.legend(loc="lower left")
    if info["simulated"].any():
        mark_simulated(axes)
    return axes
