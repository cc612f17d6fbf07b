"""`treeopt replay`."""

from pathlib import Path

import click

from treeopt.cli.options import FILE, json_option, run_option, split_option, tree_option
from treeopt.cli.output import show
from treeopt.cli.run import RunDirectory, next_command


@click.command(
    "replay",
    epilog="\b\nExample: treeopt replay --tree medusa_choices.py:mc_sim_7b_63 --tree results/demo/growth.json:32",
)
@run_option
@click.option("--ranks", type=FILE, metavar="FILE", help="A rank table.  [default: the run's]")
@tree_option
@split_option("evaluate")
@json_option
def command(run: RunDirectory, ranks: Path | None, trees: tuple[str, ...], split: str, as_json: bool) -> None:
    """See what trees would accept, step by step, without decoding: exact, from ranks alone.

    Tokens per step with 95 % intervals, and acceptance by depth, over all prompts and by category. By default on the
    half of the prompts that nothing was fitted to. FILE:all is every tree of a file, and every size of a growth.
    Prints, and writes nothing.
    """
    from treeopt.cli.stages.replay import replay_trees
    from treeopt.cli.trees import given_trees, require_own_choice
    from treeopt.view.tables import runs_text

    content = replay_trees(ranks or run.ranks, given_trees(trees, run), split)
    if not trees:
        require_own_choice(run, str(ranks or run.ranks), content["provenance"])
    show(
        as_json,
        content,
        lambda: runs_text(content["runs"]),
        next_command("evaluate", run, content["provenance"]),
    )
