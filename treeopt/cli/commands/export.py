"""`treeopt export`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from treeopt.cli.options import json_option, output_option, run_option
from treeopt.cli.output import note, show
from treeopt.cli.run import RunDirectory, next_command


@click.command("export", epilog="\b\nExample: treeopt export --format medusa -o medusa_choices.py")
@run_option
@click.option(
    "--format", "format_name", required=True, metavar="NAME", help="The runtime; `help` lists them."
)
@click.option(
    "--tree", metavar="FILE[:NAME]", help="Any choices file or artifact.  [default: the run's choice]"
)
@click.option(
    "--fit",
    is_flag=True,
    help="Where the runtime cannot express the tree, write the best one found under its limits, from the run's ranks;"
    " for runtimes without trees, the chain that is fastest by the run's latency.",
)
@output_option
@json_option
def command(
    run: RunDirectory, format_name: str, tree: str | None, fit: bool, output: Path | None, as_json: bool
) -> None:
    """Write a tree into the file that a runtime reads.

    A tree that the runtime would not read right is refused, naming the first path beyond its limits.
    """
    from dataclasses import asdict

    from treeopt.cli.stages.export import export_tree, find_format, formats_text
    from treeopt.cli.trees import tree_provenance
    from treeopt.export import FORMATS

    if format_name == "help":
        described = {
            name: {
                "versions": format.versions,
                "description": format.description,
                "limits": asdict(format.limits),
            }
            for name, format in FORMATS.items()
        }
        following = next_command("export", run, None, "--format", "json")
        show(as_json, {"formats": described}, formats_text, following)
        return
    exported = export_tree(run, tree, find_format(format_name), output, fitting=fit)
    fitted = exported.fitted
    if fitted is not None and fitted.changed:
        note(f"export: {fitted}")
    show(
        as_json,
        {"files": [str(file) for file in exported.files], "fitted": fitted and fitted.record()},
        lambda: "\n".join(map(str, exported.files)),
        _following(run, exported.files[0], tree_provenance(tree or str(run.choice))),
    )


def _following(run: RunDirectory, file: Path, provenance: Mapping[str, Any]) -> str:
    """Decoding for real, where a model is known."""
    if "model_sha256" in provenance:
        return next_command("evaluate", run, provenance)
    return next_command("inspect", run, None, str(file))
