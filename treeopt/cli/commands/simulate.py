"""`treeopt simulate`."""

from pathlib import Path

import click

from treeopt.cli.options import (
    FILE,
    RUN,
    batch_option,
    context_option,
    json_option,
    output_option,
    sizes_option,
)
from treeopt.cli.output import show
from treeopt.cli.run import RESULTS, RunDirectory, next_command
from treeopt.search.hardware import GPUS, SHAPES


@click.command(
    "simulate", epilog="\b\nExample: treeopt simulate --gpu a100-80gb-pcie --shape llama-7b --batch 1,4"
)
@click.option(
    "--gpu",
    type=click.Choice(list(GPUS)),
    default="a100-80gb-pcie",
    show_default=True,
    help="The GPU; with --fit, where the fit starts.",
)
@click.option(
    "--shape", type=click.Choice(list(SHAPES)), help="A model's shape by name.  [default: llama-7b]"
)
@click.option("--config", type=FILE, metavar="FILE", help="A config.json: the shape of any other model.")
@click.option(
    "--fit",
    type=FILE,
    metavar="FILE",
    help="A measured latency.json or CSV of this shape, to fit to and to extend.",
)
@batch_option
@context_option
@sizes_option("Tokens N, besides plain decoding.  [default: 1 to 128]")
@RUN
@output_option
@json_option
def command(
    gpu: str,
    shape: str | None,
    config: Path | None,
    fit: Path | None,
    batches: tuple[int, ...],
    contexts: tuple[int, ...],
    sizes: tuple[int, ...],
    directory: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compute what a decoding step costs on a GPU that is not at hand: latency.json, marked as simulated.

    max(compute, memory) of every operator, in whole tiles. With --fit, one short measured profile is extended to other
    batches and contexts.
    """
    from treeopt.artifact import load_json
    from treeopt.cli.stages.simulate import make_simulation
    from treeopt.cli.tables import simulation_text
    from treeopt.search.shape_files import read_shape

    if shape is not None and config is not None:
        raise click.UsageError("--shape and --config: give one of them")
    if fit is not None and shape is None and config is None:
        raise click.UsageError("--fit: name the measured model's shape with --shape or --config")
    known = read_shape(config) if config else SHAPES[shape or "llama-7b"]
    run = RunDirectory(directory or RESULTS / f"{known.name}-{'fitted' if fit else gpu}")
    path = output or run.latency
    profile = make_simulation(
        path, GPUS[gpu], known, measured=fit, batches=batches, contexts=contexts, sizes=sizes
    )
    words = [] if path == run.latency else ["--latency", str(path)]
    words += [] if run.growth.is_file() else ["--accuracy", "FILE"]
    show(
        as_json,
        load_json(path),
        lambda: f"{path}: {len(profile.samples):,} latencies\n\n{simulation_text(profile)}",
        next_command("choose", run, None, *words),
    )
