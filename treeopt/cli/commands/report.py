"""`treeopt report`."""

from pathlib import Path

import click

from treeopt.cli.options import json_option, output_option, run_option
from treeopt.cli.output import show
from treeopt.cli.run import RunDirectory, next_command


@click.command("report", epilog="\b\nExample: treeopt report --run results/demo -o report.html")
@run_option
@output_option
@json_option
def command(run: RunDirectory, output: Path | None, as_json: bool) -> None:
    """Write one HTML page about a run: what to use, how fast it is, on what it rests, and every warning.

    The page needs no script and no network; its figures lie beside it in figures/ too. What the run does not have is
    left out, what cannot be read is named in the page's warnings.
    """
    from treeopt.cli.stages.report import make_report

    report = make_report(run, output)
    content = {
        "kind": "report",
        "file": str(report.file),
        "figures": [str(figure) for figure in report.figures],
        "warnings": report.warnings,
    }
    show(
        as_json,
        content,
        lambda: "\n".join([*(f"warning: {text}" for text in report.warnings), str(report.file)]),
        next_command("export", run, None, "--format", "help"),
    )
