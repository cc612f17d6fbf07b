"""`treeopt train`."""

from pathlib import Path
from typing import Any

import click

from treeopt.cli.options import (
    FILE,
    WHOLE,
    Requested,
    answer_options,
    bare_model_options,
    json_option,
    split_option,
)
from treeopt.cli.output import show
from treeopt.cli.parameters import Decorator, finite, gathered
from treeopt.cli.run import ModelOptions, RunDirectory, next_command


def _number(name: str, default: float, text: str, *, least_open: bool = True) -> Decorator:
    kind = click.FloatRange(min=0, min_open=least_open)
    return click.option(name, type=kind, callback=finite, default=default, show_default=True, help=text)


def _share(name: str, default: float, text: str) -> Decorator:
    kind = click.FloatRange(min=0, max=1, max_open=True)
    return click.option(name, type=kind, callback=finite, default=default, show_default=True, help=text)


_HEADS = (
    click.option("--num-heads", type=WHOLE, default=5, show_default=True, help="K: heads."),
    click.option("--num-layers", type=WHOLE, default=1, show_default=True, help="Residual layers of a head."),
    click.option(
        "--own-lm-head", is_flag=True, help="Each head has an LM head of its own, not the backbone's."
    ),
    _share("--held-out", 0.05, "Share of prompts to judge on."),
)
_LOOP = (
    click.option(
        "--batch-size", type=WHOLE, default=8, show_default=True, help="Answers of a step, a device."
    ),
    click.option(
        "--accumulate", type=WHOLE, default=1, show_default=True, help="Batches that make up one step."
    ),
    _share("--lr-warmup", 0.05, "Share of steps to the peak rate."),
    click.option(
        "--train-seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of the order of answers, of what is held out, and of dropout.",
    ),
    click.option(
        "--precision",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        default="float32",
        show_default=True,
        help="Of the products in training (autocast); weights and losses keep theirs.",
    ),
)
_DATA = (
    click.option(
        "--generations",
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="Answers to learn from, .jsonl or .jsonl.gz; repeatable.  [default: the run's]",
    ),
    split_option("calibrate"),
    click.option(
        "--precompute/--no-precompute",
        default=None,
        help="Compute hidden states once, to disk, while the backbone is frozen.  [default: on the CPU]",
    ),
    click.option(
        "--quantize",
        type=click.Choice(["4bit", "8bit"]),
        help="Load the backbone so, with bitsandbytes where it is installed.",
    ),
    click.option("--half", is_flag=True, help="Save heads in half precision (float16)."),
    click.option("--overwrite", is_flag=True, help="Replace what is there."),
)
_LORA = (
    click.option("--lora/--full", default=True, show_default=True, help="Train an adapter, or all weights."),
    click.option("--lora-rank", type=WHOLE, default=32, show_default=True, help="Rank of the adapter."),
    click.option("--lora-alpha", type=WHOLE, default=16, show_default=True, help="Scale of the adapter."),
    _share("--lora-dropout", 0.05, "Dropout before the adapter."),
)

heads_options = gathered("shape", dict, _HEADS)
loop_options = gathered("loop", lambda train_seed, **values: values | {"seed": train_seed}, _LOOP)
data_options = gathered("data", dict, _DATA)
lora_options = gathered("adapter", dict, _LORA)


@click.group("train", no_args_is_help=True, epilog="\b\nExample: treeopt train medusa1 --model DIR")
def command() -> None:
    """Train heads on the model's own answers."""


