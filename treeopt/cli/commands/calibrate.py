"""`treeopt calibrate`."""

from typing import TYPE_CHECKING

import click

from treeopt.cli.options import (
    WHOLE,
    Requested,
    batch_size_option,
    decoding_options,
    json_option,
    model_options,
    split_option,
    width_option,
)
from treeopt.cli.output import show
from treeopt.cli.parameters import refuse_unheeded
from treeopt.cli.run import ModelOptions, next_command

if TYPE_CHECKING:
    from treeopt.cli.decoding import Decoding
    from treeopt.cli.session import Session


@click.command("calibrate", epilog="\b\nExample: treeopt calibrate --model DIR --heads DIR")
@model_options
@decoding_options
@batch_size_option
@width_option
@click.option(
    "--probabilities",
    is_flag=True,
    help="Keep what the heads gave to their guesses, for benchmarks/dynamic.py.",
)
@click.option(
    "--superset",
    type=WHOLE,
    default=256,
    show_default=True,
    help="Typical acceptance: nodes, those that the run's ranks value most, to record.",
)
@split_option("calibrate")
@json_option
def command(
    source: ModelOptions,
    requested: Requested,
    batch_size: int,
    width: int,
    probabilities: bool,
    superset: int,
    split: str,
    as_json: bool,
) -> None:
    """See how well the heads guess the model's own answers, which are made first where the run has none.

    Writes ranks.safetensors of all answers, and accuracy.csv of the half that --split names, which is also the
    one shown. An interrupted calibration goes on where it stopped.

    With --acceptance typical, once there are ranks: decodes that half with a tree of --superset nodes and writes
    passes.safetensors, which nodes pass at each step, for `grow --passes`.
    """
    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.calibrate import ensure_ranks, summary
    from treeopt.cli.tables import calibration_text

    session, decoding = Session(source), resolve(requested, source)
    if decoding.acceptance == "typical":
        refuse_unheeded(
            ("probabilities", "width", "batch_size"),
            "is for ranks, and --acceptance typical records passes; leave it out",
        )
        _record(session, decoding, superset, split, as_json)
        return
    refuse_unheeded(("superset",), "is for --acceptance typical; leave it out")
    table, answers = ensure_ranks(
        session,
        decoding,
        width=width,
        split=split,
        batch_size=batch_size,
        probabilities=probabilities,
    )
    content = summary(table.split(split), answers)
    show(
        as_json,
        content,
        lambda: f"{source.run.ranks}: {table.positions:,} positions\n\n{calibration_text(content)}",
        next_command("grow", source.run),
    )


def _record(session: "Session", decoding: "Decoding", superset: int, split: str, as_json: bool) -> None:
    """The other way to calibrate: what typical acceptance would accept."""
    from treeopt.cli.run import require_writable
    from treeopt.cli.stages.passes import make_passes
    from treeopt.cli.tables import passes_text

    path = session.run.passes
    require_writable(path)
    table = make_passes(session, decoding, budget=superset, split=split)
    table.save(path)
    content = table.summary()
    following = next_command("grow", session.run, None, "--passes", str(path))
    show(as_json, content, lambda: f"{path}: {passes_text(content)}", following)
