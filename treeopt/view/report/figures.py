"""The figures of a report: drawn narrow enough for a phone, as SVG that stands in the page."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from treeopt.errors import InputError
from treeopt.search.choice import Choice
from treeopt.search.evaluation import category_speedups
from treeopt.search.replay import replay
from treeopt.tree import Tree
from treeopt.view.markup import Markup
from treeopt.view.outcome import measured_runs
from treeopt.view.plots.accuracy import accuracy_info, draw_accuracy_curves, draw_accuracy_heatmap
from treeopt.view.plots.category import category_info, draw_categories
from treeopt.view.plots.depth import depth_info, draw_depth, expected_acceptance
from treeopt.view.plots.latency import draw_latency, latency_info
from treeopt.view.plots.settings import draw_settings, settings_info
from treeopt.view.plots.throughput import draw_throughput, throughput_info
from treeopt.view.plots.tree import draw_tree, tree_info
from treeopt.view.report.contents import Contents
from treeopt.view.style import image, styled
from treeopt.view.training import draw_accuracy, draw_loss, training_info

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NARROW, WIDE = (10.0, 7.0), (20.0, 9.0)
"""Centimetres: two beside each other on a desk, one on a phone; and what only scrolls there."""


BUSHY = 16
"""Nodes beyond which a tree is drawn wide."""


@dataclass(frozen=True)
class Drawing:
    """A figure: the SVG file, and what it shows in a sentence."""

    name: str
    svg: bytes
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class _Plan:
    """What is to be drawn: the info is made before the Axes, so that there are none where it has nothing."""

    name: str
    caption: str
    info: Callable[[], Any]
    draw: Callable[["Axes", Any], Any]
    size: tuple[float, float] = NARROW


def draw_figures(contents: Contents) -> dict[str, Drawing]:
    """All figures that the run has the numbers for, by name."""
    from matplotlib.figure import Figure

    drawn = {}
    for plan in _plans(contents):
        try:
            info = plan.info()
        except InputError:  # nothing to draw; what is wrong with a file was said when it was read
            continue
        with styled():
            figure = Figure(figsize=(plan.size[0] / 2.54, plan.size[1] / 2.54), layout="constrained")
            plan.draw(figure.subplots(), info)
            svg = image(figure, ".svg")
        drawn[plan.name] = Drawing(plan.name, svg, plan.caption, plan.size is WIDE)
    return drawn


def inline(drawing: Drawing) -> Markup:
    """The SVG as an element of the page: it scales with its box, and its ids are its own."""
    svg = drawing.svg.decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\g<1>{drawing.name}-", svg).replace(
        "xlink:href", "href"
    )
    opening, rest = svg.split(">", 1)
    [box] = re.findall(r'viewBox="[^"]*"', opening)
    return Markup(f'<svg {box} aria-hidden="true">{rest}')


def _plans(contents: Contents) -> Iterator[_Plan]:
    if contents.choice is not None:
        yield from _of_choice(contents, contents.choice)
        yield from _of_decoding(contents, contents.choice.tree)
    yield from _of_heads(contents)
    yield from _of_latency(contents)
    yield from _of_training(contents)


def _of_choice(contents: Contents, choice: Choice) -> Iterator[_Plan]:
    where = f"batch {choice.batch}, context {choice.context}"
    yield _Plan(
        "throughput",
        f"Predicted speed of every size that was timed, {where}.",
        lambda: throughput_info(choice),
        draw_throughput,
    )
    if choice.choices is not None:
        yield _Plan(
            "tree",
            "Each node is a guess, the number on its edge its rank (0 = top guess of that head).",
            lambda: tree_info(choice.tree, contents.values),
            draw_tree,
            WIDE if choice.tree.size > BUSHY else NARROW,
        )
    if len(contents.choices) > 1:
        for value, caption in (
            ("tokens", "The best size by batch and context."),
            ("speedup", "What it gains over plain decoding, predicted."),
        ):
            draw = partial(draw_settings, value=value)
            yield _Plan(f"settings-{value}", caption, lambda: settings_info(contents.choices), draw)


def _of_decoding(contents: Contents, tree: Tree) -> Iterator[_Plan]:
    judged = contents.judged
    measured = [
        run for run in measured_runs(contents.evaluation) if Tree.from_choices(run["choices"]) == tree
    ]
    if judged is not None:
        known = contents.values.keys() >= set(tree.choices)
        yield _Plan(
            "depth",
            "Acceptance by depth, as the growth's values predict it and as the other half of the prompts has it.",
            lambda: depth_info(
                expected_acceptance(tree, contents.values) if known else None, replay(judged, tree)
            ),
            draw_depth,
        )
        yield _Plan(
            "categories",
            "Tokens per step by category, replayed, with 95 % intervals.",
            lambda: category_info({"replayed": replay(judged, tree)}),
            draw_categories,
        )
    speedups = category_speedups(measured[0]) if measured else {}
    if speedups and tree.choices:
        yield _Plan(
            "speedups",
            "Speedup over plain decoding by category, measured, with 95 % intervals where they are known.",
            lambda: category_info({"measured": speedups}),
            partial(draw_categories, label="speedup (times)"),
        )


def _of_heads(contents: Contents) -> Iterator[_Plan]:
    accuracy = contents.accuracy
    if accuracy is None:
        return
    for name, draw, caption in (
        ("heatmap", draw_accuracy_heatmap, "How often each guess of each head is right."),
        ("accuracy", draw_accuracy_curves, "The same, with 95 % intervals where they are known."),
    ):
        yield _Plan(name, caption, lambda: accuracy_info(accuracy), draw)


def _of_latency(contents: Contents) -> Iterator[_Plan]:
    latency, choice = contents.latency, contents.choice
    if latency is None:
        return
    own = None if choice is None else (choice.batch, choice.context)
    batch, context = own if own in latency.settings() else latency.settings()[0]
    yield _Plan(
        "latency",
        f"Latency of a decoding step by tree size, batch {batch}, context {context}.",
        lambda: latency_info(latency, batch, context),
        draw_latency,
    )


def _of_training(contents: Contents) -> Iterator[_Plan]:
    if not contents.training:
        return
    for name, draw, caption in (
        ("loss", draw_loss, "Loss while the heads were trained."),
        ("learning", draw_accuracy, "Accuracy on held-out answers while the heads were trained."),
    ):
        yield _Plan(name, caption, lambda: training_info(contents.training), partial(_with_legend, draw))


def _with_legend(draw: Callable[["Axes", Any], "Axes"], axes: "Axes", info: Any) -> None:
    if draw(axes, info).get_legend_handles_labels()[0]:
        axes.legend(ncols=2)
