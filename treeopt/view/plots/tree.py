"""The tree as a picture: layers by depth, nodes by how likely their path is right."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeopt.tree import Path, Tree
from treeopt.view.plots.frame import frame
from treeopt.view.style import MUTED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = dict(path="object", parent="object", depth="int", rank="int", x="float", y="float", value="float")
SPACE = 1.0
"""The least distance between two nodes of one depth."""

LARGEST, SMALLEST, UNKNOWN = 220.0, 4.0, 20.0
"""Areas of nodes in square points: of value 1, the least that is still seen, and where no value is known."""

UPRIGHT = 0.3
"""An edge comes straight down over this share of a layer, where its rank stands."""


def tree_info(tree: Tree, values: Mapping[Path, float] | None = None) -> pd.DataFrame:
    """A row for each node, the root `()` first: its place, its rank (-1 for the root) and its value.

    Depth runs down (`y` = -depth). `x` puts nodes of one depth at least SPACE apart in the order of their paths,
    so that no edges cross, each parent midway between its outermost children. `value` is NaN where `values`
    (path to value) has none; the root's is 1 once any are given.
    """
    known = {(): 1.0, **values} if values else {}
    x = _places(tree)
    rows = [
        (
            path,
            path[:-1] if path else None,
            len(path),
            path[-1] if path else -1,
            x[node],
            -len(path),
            known.get(path),
        )
        for node, path in enumerate(tree.nodes)
    ]
    return frame(rows, COLUMNS, "tree: no nodes")


def _places(tree: Tree) -> NDArray[np.float64]:
    """Where each node stands across [N], by the outlines of the subtrees (after Reingold and Tilford 1981).

    Subtrees are set side by side from left to right, as near as their outlines allow on every depth that both
    reach. O(N D).
    """
    shift = np.zeros(tree.size)  # of each node against its parent
    outlines: list[list[tuple[float, float]]] = [
        [] for _ in range(tree.size)
    ]  # from each node down: left, right
    for node in reversed(range(tree.size)):
        below: list[tuple[float, float]] = []
        for child in tree.children(node):
            own = outlines[child]
            pairs = zip(below, own, strict=False)
            shift[child] = max((right - left + SPACE for (_, right), (left, _) in pairs), default=0.0)
            moved = [(left + shift[child], right + shift[child]) for left, right in own]
            joined = [(left, right) for (left, _), (_, right) in zip(below, moved, strict=False)]
            below = joined + below[len(joined) :] + moved[len(joined) :]
        children = list(tree.children(node))
        middle = (shift[children[0]] + shift[children[-1]]) / 2 if children else 0.0
        shift[children] -= middle
        outlines[node] = [(0.0, 0.0), *((left - middle, right - middle) for left, right in below)]
    for node, parent in enumerate(tree.parents[1:], start=1):
        shift[node] += shift[parent]
    return shift - min((left for left, _ in outlines[0]), default=0.0)


def draw_tree(axes: "Axes", info: pd.DataFrame) -> "Axes":
    """Nodes in layers, ranks on the edges; area and colour by value, with a colourbar, where values are known.

    A rank that would run into the one before it in its layer is left out.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm

    nodes = {row["path"]: row for row in info.to_dict("records")}
    along = np.linspace(0, 1, 21)
    bent = np.minimum(along / (1 - UPRIGHT), 1)
    bent = bent**2 * (3 - 2 * bent)
    curves = []
    for node in (node for node in nodes.values() if node["depth"]):
        start = nodes[node["parent"]]
        curves.append(np.column_stack([start["x"] + bent * (node["x"] - start["x"]), start["y"] - along]))
    axes.add_collection(LineCollection(curves, colors="#a8a8a8", linewidths=0.7, zorder=1))
    look: dict[str, Any] = {"zorder": 4, "edgecolors": "k", "linewidths": 0.4}
    values = info["value"].to_numpy(float)
    if known := not np.isnan(values).all():
        floor = max(float(np.nanmin(values)), 1e-6)
        look |= {"c": values.clip(floor), "cmap": "viridis_r", "norm": LogNorm(min(floor, 0.1), 1)}
        look |= {"s": (LARGEST * values).clip(SMALLEST), "plotnonfinite": True}
    else:
        look |= {"color": MUTED, "s": UNKNOWN}
    points = axes.scatter(info["x"], info["y"], **look)
    deepest, right = int(info["depth"].max()), float(info["x"].max())
    axes.set(xlim=(-SPACE, right + SPACE), ylim=(-deepest - 0.5, 0.5), xticks=[], ylabel="depth (head)")
    axes.set_yticks(range(-deepest, 1), [str(depth) for depth in range(deepest, -1, -1)])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    if known:
        bar = axes.figure.colorbar(points, ax=axes, pad=0.01, aspect=30, format="%g")
        bar.set_label("probability that the path is right")
        bar.ax.minorticks_off()
    _draw_ranks(axes, info[info["depth"] > 0])
    return axes


def _draw_ranks(axes: "Axes", info: pd.DataFrame) -> None:
    """Each rank above its node, on the upright end of the edge, as the figure is laid out now."""
    axes.figure.figure.draw_without_rendering()
    left, right = axes.get_xlim()
    unit = (right - left) * axes.figure.dpi / 72 / axes.get_window_extent().width  # of x, in a point
    box = {"boxstyle": "square,pad=0.08", "fc": "w", "ec": "none"}
    for _, layer in info.groupby("depth"):
        free = -np.inf
        for x, y, rank in sorted(zip(layer["x"], layer["y"], layer["rank"], strict=True)):
            half = unit * (0.65 * SMALL * len(str(rank)) + 1.5) / 2
            if x - half >= free:
                axes.text(x, y + UPRIGHT - 0.06, str(rank), size=SMALL, ha="center", va="center", bbox=box)
                free = x + half
