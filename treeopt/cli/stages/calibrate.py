"""Ranks of the run's answers, and what they say about heads and text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treeopt.artifact import require_match, sha256_file
from treeopt.cli.decoding import Decoding
from treeopt.cli.output import note, warn
from treeopt.cli.run import require_writable
from treeopt.cli.session import Session
from treeopt.cli.stages.generate import ensure_generations
from treeopt.cli.stages.trained import TRAINED, flattered, trained_on
from treeopt.measure.calibrate import calibrate
from treeopt.measure.generations import Generation, read_provenance
from treeopt.measure.repetition import looping, repetition
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.ranks import UNKNOWN, RankTable

SETTINGS = (
    "template",
    "max_new_tokens",
    "acceptance",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "prompt_file",
    "prompts_sha256",
)
SAME = ("model_sha256", "heads_sha256", "generations_sha256", "dtype")


def ensure_ranks(
    session: Session,
    decoding: Decoding,
    *,
    width: int,
    split: str,
    batch_size: int = 16,
    keep: bool = False,
    probabilities: bool = False,
) -> tuple[RankTable, list[Generation]]:
    """The run's rank table and the answers it is of; with `keep`, one that is still right is not made again.

    Writes ranks.safetensors, and accuracy.csv for one half of the prompts.
    """
    require_writable(session.run.ranks)
    run, heads = session.run, session.heads  # heads first: without them there is nothing to answer for
    answers = ensure_generations(session, decoding, batch_size=batch_size)
    made = read_provenance(run.generations)
    require_match(str(run.generations), made, "the model", session.facts())
    trained = trained_on(session.heads_path(), answers)
    if text := flattered(trained):
        warn(text)
    origin = {name: made.get(name) for name in SETTINGS} | {
        "generations_sha256": sha256_file(run.generations)
    }
    if keep and run.ranks.is_file():
        table = RankTable.load(run.ranks)
        if table.width == width and not changed(table.provenance, session.facts() | origin, SAME):
            note(f"calibrate: {run.ranks} is kept, it is of this model, these heads and these answers")
            return table, answers
    table = calibrate(
        session.backbone,
        heads,
        answers,
        width=width,
        probabilities=probabilities,
        partial=run.partial_ranks,
        **origin,
        **({TRAINED: trained} if trained else {}),
        **session.versions(),
    )
    half = table.split(split).accuracy()
    table.save(run.ranks)
    half.write_csv(run.accuracy)
    return table, answers


def changed(made: dict[str, Any], wanted: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Those of `names` in which two provenances differ; one that both lack does not."""
    return [name for name in names if made.get(name) != wanted.get(name)]


def top(table: RankTable, guesses: int) -> AccuracyTable:
    """How often the truth is among the first guesses, a column [K, 1], with intervals by prompt."""
    missed = np.where(table.ranks == UNKNOWN, UNKNOWN, table.ranks >= guesses)
    return replace(table, ranks=missed.astype(np.int16), width=1, probabilities=None).accuracy()


def summary(table: RankTable, answers: Sequence[Generation]) -> dict[str, Any]:
    """What calibration found, for JSON: accuracies of one half, heads with few trials, and repetition."""
    accuracy, first, five = table.accuracy(), top(table, 1), top(table, 5)
    few = accuracy.few_trials()
    if few:
        warn(f"few trials for head {', '.join(map(str, few))}: less than 200 positions; add prompts")
    repeated = repetition(answers)
    if text := looping(repeated):
        warn(text)
    heads = [
        {"head": k + 1, "trials": int(table.trials()[k]), "top1": _cell(first, k), "top5": _cell(five, k)}
        for k in range(table.heads)
    ]
    return {
        "kind": "calibration",
        "answers": len(table.ids),
        "positions": table.positions,
        "heads": heads,
        "few_trials": few,
        "repetition": repeated,
        "accuracy": accuracy.values,
        "provenance": table.provenance,
    }


def _cell(accuracy: AccuracyTable, head: int) -> dict[str, float]:
    assert accuracy.low is not None and accuracy.high is not None
    columns = {"value": accuracy.values, "low": accuracy.low, "high": accuracy.high}
    return {name: float(column[head, 0]) for name, column in columns.items()}