@command.command(
    "medusa1",
    epilog="\b\nExample: treeopt train medusa1 --model DIR --prompts train.jsonl --template chat",
)
@bare_model_options
@answer_options
@heads_options
@_number("--epochs", 4, "Passes over the answers.")
@_number("--learning-rate", 1e-3, "Peak, after a warm-up, then a cosine to 0.")
@loop_options
@data_options
@click.option(
    "-o", "--output", type=FILE, metavar="DIR", help="Where to put the heads.  [default: heads, in the run]"
)
@json_option
def medusa1(
    source: ModelOptions,
    requested: Requested,
    shape: dict[str, Any],
    epochs: float,
    learning_rate: float,
    loop: dict[str, Any],
    data: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Train Medusa-1 heads: the backbone stays as it is.

    Learns from one half of the run's answers, which are made first where there are none. Accuracies on that half
    then flatter the heads; train on answers to other prompts (--generations) to calibrate without that. Ctrl-C leaves
    a checkpoint, from which the same command goes on.
    """
    from treeopt.cli.decoding import resolve
    from treeopt.cli.stages.train import Training
    from treeopt.train.trainer import LoopSettings

    decoding = resolve(requested, source)
    settings = LoopSettings(epochs=epochs, learning_rate=learning_rate, **loop)
    training = Training(source, decoding, shape, data, output or source.run.heads, differentiate="head")
    _keep(source.run, training.unfinished)
    file = training.medusa1(settings)
    _tell(training, as_json, file, source, source.run, {"heads": str(output)} if output else {})


@command.command(
    "medusa2",
    epilog="\b\nExample: treeopt train medusa2 --model DIR --self-distill --precision bfloat16",
)
@bare_model_options
@answer_options
@heads_options
@_number("--epochs", 2, "Passes over the answers with heads and backbone together.")
@_number("--warmup-epochs", 1, "Passes before that with the backbone frozen.")
@click.option("--no-warmup", is_flag=True, help="Train both from the start, the paper's direct variant.")
@_number("--learning-rate", 5e-4, "Peak, of the backbone.")
@_number("--heads-lr-factor", 4, "The heads' learning rate over the backbone's.")
@_number("--lambda-0", 0.2, "Weight of the heads' loss beside the backbone's.")
@_share("--ramp", 0.1, "Share of steps to reach lambda_0.")
@lora_options
@click.option(
    "--self-distill", is_flag=True, help="Keep the backbone near itself (KL), instead of fitting the answers."
)
@loop_options
@data_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="DIR",
    help="A new run directory, for the new model.  [default: medusa2, in the run]",
)
@json_option
def medusa2(
    source: ModelOptions,
    requested: Requested,
    shape: dict[str, Any],
    epochs: float,
    warmup_epochs: float,
    no_warmup: bool,
    learning_rate: float,
    heads_lr_factor: float,
    lambda_0: float,
    ramp: float,
    adapter: dict[str, Any],
    self_distill: bool,
    loop: dict[str, Any],
    data: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Train Medusa-2: heads and backbone together, after a warm-up of the heads alone.

    The result is another model, with a run directory of its own: heads, and an adapter for --adapter (with --full, a
    whole model). The loss of the backbone on held-out answers is logged before and after.
    """
    if self_distill and not adapter["lora"]:
        raise click.UsageError("--self-distill needs an adapter, which is switched off to be the teacher")
    from treeopt.cli.decoding import resolve
    from treeopt.cli.stages.train import Training
    from treeopt.train.medusa2 import LoraSettings
    from treeopt.train.trainer import LoopSettings

    decoding = resolve(requested, source)
    joint = LoopSettings(
        epochs=epochs,
        learning_rate=learning_rate,
        heads_lr_factor=heads_lr_factor,
        lambda_0=lambda_0,
        ramp=ramp,
        **loop,
    )
    warmup = LoopSettings(epochs=warmup_epochs, learning_rate=learning_rate * heads_lr_factor, **loop)
    lora = {name.removeprefix("lora_"): value for name, value in adapter.items() if name != "lora"}
    directory = output or source.run.directory / "medusa2"
    training = Training(source, decoding, shape, data, directory, differentiate="everything")
    _keep(source.run, training.unfinished)
    file = training.medusa2(
        None if no_warmup else warmup,
        joint,
        lora=LoraSettings(**lora) if adapter["lora"] else None,
        self_distill=self_distill,
    )
    new = RunDirectory(directory)
    where = {"adapter": str(new.adapter)} if adapter["lora"] else {"model": str(directory / "model")}
    asked = {"prompts": "FILE", "template": decoding.template, "temperature": decoding.temperature}
    if decoding.top_p < 1 or decoding.top_k > 0:
        asked |= {"top-p": decoding.top_p, "top-k": decoding.top_k}
    asked |= {"max-new-tokens": decoding.max_new_tokens}  # the new run has no answers yet to take these from
    prompts = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    _tell(training, as_json, file, source, new, where, *prompts)


def _keep(run: RunDirectory, unfinished: Path) -> None:
    """Name to Ctrl-C both places: the answers are the run's, and checkpoints lie beside what comes out."""
    click.get_current_context().find_root().obj = f"{run}, checkpoints in {unfinished}"


def _tell(
    training: Any,
    as_json: bool,
    file: Path,
    source: ModelOptions,
    run: RunDirectory,
    named: dict[str, str],
    *extra: str,
) -> None:
    """Show what came out, by the one process that writes."""
    from treeopt.artifact import sha256_file
    from treeopt.train.processes import is_main_process

    if not is_main_process():
        return
    records = training.records()
    show(
        as_json,
        {"heads": str(file), "heads_sha256": sha256_file(file), "log": records},
        lambda: f"{file}\n\n{records_text(records)}",
        next_command("calibrate", run, {"asked": source.asked() | named}, *extra),
    )


def records_text(records: list[dict[str, Any]]) -> str:
    """What the last records have of the backbone and of each head."""
    from treeopt.view.tables import table

    last = {name: value for record in records[1:] for name, value in record.items()}
    columns = {name: values for name, values in last.items() if isinstance(values, list)}
    rows = [[str(head), *values] for head, values in enumerate(zip(*columns.values(), strict=True), start=1)]
    before = next((r["held_out_lm_loss"] for r in records if "held_out_lm_loss" in r), None)
    text = table(["head", *columns], rows)
    if before is not None and records[-1]["stage"] != "medusa1":
        text += (
            f"\n\nloss of the backbone on held-out answers: {before} before, {last['held_out_lm_loss']} after"
        )
    return text
