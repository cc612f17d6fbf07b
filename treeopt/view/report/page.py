"""The page as a whole: head, style and the sections that the run has something for."""

from collections.abc import Mapping
from pathlib import Path

from treeopt import __version__
from treeopt.view.markup import Markup, element, joined
from treeopt.view.outcome import recommendation
from treeopt.view.report import sections
from treeopt.view.report.cautions import cautions
from treeopt.view.report.contents import Contents
from treeopt.view.report.figures import Drawing
from treeopt.view.report.origin import origin

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may load for the page: the styles and pictures in it, and nothing else."""

HEAD = (
    '<meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
)


def page(contents: Contents, drawings: Mapping[str, Drawing]) -> str:
    """The report as one HTML document; `drawings` are `draw_figures`'."""
    parts = {
        "warnings": ("Warnings", sections.warnings(cautions(contents))),
        "use": ("How to use it", sections.use(contents)),
        "speed": ("How fast", sections.speed(contents, drawings)),
        "settings": ("Other batches and contexts", sections.settings(contents, drawings)),
        "tree": ("The tree", sections.tree(contents, drawings)),
        "acceptance": ("What is accepted", sections.acceptance(contents, drawings)),
        "heads": ("The heads", sections.heads(contents, drawings)),
        "latency": ("Latency", sections.latency(contents, drawings)),
        "training": ("Training", sections.training(contents, drawings)),
        "origin": ("What it was measured on", origin(contents)),
    }
    there = {name: (title, body) for name, (title, body) in parts.items() if body}
    links = [element("li", element("a", title, href=f"#{name}")) for name, (title, _) in there.items()]
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    head = joined(
        [Markup(HEAD), element("title", f"treeopt report: {contents.name}"), element("style", Markup(style))]
    )
    body = element(
        "main",
        element("header", element("h1", contents.name), element("p", _lead(contents), class_="lead")),
        element("nav", element("ul", *links), aria_label="Sections"),
        *(element("section", element("h2", title), body, id=name) for name, (title, body) in there.items()),
        element("footer", f"treeopt {__version__}, from {contents.directory}"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _lead(contents: Contents) -> str:
    if contents.choice is None:
        return "Nothing is chosen yet: this run has no choice.json, which treeopt choose makes."
    return recommendation(contents.choice, contents.figures)
