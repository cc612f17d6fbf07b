"""A tree into a runtime's file."""

from pathlib import Path
from typing import Any

from treeopt.artifact import write_text
from treeopt.cli.run import RunDirectory
from treeopt.cli.trees import tree_provenance
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.format import Format
from treeopt.export.read import parse_tree_option
from treeopt.search.choice import read_choice


def find_format(name: str) -> Format:
    """The format called `name`; InputError that lists them all."""
    if name not in FORMATS:
        raise InputError(f"--format {name}: unknown; use one of {', '.join(FORMATS)}")
    return FORMATS[name]


def export_tree(run: RunDirectory, option: str | None, format: Format, output: Path | None) -> list[Path]:
    """Write the tree of --tree, else the run's choice, and the paths of the files; UnsupportedError before any."""
    if option is None:
        read_choice(run.choice)  # which says what makes it
    source = option or str(run.choice)
    _, tree = parse_tree_option(source)
    provenance: dict[str, Any] = tree_provenance(source)
    file = output or run.directory / format.file_name
    written = []
    for suffix, text in format.write(tree, provenance, provenance.get("heads")).items():
        path = file.with_name(file.name + suffix)
        write_text(path, text)
        written.append(path)
    return written
