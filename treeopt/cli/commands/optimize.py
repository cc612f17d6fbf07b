"""`treeopt optimize`."""

import click

from treeopt.cli.growing import Growing, growing_options
from treeopt.cli.options import (
    WHOLE,
    Requested,
    answer_options,
    batch_size_option,
    json_option,
    model_options,
    width_option,
)
from treeopt.cli.output import show, warn
from treeopt.cli.run import ModelOptions, next_command


@click.command(
    "optimize", epilog="\b\nExample: treeopt optimize --model DIR --heads DIR --prompts questions.jsonl"
)
@model_options
@answer_options
@batch_size_option
@width_option
@growing_options
@click.option(
    "--repeats", type=WHOLE, default=30, show_default=True, help="Latency samples of each size, at least."
)
@click.option(
    "--format",
    "format_names",
    multiple=True,
    default=("json", "medusa"),
    metavar="NAME",
    help="Runtimes to export for, repeatable; growth keeps to their limits.  [default: json and medusa]",
)
@click.option("--fresh", is_flag=True, help="Start over: forget what the run has, but for trained heads.")
@json_option
def command(
    source: ModelOptions,
    requested: Requested,
    batch_size: int,
    width: int,
    growing: Growing,
    repeats: int,
    format_names: tuple[str, ...],
    fresh: bool,
    as_json: bool,
) -> None:
    """Do it all: generate, calibrate, grow, profile, choose, export, and prove it by decoding.

    What the run already has is kept where it is of this model, these heads and these settings. Ends with the tree
    to use, the file to give to a runtime, prediction beside measurement on prompts that nothing was fitted to, and a
    report of it all.
    """
    from dataclasses import asdict

    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.evaluate import report_divergences, report_slower
    from treeopt.cli.stages.export import find_format
    from treeopt.cli.stages.optimize import optimize, start_over
    from treeopt.cli.tables import outcome_text
    from treeopt.view.outcome import off_prediction

    formats = [find_format(name) for name in format_names]
    if fresh:
        start_over(source.run)
    outcome = optimize(
        Session(source),
        resolve(requested, source),
        formats,
        width=width,
        batch_size=batch_size,
        repeats=repeats,
        growing=growing,
    )
    report_divergences(outcome.evaluation)
    report_slower(outcome.evaluation)
    if text := off_prediction(outcome.figures):
        warn(f"{text}: other work on this machine, or prompts unlike those it was fitted to, may be why")
    content = {
        "kind": "optimization",
        "choice": asdict(outcome.choice),
        "files": [str(file) for file in outcome.files],
        "report": str(outcome.report),
        "tokens_per_s": outcome.figures,
        "evaluation": outcome.evaluation,
    }
    show(
        as_json,
        content,
        lambda: outcome_text(outcome.choice, outcome.files, outcome.report, outcome.figures),
        next_command("inspect", source.run, None, str(source.run.choice)),
    )
