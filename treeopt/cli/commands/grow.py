"""`treeopt grow`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeopt.cli.growing import PUBLISHED, Growing, growing_options
from treeopt.cli.options import (
    FILE,
    WHOLE,
    TableOptions,
    json_option,
    output_option,
    split_option,
    table_options,
)
from treeopt.cli.output import note, show
from treeopt.cli.run import RunDirectory, next_command

if TYPE_CHECKING:
    from treeopt.search.grow import Growth


@click.command(
    "grow", epilog="\b\nExample: treeopt grow --accuracy accuracies.json --budget 64 --run results/mine"
)
@click.option(
    "--budget", type=WHOLE, default=64, show_default=True, help="N: tokens to verify, root included."
)
@click.option("--ranks", type=FILE, metavar="FILE", help="A rank table.  [default: the run's]")
@click.option(
    "--passes",
    type=FILE,
    metavar="FILE",
    help="Grow for typical acceptance, by coverage, from what `calibrate --acceptance typical` recorded.",
)
@table_options
@growing_options
@click.option("--max-depth", type=WHOLE, help="Use this many heads at most.")
@click.option("--max-rank", type=click.IntRange(min=0), help="Highest rank used, 0 being the top guess.")
@click.option("--format", "format_name", metavar="NAME", help="Keep to the limits of this runtime.")
@split_option("calibrate")
@output_option
@json_option
def command(
    budget: int,
    ranks: Path | None,
    passes: Path | None,
    table: TableOptions,
    growing: Growing,
    max_depth: int | None,
    max_rank: int | None,
    format_name: str | None,
    split: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Grow the tree node by node, best first: every budget's tree at once.

    Writes growth.json. Needs ranks of calibration, or with --accuracy just a table, and no model. With --passes it
    writes growth-typical.json: of several siblings more than one may pass then, so nodes join by what they add to
    the steps that are covered. That tree is judged by `evaluate --acceptance typical`; replay does not apply.
    """
    from treeopt.artifact import load_json
    from treeopt.cli.stages.grow import from_passes, from_ranks, from_table
    from treeopt.cli.tables import growth_text

    _require_ranks(table, growing)
    run = table.run
    limits: dict[str, Any] = {"contiguous": table.contiguous, "max_depth": max_depth, "max_rank": max_rank}
    if format_name is not None:
        _keep_to(format_name, limits, growing)
    if passes is not None:
        _require_coverage(table, growing, ranks, limits.pop("contiguous"))
        growth = from_passes(passes, budget, split=split, **limits)
    elif table.accuracy is None:
        growth = from_ranks(ranks or run.ranks, budget, split=split, growing=growing, **limits)
    elif ranks is None:
        growth = from_table(table.accuracy, budget, cumulative=table.cumulative, **limits)
    else:
        raise click.UsageError("--accuracy and --ranks: give one of them")
    path = output or (run.growth if passes is None else run.typical_growth)
    growth.write(path)
    if growth.stopped:
        note(f"grow: {growth.stopped}")
    show(
        as_json,
        load_json(path),
        lambda: f"{path}: {growth.size} nodes, {growth.estimator}\n\n{growth_text(growth)}",
        _following(run, growth, path),
    )


def _keep_to(format_name: str, limits: dict[str, Any], growing: Growing) -> None:
    """Tighten limits to those of a runtime."""
    from treeopt.cli.stages.export import find_format
    from treeopt.cli.stages.fit import growth_limits

    kept = growth_limits([find_format(format_name)], growing)
    limits["contiguous"] |= kept["contiguous"]
    for name in ("max_depth", "max_rank"):
        limits[name] = min((most for most in (limits[name], kept[name]) if most is not None), default=None)


def _require_ranks(table: TableOptions, growing: Growing) -> None:
    """Wrong usage where accuracies are asked for what only ranks tell."""
    if table.accuracy is not None and growing != PUBLISHED:
        raise click.UsageError(
            "--accuracy: a table of accuracies knows only --estimator independent, without --on-policy; give ranks"
        )
    if table.contiguous and growing.estimator != PUBLISHED.estimator:
        raise click.UsageError("--contiguous pools accuracies, and --estimator independent alone is of these")


def _require_coverage(table: TableOptions, growing: Growing, ranks: Path | None, contiguous: bool) -> None:
    """Wrong usage where coverage is given more than passes, or asked to skip no rank."""
    if table.accuracy is not None or ranks is not None or growing != PUBLISHED:
        raise click.UsageError("--passes takes none of --ranks, --accuracy, --estimator and --on-policy")
    if contiguous:
        raise click.UsageError("--passes grows by coverage, which may skip ranks; leave out what forbids it")


def _following(run: RunDirectory, growth: "Growth", path: Path) -> str:
    """Choosing, once there are latencies; without a model they come from a file. For coverage, decoding."""
    provenance = growth.provenance
    if provenance.get("acceptance") == "typical":
        names = ("temperature", "epsilon", "delta")
        rule = [word for name in names for word in (f"--{name}", str(provenance[name]))]
        tree = f"{path}:{growth.size}"
        return next_command("evaluate", run, provenance, "--tree", tree, "--acceptance", "typical", *rule)
    if run.latency.is_file():
        return next_command("choose", run)
    if "model_sha256" in provenance:
        return next_command("profile", run, provenance)
    return next_command("choose", run, None, "--latency", "latency.csv")
