"""A tree into a runtime's file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import write_text
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.fit import Fitted, fit
from treeopt.cli.trees import require_own_choice, tree_provenance
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.format import Format
from treeopt.export.limits import HEADINGS
from treeopt.export.read import parse_tree_option
from treeopt.search.choice import read_choice
from treeopt.search.rank_files import read_ranks
from treeopt.view.tables import table


@dataclass(frozen=True)
class Exported:
    """The files, and what --fit did to the tree."""

    files: list[Path]
    fitted: Fitted | None = None


def find_format(name: str, option: str = "--format") -> Format:
    """The format called `name`; InputError that lists them all."""
    if name not in FORMATS:
        raise InputError(f"{option} {name}: unknown; use one of {', '.join(FORMATS)}")
    return FORMATS[name]


def formats_text() -> str:
    """The limits of all formats, then the versions that they fit and what is written."""
    limits = table(
        ["format", *HEADINGS], [[name, *format.limits.cells()] for name, format in FORMATS.items()]
    )
    lines = [f"{name}: {format.description} ({format.versions})" for name, format in FORMATS.items()]
    return "\n".join([limits, "", *lines])


def export_tree(
    run: RunDirectory, option: str | None, format: Format, output: Path | None, *, fitting: bool = False
) -> Exported:
    """Write the tree of --tree, else the run's choice. UnsupportedError before any file is written.

    With `fitting`, what the runtime cannot express is replaced as `fit` says.
    """
    if option is None:
        read_choice(run.choice)  # which says what makes it
    source = option or str(run.choice)
    _, tree = parse_tree_option(source)
    provenance: dict[str, Any] = tree_provenance(source)
    heads, fitted = provenance.get("heads"), None
    if fitting:
        if option is None:
            require_own_choice(run, str(run.ranks), read_ranks(run.ranks).provenance)
        fitted = fit(run, tree, format, provenance)
        if fitted.tree != tree:
            provenance |= {"fitted_to": format.name}
        tree = fitted.tree
    file = output or run.directory / format.file_name
    written = []
    for suffix, text in format.write(tree, provenance, heads if type(heads) is int else None).items():
        path = file.with_name(file.name + suffix)
        write_text(path, text)
        written.append(path)
    return Exported(written, fitted)
