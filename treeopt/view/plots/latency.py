"""The staircase: latency of a decoding step and of its parts by tree size."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.search.latency import PARTS, LatencyProfile
from treeopt.view.plots.frame import frame
from treeopt.view.style import INK, PALETTE, SIZE, line_look, mark_simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(part="str", tokens="int", median="float", low="float", high="float", simulated="bool")
NAMES = {"step": "whole step", "verify": "verify", "heads": "heads", "accept": "accept"}


def latency_info(profile: LatencyProfile, batch: int, context: int) -> pd.DataFrame:
    """Median of each part and size in ms, with its quartiles `low` and `high`, at one batch and context.

    The part "plain" is plain decoding: timed as such, else tree steps of one token. InputError where nothing
    was timed at this setting.
    """
    samples = profile.samples
    here = samples[(samples["batch"] == batch) & (samples["context"] == context)]
    if "plain" not in set(here["part"]):
        single = here[(here["part"] == "step") & (here["tokens"] == 1)]
        here = pd.concat([single.assign(part="plain"), here])
    groups = {key: group.to_numpy(float) for key, group in here.groupby(["part", "tokens"])["latency_ms"]}
    rows = [
        (part, tokens, *np.quantile(latencies, [0.5, 0.25, 0.75]), profile.simulated)
        for (part, tokens), latencies in sorted(groups.items(), key=lambda item: PARTS.index(item[0][0]))
    ]
    known = ", ".join(f"batch {b} context {c}" for b, c in profile.settings())
    return frame(
        rows, COLUMNS, f"latency: no samples at batch {batch}, context {context}; there are {known or 'none'}"
    )


def draw_latency(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Steps at the medians of the whole step and its parts, quartiles shaded, plain decoding as a dashed line.

    Between sizes that were timed (the marks) a stair stands halfway: where it really is was not measured.
    """
    plain = info[info["part"] == "plain"]
    for median in plain["median"]:
        axes.axhline(median, color=INK, linestyle="--", linewidth=1, label="plain decoding")
    for place, (part, name) in enumerate(NAMES.items()):
        line = info[info["part"] == part]
        if line.empty:
            continue
        look = line_look(place, PALETTE[place]) | {"drawstyle": "steps-mid", "linewidth": 0.9}
        axes.fill_between(
            line["tokens"],
            line["low"],
            line["high"],
            step="mid",
            color=PALETTE[place],
            alpha=0.25,
            linewidth=0,
        )
        axes.plot(line["tokens"], line["median"], label=name, **look)
    axes.set_ylim(bottom=0)
    axes.set(xlabel=SIZE, ylabel="latency (ms), median and quartiles")
    axes.legend()
    if info["simulated"].any():
        mark_simulated(axes)
    return axes
