"""`treeopt calibrate`."""

import click

from treeopt.cli.options import (
    Requested,
    batch_size_option,
    decoding_options,
    json_option,
    model_options,
    split_option,
    width_option,
)
from treeopt.cli.output import show
from treeopt.cli.run import ModelOptions, next_command


@click.command("calibrate", epilog="\b\nExample: treeopt calibrate --model DIR --heads DIR")
@model_options
@decoding_options
@batch_size_option
@width_option
@split_option("calibrate")
@json_option
def command(
    source: ModelOptions, requested: Requested, batch_size: int, width: int, split: str, as_json: bool
) -> None:
    """See how well the heads guess the model's own answers, which are made first where the run has none.

    Writes ranks.safetensors of all answers, and accuracy.csv of the half that --split names, which is also the
    one shown. An interrupted calibration goes on where it stopped.
    """
    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.calibrate import ensure_ranks, summary
    from treeopt.cli.tables import calibration_text

    session = Session(source)
    table, answers = ensure_ranks(
        session, resolve(requested, source), width=width, split=split, batch_size=batch_size
    )
    content = summary(table.split(split), answers)
    show(
        as_json,
        content,
        lambda: f"{source.run.ranks}: {table.positions:,} positions\n\n{calibration_text(content)}",
        next_command("grow", source.run),
    )
