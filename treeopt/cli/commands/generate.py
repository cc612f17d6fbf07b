"""`treeopt generate`."""

import click

from treeopt.cli.options import Requested, answer_options, batch_size_option, json_option, model_options
from treeopt.cli.output import show
from treeopt.cli.run import ModelOptions, next_command


@click.command(
    "generate", epilog="\b\nExample: treeopt generate --model DIR --prompts questions.jsonl --template chat"
)
@model_options
@answer_options
@batch_size_option
@click.option("--fresh", is_flag=True, help="Start over: forget the answers that the run has.")
@json_option
def command(source: ModelOptions, requested: Requested, batch_size: int, fresh: bool, as_json: bool) -> None:
    """Let the model answer the prompts: the text that calibration and training use.

    Writes generations.jsonl. Answers that are there are kept, so an interrupted run goes on where it stopped.
    """
    from dataclasses import asdict
    from statistics import mean

    from treeopt.cli.decoding import resolve
    from treeopt.cli.session import Session
    from treeopt.cli.stages.generate import discard_generations, ensure_generations, require_own
    from treeopt.measure.generations import read_provenance

    session = Session(source)
    if fresh:
        require_own(session)
        discard_generations(source.run)
    decoding = resolve(requested, source)
    answers = ensure_generations(session, decoding, batch_size=batch_size, required=True)
    provenance = read_provenance(source.run.generations)
    content = {
        "kind": "generations",
        "generations": [asdict(answer) for answer in answers],
        "provenance": provenance,
    }
    ended = sum(answer.ended == "eos" for answer in answers)
    following = "calibrate" if source.heads_path() else "train medusa1"
    show(
        as_json,
        content,
        lambda: (
            f"{source.run.generations}: {len(answers)} answers of {mean(len(a.answer_ids) for a in answers):.1f}"
            f" tokens on average, {ended} of them to their end"
        ),
        next_command(following, source.run, {"asked": source.asked()}),
    )
