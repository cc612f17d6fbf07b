"""`treeopt export`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from treeopt.cli.options import json_option, output_option, run_option, sizes_option
from treeopt.cli.output import note, show
from treeopt.cli.parameters import distinct
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
@sizes_option(
    "Write trees of these many tokens, root included, to time the runtime with: from the run's growth, or grown under"
    " the runtime's limits where it goes beyond them; chains for runtimes without trees.",
    callback=distinct,
)
@output_option
@json_option
def command(
    run: RunDirectory,
    format_name: str,
    tree: str | None,
    fit: bool,
    sizes: tuple[int, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a tree into the file that a runtime reads.

    A tree that the runtime would not read right is refused, naming the first path beyond its limits. With --sizes,
    writes one file a size, and the table to fill in with the runtime's own latencies, for `choose --latency`.
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
    if sizes:
        _write_sizes(run, sizes, format_name, tree, output, as_json)
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


def _write_sizes(
    run: RunDirectory, sizes: tuple[int, ...], name: str, tree: str | None, output: Path | None, as_json: bool
) -> None:
    """Files by size, and how their timings come back."""
    from treeopt.cli.stages.export import find_format
    from treeopt.cli.stages.sizes import export_sizes

    if tree is not None:
        raise click.UsageError("--sizes takes trees of the run's growth; leave --tree out")
    if sizes[0] == 1:
        raise click.UsageError(
            "--sizes 1: one token is plain decoding, timed without Medusa; give sizes from 2"
        )
    sized = export_sizes(run, sizes, find_format(name), output)
    growth = ["--growth", str(sized.growth)] if sized.regrown else []
    if sized.regrown:
        note(f"export: the run's growth is beyond the limits of {name}, so these trees are of {sized.growth}")
    following = next_command("choose", run, None, *growth, "--latency", "latency.csv")
    show(as_json, sized.record(), lambda: str(sized), following)


def _following(run: RunDirectory, file: Path, provenance: Mapping[str, Any]) -> str:
    """Decoding for real, where a model is known."""
    if "model_sha256" in provenance:
        return next_command("evaluate", run, provenance)
    return next_command("inspect", run, None, str(file))
