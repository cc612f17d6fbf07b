"""`treeopt inspect`."""

import click

from treeopt.cli.options import json_option
from treeopt.cli.output import show
from treeopt.cli.run import RunDirectory, next_command


@click.command("inspect", epilog="\b\nExample: treeopt inspect medusa_choices.py:mc_sim_7b_63")
@click.argument("file", metavar="FILE[:NAME]")
@click.option(
    "--accuracy", metavar="FILE[:NAME]", help="A table of accuracies that gives the nodes their values."
)
@click.option("--cumulative", is_flag=True, help="The table holds top-i accuracies, not of exactly the i-th.")
@json_option
def command(file: str, accuracy: str | None, cumulative: bool, as_json: bool) -> None:
    """Draw a tree, list the trees of a file, or sum up an artifact.

    Takes any choices file, among them a medusa_choices.py, which is read and never executed.
    """
    from treeopt.cli.stages.inspect import inspect
    from treeopt.search.accuracy_files import split_name

    seen = inspect(file, accuracy, cumulative=cumulative)
    run, (name, *words) = RunDirectory.of(split_name(file)[0]), seen.following
    show(as_json, seen.content, lambda: seen.text, next_command(name, run, None, *words))
