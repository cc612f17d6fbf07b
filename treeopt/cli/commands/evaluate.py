"""`treeopt evaluate`."""

from pathlib import Path

import click

from treeopt.cli.options import (
    Requested,
    decoding_options,
    json_option,
    model_options,
    output_option,
    split_option,
    tree_option,
)
from treeopt.cli.output import note, show
from treeopt.cli.run import ModelOptions, next_command


@click.command(
    "evaluate",
    epilog="\b\nExample: treeopt evaluate --tree results/demo/choice.json --tree results/demo/growth.json:64",
)
@model_options
@decoding_options
@tree_option
@split_option("evaluate")
@click.option("--no-hf", is_flag=True, help="Leave transformers' own generate out.")
@output_option
@json_option
def command(
    source: ModelOptions,
    requested: Requested,
    trees: tuple[str, ...],
    split: str,
    no_hf: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Decode for real, with trees, plainly and with transformers' generate, in turns: evaluation.json.

    By default on the half of the prompts that nothing was fitted to. Every text is compared with plain
    decoding's, which it must equal. FILE:all is every tree of a file, and every size of a growth.
    """
    from treeopt.artifact import load_json
    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.evaluate import counted, make_evaluation, report_divergences, report_slower
    from treeopt.cli.trees import given_trees, require_own_choice
    from treeopt.tree import ROOT
    from treeopt.view.tables import runs_text

    session, run = Session(source), source.run
    wanted = given_trees(trees, run)
    if ROOT in wanted.values():
        note("evaluate: the bare root is plain decoding, which runs anyway")
    if not trees:
        require_own_choice(run, "the model and heads to evaluate", session.facts())
    path = output or run.evaluation
    content = make_evaluation(
        session, wanted, resolve(requested, source), split=split, hf_generate=not no_hf, output=path
    )
    report_divergences(content)
    report_slower(content)
    show(
        as_json,
        load_json(path),
        lambda: f"{path}: {counted(content)}\n\n{runs_text(content['runs'])}",
        next_command("report", run) if output is None else next_command("inspect", run, None, str(path)),
    )
