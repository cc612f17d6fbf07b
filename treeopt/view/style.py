"""How plots look and how they are saved: one palette, one style, and files whose bytes depend on the data alone."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeopt.artifact import write_bytes
from treeopt.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED = "#000000", "#666666"
"""What stands apart from the series: plain decoding, a backbone; and notes beside the data."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, which colour-blind readers tell apart, less the yellow, which paper does not show."""

MARKERS = "os^Dv*PX"
"""One beside each colour, for print in grey."""

SIZE = "tokens verified per step, N"
WIDTH_CM = 16.0
SMALL = 7
"""Points; no letter is smaller at this width."""

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "svg.hashsalt": "treeopt",
}
METADATA = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}
"""What a file of each kind must not tell, so that its bytes depend on the data alone."""


def styled() -> AbstractContextManager[None]:
    """Make figures within this context: the same whatever the user's own style is, which comes back after it."""
    from matplotlib import style

    return style.context(["default", STYLE])


def colours(count: int) -> Sequence[Any]:
    """Colours for `count` series: the palette's, or shades of one scale where those are too few."""
    if count <= len(PALETTE):
        return PALETTE[:count]
    from matplotlib import colormaps

    return [colormaps["viridis"](0.85 * place / (count - 1)) for place in range(count)]


def line_look(place: int, colour: Any) -> dict[str, Any]:
    """How the line of one series looks: its colour, and the marker that tells it apart in grey."""
    return {"color": colour, "marker": MARKERS[place % len(MARKERS)], "markersize": 3}


def note(axes: "Axes", text: str) -> None:
    """A word in the middle of axes on which nothing is drawn."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, text, ha="center", va="center", color=MUTED, transform=axes.transAxes)


def mark_simulated(axes: "Axes") -> None:
    """Say above the axes, on the right, that a hardware model made the numbers, and no clock."""
    axes.set_title("simulated", loc="right", style="italic", color=MUTED)


def size_axis(axes: "Axes", sizes: Sequence[int]) -> None:
    """Tree sizes along x in doublings, each named as far as there is room."""
    axes.set_xscale("log", base=2)
    powers = [2**power for power in range(max(sizes).bit_length()) if 2**power >= min(sizes)]
    axes.set_xticks(powers or list(sizes), [str(power) for power in powers or sizes])
    axes.minorticks_off()
    axes.set_xlabel(SIZE)


def legend_above(axes: "Axes") -> None:
    """A legend on top of the axes, where it hides nothing whatever the width."""
    if axes.get_legend_handles_labels()[0]:
        look = {"fontsize": SMALL, "columnspacing": 0.8, "handletextpad": 0.4, "borderaxespad": 0.2}
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, **look)


def image(figure: "Figure", suffix: str) -> bytes:
    """A figure as `.svg` or `.png`, for a file or a page; the same figure gives the same bytes."""
    data = BytesIO()
    with styled():
        figure.savefig(data, format=suffix[1:], dpi=300, metadata=METADATA[suffix])
    return data.getvalue()


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as SVG or PNG, by the suffix of `path`.

    Errors: InputError for another suffix, and when the place cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in METADATA:
        raise InputError(f"{path}: a plot is written as .svg or .png; name such a file")
    write_bytes(path, image(figure, suffix))
