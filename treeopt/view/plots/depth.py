"""Acceptance by depth: what was predicted and what decoding accepts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.search.replay import Replay
from treeopt.tree import Path, Tree
from treeopt.view.plots.frame import frame
from treeopt.view.style import colours, legend_above, line_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(source="str", depth="int", acceptance="float")

Shares = Sequence[float | None]
"""Of the steps that accepted all above depth 1, 2, ..., the share that accepts there; None where none came so far."""


def expected_acceptance(tree: Tree, values: Mapping[Path, float]) -> list[float]:
    """What values (of whole paths, 1 for the root) predict for each depth of a tree.

    Siblings exclude each other, so the sum of a depth's values is the share of steps that reach it; acceptance is that
    over the sum above.
    """
    known = np.array([1.0, *(values[path] for path in tree.choices)])
    sums = np.bincount(tree.depths, known)
    return [float(share) for share in sums[1:] / np.maximum(sums[:-1], np.finfo(float).tiny)]


def depth_info(predicted: Shares | None, replayed: Shares | Replay) -> pd.DataFrame:
    """A row for each `source` ("predicted", "replayed") and depth from 1; `acceptance` as `Shares` has it.

    `predicted` may come from `expected_acceptance`, None draws none; `replayed` is a replay, or the `acceptance` of a
    run in evaluation.json. Depths that no step came to are left out. InputError where nothing is left.
    """
    if isinstance(replayed, Replay):
        reached, accepted = replayed.accepted_by_depth()
        replayed = [there / above if above else None for above, there in zip(reached, accepted, strict=True)]
    rows = [
        (source, depth, share)
        for source, shares in (("predicted", predicted or ()), ("replayed", replayed))
        for depth, share in enumerate(shares, start=1)
        if share is not None
    ]
    return frame(
        rows, COLUMNS, "acceptance by depth: no step reaches depth 1; take a tree of more than the root"
    )


def draw_depth(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Acceptance in % against depth, a line a source, the first dashed."""
    sources = list(info.groupby("source", sort=False))
    for place, ((source, line), colour) in enumerate(zip(sources, colours(len(sources)), strict=True)):
        look = line_look(place, colour) | {"linestyle": "--" if source == "predicted" else "-"}
        axes.plot(line["depth"], 100 * line["acceptance"], label=str(source), **look)
    axes.set_xticks(sorted(info["depth"].unique()))
    axes.set_ylim(0, 100)
    axes.set(xlabel="depth (head)", ylabel="accepted, once reached (%)")
    legend_above(axes)
    return axes
