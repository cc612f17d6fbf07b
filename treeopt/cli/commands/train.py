"""`treeopt train medusa1`."""

from pathlib import Path
from typing import Any

import click

from treeopt.cli.options import (
    FILE,
    WHOLE,
    Requested,
    decoding_options,
    json_option,
    model_options,
    split_option,
)
from treeopt.cli.output import show
from treeopt.cli.parameters import finite, gathered
from treeopt.cli.run import ModelOptions, next_command

POSITIVE = click.FloatRange(min=0, min_open=True)

settings_options = gathered(
    "settings",
    lambda **values: values,
    [
        click.option("--num-heads", type=WHOLE, default=5, show_default=True, help="K: heads."),
        click.option(
            "--num-layers", type=WHOLE, default=1, show_default=True, help="Residual layers of a head."
        ),
        click.option("--epochs", type=WHOLE, default=4, show_default=True, help="Passes over the answers."),
        click.option(
            "--learning-rate",
            type=POSITIVE,
            callback=finite,
            default=1e-3,
            show_default=True,
            help="Peak, after a warm-up.",
        ),
        click.option(
            "--batch-size", type=WHOLE, default=1024, show_default=True, help="Positions of a step."
        ),
    ],
)


@click.group("train", no_args_is_help=True, epilog="\b\nExample: treeopt train medusa1 --model DIR")
def command() -> None:
    """Train heads on the model's own answers."""


@command.command(
    "medusa1",
    epilog="\b\nExample: treeopt train medusa1 --model DIR --prompts train.jsonl --template chat",
)
@model_options
@decoding_options
@settings_options
@click.option("--generations", type=FILE, metavar="FILE", help="Answers to learn from.  [default: the run's]")
@split_option("calibrate")
@click.option(
    "-o", "--output", type=FILE, metavar="DIR", help="Where to put the heads.  [default: heads, in the run]"
)
@click.option("--overwrite", is_flag=True, help="Replace heads that are there.")
@json_option
def medusa1(
    source: ModelOptions,
    requested: Requested,
    settings: dict[str, Any],
    generations: Path | None,
    split: str,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Train Medusa-1 heads: the backbone stays as it is.

    Learns from one half of the run's answers, which are made first where there are none. Accuracies on that half
    then flatter the heads; train on answers to other prompts (--generations) to calibrate without that.
    """
    from treeopt.artifact import sha256_file
    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.train import log_records, train_heads
    from treeopt.train.medusa1 import Medusa1Settings

    decoding = resolve(requested, source)
    chosen = Medusa1Settings(
        heads=settings.pop("num_heads"), layers=settings.pop("num_layers"), seed=decoding.seed, **settings
    )
    session, directory = Session(source), output or source.run.heads
    file = train_heads(
        session, decoding, chosen, directory, generations=generations, split=split, overwrite=overwrite
    )
    records = log_records(directory)
    asked = source.asked() | ({"heads": str(output)} if output else {})
    show(
        as_json,
        {"heads": str(file), "heads_sha256": sha256_file(file), "log": records},
        lambda: f"{file}\n\n{records_text(records)}",
        next_command("calibrate", source.run, {"asked": asked}),
    )


def records_text(records: list[dict[str, Any]]) -> str:
    """What the last epoch has for each head."""
    from treeopt.view.tables import table

    columns = {name: values for name, values in records[-1].items() if isinstance(values, list)}
    rows = [[str(head), *values] for head, values in enumerate(zip(*columns.values(), strict=True), start=1)]
    return table(["head", *columns], rows)
