"""`treeopt profile`."""

import click

from treeopt.cli.options import (
    WHOLE,
    batch_option,
    context_option,
    json_option,
    profiled_model_options,
    sizes_option,
)
from treeopt.cli.output import show
from treeopt.cli.run import ModelOptions, next_command


@click.command("profile", epilog="\b\nExample: treeopt profile --batch 1,4 --context 256")
@profiled_model_options
@batch_option
@context_option
@sizes_option("Time these N, and plain decoding, and add them to what the run has.")
@click.option("--repeats", type=WHOLE, default=30, show_default=True, help="Samples of each size.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the timing order."
)
@json_option
def command(
    source: ModelOptions,
    batches: tuple[int, ...],
    contexts: tuple[int, ...],
    sizes: tuple[int, ...],
    repeats: int,
    seed: int,
    as_json: bool,
) -> None:
    """Time a whole decoding step, and its parts, at every tree size: latency.json.

    Without --sizes, sizes up to 128 are timed anew, with more of them where latency jumps.
    """
    from treeopt.artifact import load_json
    from treeopt.cli.session import Session
    from treeopt.cli.stages.profile import make_profile
    from treeopt.cli.tables import latency_text

    profile = make_profile(
        Session(source), batches=batches, contexts=contexts, sizes=sizes, repeats=repeats, seed=seed
    )
    run = source.run
    missing = [name for name, path in (("calibrate", run.ranks), ("grow", run.growth)) if not path.is_file()]
    following, words = [*missing, "choose"][0], []
    if source.config is not None:  # random weights have no text of their own to calibrate on
        following, words = "choose", ["--accuracy", "FILE"]
    show(
        as_json,
        load_json(run.latency),
        lambda: f"{run.latency}: {len(profile.samples):,} samples\n\n{latency_text(profile)}",
        next_command(following, run, profile.provenance, *words),
    )
