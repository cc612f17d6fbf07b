"""`treeopt choose`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treeopt.cli.options import FILE, TableOptions, json_option, output_option, split_option, table_options
from treeopt.cli.output import note, show
from treeopt.cli.run import RunDirectory, next_command

if TYPE_CHECKING:
    from treeopt.search.choice import Choice


@click.command(
    "choose",
    epilog="\b\nExample: treeopt choose --accuracy accuracies.json --latency latency.csv --run results/mine",
)
@click.option(
    "--latency", type=FILE, metavar="FILE", help="latency.json, or CSV: batch,context,tokens,latency_ms."
)
@click.option("--growth", type=FILE, metavar="FILE", help="A growth.  [default: the run's]")
@click.option("--ranks", type=FILE, metavar="FILE", help="A rank table, to replay.  [default: the run's]")
@table_options
@split_option("calibrate")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the intervals."
)
@output_option
@json_option
def command(
    latency: Path | None,
    growth: Path | None,
    ranks: Path | None,
    table: TableOptions,
    split: str,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Choose the fastest tree for every batch and context that was timed: choice.json.

    Tokens per step come from replaying ranks, else from the growth; with --accuracy just from a table. The answer
    may be "no tree".
    """
    from treeopt.artifact import load_json
    from treeopt.cli.stages.choose import make_choice, next_sizes
    from treeopt.cli.tables import choice_text

    if table.accuracy is None and table.contiguous:
        raise click.UsageError("--contiguous is about the table of --accuracy; grow with it instead")
    if table.accuracy is not None and growth is not None:
        raise click.UsageError("--accuracy and --growth: give one of them")
    run = table.run
    choices = make_choice(
        run,
        ranks=ranks,
        growth=growth,
        latency=latency,
        accuracy=table.accuracy,
        cumulative=table.cumulative,
        contiguous=table.contiguous,
        split=split,
        output=output,
        seed=seed,
    )
    path, provenance = output or run.choice, choices[0].provenance
    sizes = next_sizes(choices)
    if sizes and "model" in provenance:
        more = next_command("profile", run, provenance, "--sizes", ",".join(map(str, sizes)))
        note(f"choose: sizes worth timing too: {more}")
    show(
        as_json,
        load_json(path),
        lambda: f"{path}\n\n{choice_text(choices)}",
        next_command("export", run, None, "--format", "json", *_tree(path, choices, run)),
    )


def _tree(path: Path, choices: "Sequence[Choice]", run: RunDirectory) -> list[str]:
    """What names the first choice to `export`: nothing, where it is the only one of the run."""
    if path == run.choice and len(choices) == 1:
        return []
    first = choices[0]
    label = f":batch{first.batch}-context{first.context}" if len(choices) > 1 else ""
    return ["--tree", f"{path}{label}"]
