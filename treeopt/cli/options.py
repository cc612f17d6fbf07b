"""Options shared by commands, so that each means the same everywhere.

Options that belong together reach a command as one object: `@model_options` gives it `source`, a ModelOptions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from treeopt.cli.acceptance import ACCEPTANCE, DRAWING
from treeopt.cli.parameters import Command, Decorator, WholeNumbers, flat, gathered, once
from treeopt.cli.places import keeping_artifacts
from treeopt.cli.run import ModelOptions, RunDirectory, default_directory

FILE = click.Path(path_type=Path)
WHOLE = click.IntRange(min=1)


@dataclass(frozen=True)
class Requested:
    """Decoding settings as typed; None where the run's own, or the defaults, are to be used."""

    prompts: Path | None = None
    template: str | None = None
    turns: int | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    acceptance: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    seed: int | None = None


def _directory(directory: Path | None, model: str | None = None) -> RunDirectory:
    run = RunDirectory(directory or default_directory(model))
    click.get_current_context().find_root().obj = run  # named when Ctrl-C ends the command
    return run


def _model_options(
    directory: Path | None,
    model: str | None,
    config: Path | None = None,
    random_weights: bool = False,
    **others: Any,
) -> ModelOptions:
    if random_weights != (config is not None):
        raise click.UsageError("--random-weights and --config FILE go together")
    if config is not None and any(given is not None for given in (model, others["heads"], others["adapter"])):
        raise click.UsageError("--random-weights takes none of --model, --heads and --adapter")
    shape = (
        f"random-{config.resolve().parent.name if config.stem == 'config' else config.stem}"
        if config
        else None
    )
    return ModelOptions(_directory(directory, model or shape), model, config=config, **others)


@dataclass(frozen=True)
class TableOptions:
    """A run, and a bare table of accuracies that stands for its ranks; `accuracy` is None without one."""

    run: RunDirectory
    accuracy: str | None
    cumulative: bool
    contiguous: bool


def _table_options(
    directory: Path | None, accuracy: str | None, cumulative: bool, contiguous: bool
) -> TableOptions:
    if accuracy is None and cumulative:
        raise click.UsageError("--cumulative is about the table of --accuracy")
    name = None
    if accuracy is not None:
        file, _, part = accuracy.rpartition(":")
        name = f"{Path(file).stem}-{part}" if Path(file).is_file() else Path(accuracy).stem
    return TableOptions(_directory(directory, name), accuracy, cumulative, contiguous)


RUN = click.option(
    "--run",
    "directory",
    type=FILE,
    metavar="DIR",
    help="Run directory, which holds one model's artifacts.  [default: results/demo, or results/<model name>]",
)
_HEADS = (
    click.option(
        "--heads",
        type=FILE,
        metavar="DIR",
        help="Medusa heads, a directory or file.  [default: those trained in the run, then the demo's]",
    ),
)
_MODEL = (
    RUN,
    click.option(
        "--model", metavar="MODEL", help="Directory, hub name or GGUF file.  [default: the bundled demo]"
    ),
    click.option(
        "--adapter",
        type=FILE,
        metavar="DIR",
        help="LoRA adapter, merged into the model.  [default: the one trained in the run of --model]",
    ),
    click.option("--device", help="cpu, cuda, cuda:1, ...  [default: cuda where there is one]"),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        default="float32",
        show_default=True,
        help="Number format of model and heads.",
    ),
)
_SHAPE = (
    click.option(
        "--config", type=FILE, metavar="FILE", help="A config.json: the shape for --random-weights."
    ),
    click.option(
        "--random-weights", is_flag=True, help="Time a model of the shape in --config, without weights."
    ),
    click.option("--num-heads", type=WHOLE, default=5, show_default=True, help="Heads for --random-weights."),
)
_DECODING: tuple[Decorator, ...] = (
    click.option(
        "--prompts",
        type=FILE,
        multiple=True,
        callback=once,
        metavar="FILE",
        help="Prompts: JSON lines, MT-Bench, Alpaca or ShareGPT. Rows without text are skipped, other flaws"
        " repaired, and both are named.  [default: the run's, then the demo's]",
    ),
    click.option(
        "--template",
        type=click.Choice(["auto", "chat", "none"]),
        help="Chat template: auto and chat use the tokenizer's own, none takes prompts as plain text.",
    ),
    click.option(
        "--turns",
        type=WHOLE,
        help="Turns of a conversation to answer, where prompts have several.  [default: the run's, then all]",
    ),
    click.option(
        "--max-new-tokens", type=WHOLE, help="Length limit of an answer.  [default: the run's, then 128]"
    ),
    *DRAWING,
    click.option(
        "--seed", type=click.IntRange(min=0), help="Seed of sampling.  [default: the run's, then 0]"
    ),
)

run_option = gathered("run", _directory, [RUN])
bare_model_options = gathered("source", _model_options, _MODEL)
model_options = gathered("source", _model_options, [*_MODEL, *_HEADS])
profiled_model_options = gathered("source", _model_options, [*_MODEL, *_HEADS, *_SHAPE])
answer_options = gathered("requested", Requested, _DECODING)
decoding_options = gathered("requested", Requested, [*_DECODING, *ACCEPTANCE])

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else."
)
output_option = click.option(
    "-o",
    "--output",
    type=FILE,
    callback=keeping_artifacts,
    metavar="FILE",
    help="Where to write it, not in the run.",
)
batch_size_option = click.option(
    "--batch-size", type=WHOLE, default=16, show_default=True, help="Answers generated at a time."
)
tree_option = click.option(
    "--tree",
    "trees",
    multiple=True,
    metavar="FILE[:NAME]",
    help="A choices file, artifact or runtime's file; repeatable.  [default: the run's choice]",
)
batch_option = click.option(
    "--batch",
    "batches",
    type=WholeNumbers(),
    multiple=True,
    callback=flat,
    metavar="LIST",
    help="Sequences served together; repeatable, or 1,4,16.  [default: 1]",
)
context_option = click.option(
    "--context",
    "contexts",
    type=WholeNumbers(),
    multiple=True,
    callback=flat,
    metavar="LIST",
    help="Tokens in the cache; repeatable, or 128,1024.  [default: the mean that calibration saw, or 128]",
)


_SIZES = WholeNumbers()


def sizes_option(help: str, callback: Command = flat) -> Decorator:
    """--sizes, with what the command does with them, and what it does with one that is given twice."""
    return click.option("--sizes", type=_SIZES, multiple=True, callback=callback, metavar="LIST", help=help)


def split_option(default: str) -> Decorator:
    """--split, with the half that the command uses."""
    return click.option(
        "--split",
        type=click.Choice(["calibrate", "evaluate", "all"]),
        default=default,
        show_default=True,
        help="Half of the prompts: one to fit on, one to judge on.",
    )


table_options: Decorator = gathered(
    "table",
    _table_options,
    [
        RUN,
        click.option(
            "--accuracy",
            metavar="FILE[:NAME]",
            help="A table of accuracies instead of ranks: JSON, CSV, or a *_heads_accuracy.pt.",
        ),
        click.option(
            "--cumulative", is_flag=True, help="The table holds top-i accuracies, not of exactly the i-th."
        ),
        click.option(
            "--contiguous", is_flag=True, help="Pool each head's accuracies so that no rank is skipped."
        ),
    ],
)
"""Gives `table`: the run, results/<name of the table> where there is one, and how to read it."""

width_option = click.option(
    "--width", type=WHOLE, default=16, show_default=True, help="R: guesses of each head that are told apart."
)
