"""Whether heads were trained on the very answers that are to say how good they are."""

import json
from collections.abc import Sequence
from pathlib import Path

from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.search.split import ALL, CALIBRATE, EVALUATE, half_of

TRAINED = "heads_trained_on"
"""In the provenance of ranks: the half of the answers that the heads were trained on."""


def trained_on(heads: Path, answers: Sequence[Generation], context_limit: int) -> str | None:
    """The half of `answers`, or "all", that heads were trained on by the log beside them; None for other answers."""
    from treeopt.train.data import split_answers
    from treeopt.train.states_file import answers_sha256

    log = (heads if heads.is_dir() else heads.parent) / "log.jsonl"
    try:
        with log.open(encoding="utf-8") as lines:
            facts = json.loads(next(lines, "null"))
        wanted = facts["answers_sha256"]
        shape = {"heads": facts["heads"], "held_out": facts["held_out"], "seed": facts["loop"]["seed"]}
        for half in (CALIBRATE, ALL, EVALUATE):
            part = [answer for answer in answers if half in (ALL, half_of(answer.id))]
            try:
                split = split_answers(part, context_limit=context_limit, **shape)
            except InputError:
                continue  # nothing to learn from in there
            if answers_sha256([*split.train, *split.held_out]) == wanted:
                return half
    except (OSError, ValueError, TypeError, KeyError):
        pass  # no log, or not of a training
    return None


def flattered(half: str | None) -> str | None:
    """What to warn of, where heads are judged on answers that they were trained on."""
    if half is None:
        return None
    named, rest = (
        ("these answers", "no half of them can judge")
        if half == ALL
        else (f"the {half} half of these answers", "that half flatters them")
    )
    return (
        f"the heads were trained on {named}, so {rest}; calibrate on other prompts: --prompts, another --run, and"
        " these heads with --heads"
    )
