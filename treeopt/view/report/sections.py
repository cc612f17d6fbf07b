"""The sections of a report. Each is None where the run has nothing for it."""

from collections.abc import Mapping, Sequence

from treeopt.export import FORMATS
from treeopt.view.markup import Markup, element, joined, table_element
from treeopt.view.outcome import figures_cells
from treeopt.view.report.contents import Contents, Export
from treeopt.view.report.figures import Drawing, inline
from treeopt.view.tables import accuracy_cells, curve_cells, latency_cells, parts_cells, runs_cells
from treeopt.view.tree import draw

Drawings = Mapping[str, Drawing]


def warnings(cautions: Sequence[str]) -> Markup | None:
    """All that makes the result less than it seems."""
    return element("ul", *(element("li", _prose(caution)) for caution in cautions)) if cautions else None


def use(contents: Contents) -> Markup | None:
    """The exported files with the line that gives each to its runtime, else the command that exports."""
    if contents.choice is None:
        return None
    if not contents.exports:
        plain = "Plain decoding needs no file. " if contents.choice.choices is None else ""
        said = f"{plain}No runtime's file lies in the run. This writes one; help in the place of json lists runtimes:"
        return joined([element("p", said), _typed(contents.export_command)])
    trees = [choice.tree for choice in contents.choices]
    return joined(_export(export, chosen=export.tree in trees) for export in contents.exports)


def _export(export: Export, *, chosen: bool) -> Markup:
    shown = (_typed(export.command), element("p", "The file:")) if export.command else ()
    return joined(
        [
            element("h3", export.file),
            element("p", f"{export.versions}: {export.description}."),
            None if chosen else element("p", f"{_other(export)}; the figures below are of the chosen tree."),
            *shown,
            element("pre", export.text.rstrip(), class_="file", tabindex="0"),
        ]
    )


def _other(export: Export) -> str:
    """What a file holds that is not the choice."""
    if FORMATS[export.runtime].limits.chain:
        return f"This runtime drafts no trees: the file is for a chain of {export.tree.size} tokens"
    return f"The file holds another tree, of {export.tree.size} tokens"


def speed(contents: Contents, drawings: Drawings) -> Markup | None:
    """Prediction beside measurement, and the curve that the choice was made on."""
    choice = contents.choice
    if choice is None:
        return None
    figures = contents.figures
    gained = None
    if figures["speedup"] is not None:
        gained = element("p", f"Measured over the fastest plain decoding: {figures['speedup']:.3f}x.")
    origin = "replay of the prompts" if choice.estimated_from == "replay" else "the growth's values"
    return joined(
        [
            table_element(*figures_cells(figures)),
            gained,
            _figures(drawings, "throughput"),
            _folded(
                f"Every size that was timed; tokens per step by {origin}", table_element(*curve_cells(choice))
            ),
        ]
    )


def settings(contents: Contents, drawings: Drawings) -> Markup | None:
    """The choice at every batch and context, where there are several."""
    if len(contents.choices) < 2:
        return None
    rows = [
        [
            str(choice.batch),
            choice.context,
            choice.choices and choice.tokens,
            choice.tokens_per_s,
            choice.speedup,
        ]
        for choice in contents.choices
    ]
    table = table_element(["batch", "context", "N (- for no tree)", "token/s, predicted", "speedup"], rows)
    return joined([_figures(drawings, "settings-tokens", "settings-speedup"), table])


def tree(contents: Contents, drawings: Drawings) -> Markup | None:
    """The chosen tree, drawn, and as text with the value of every node; else the whole growth."""
    if contents.choice is not None:
        chosen = contents.choice.tree
    elif contents.growth is not None:
        chosen = contents.growth.tree(contents.growth.size)
    else:
        return None
    text = element("pre", draw(chosen, contents.values), class_="drawn", tabindex="0")
    return joined([_figures(drawings, "tree"), _folded("The same as text", text)])


def acceptance(contents: Contents, drawings: Drawings) -> Markup | None:
    """What decoding took: every run side by side, acceptance by depth and by category."""
    figures = _figures(drawings, "depth", "categories", "speedups")
    if contents.evaluation is None:
        return figures
    runs = contents.evaluation["runs"]
    parts = _folded("Acceptance by depth and category", table_element(*parts_cells(runs)))
    return joined([table_element(*runs_cells(runs)), figures, parts])


def heads(contents: Contents, drawings: Drawings) -> Markup | None:
    """Accuracies with their intervals, and how much the text repeats itself."""
    if contents.accuracy is None:
        return None
    parts = [_figures(drawings, "heatmap", "accuracy"), table_element(*accuracy_cells(contents.accuracy))]
    if contents.repetition:
        rows = [[category, share] for category, share in contents.repetition.items()]
        parts.append(
            element("p", "How much the answers repeat themselves: heads look good on text that loops.")
        )
        parts.append(table_element(["category", "repeated 4-grams (median)"], rows))
    return joined(parts)


def latency(contents: Contents, drawings: Drawings) -> Markup | None:
    """The staircase and the numbers behind it."""
    if contents.latency is None:
        return None
    simulated = contents.latency.simulated
    said = element("p", "Simulated by a hardware model, not measured.", class_="flag") if simulated else None
    table = _folded("Every size that was timed", table_element(*latency_cells(contents.latency)))
    return joined([said, _figures(drawings, "latency"), table])


def training(contents: Contents, drawings: Drawings) -> Markup | None:
    """How the heads were trained."""
    return _figures(drawings, "loss", "learning")


def _figures(drawings: Drawings, *names: str) -> Markup | None:
    """Those of these figures that were drawn, side by side where there is room."""
    shown = [
        element(
            "figure",
            element("div", inline(drawing), class_="card", tabindex="0" if drawing.wide else None),
            element("figcaption", drawing.caption),
            class_="wide" if drawing.wide else None,
            id=f"figure-{name}",
        )
        for name in names
        if (drawing := drawings.get(name)) is not None
    ]
    return element("div", *shown, class_="figures") if shown else None


def _typed(command: str) -> Markup:
    return element("pre", element("code", command), class_="command", tabindex="0")


def _prose(text: str) -> Markup:
    """Text in which `commands` stand between backticks."""
    parts = enumerate(text.split("`"))
    return joined(element("code", part) if place % 2 else part for place, part in parts)


def _folded(summary: str, content: Markup) -> Markup:
    """What is long, behind its summary; in print it is unfolded."""
    return element("details", element("summary", summary), content)
