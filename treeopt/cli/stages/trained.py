"""Whether heads were trained on answers to the very prompts that are to say how good they are."""

import json
from collections.abc import Sequence
from pathlib import Path

from treeopt.measure.generations import Generation
from treeopt.search.split import ALL, CALIBRATE, EVALUATE, half_of

TRAINED = "heads_trained_on"
"""In the provenance of ranks: the half of the prompts that the heads were trained on."""


def trained_on(heads: Path, answers: Sequence[Generation]) -> str | None:
    """The half of the prompts of `answers`, or "all", that heads were trained on; None for other prompts.

    The log of the training tells, beside the heads or, of Medusa-2, beside their directory.
    """
    from treeopt.train.data import prompts_sha256

    directory = heads if heads.is_dir() else heads.parent
    known = {_prompts(directory / "log.jsonl"), _prompts(directory.parent / "log.jsonl")} - {None}
    for half in (CALIBRATE, ALL, EVALUATE) if known else ():
        part = [answer for answer in answers if half in (ALL, half_of(answer.id))]
        if part and prompts_sha256(part) in known:
            return half
    return None


def _prompts(log: Path) -> str | None:
    """What the log of a training says of its prompts; None where there is none, or it does not say."""
    try:
        with log.open(encoding="utf-8") as lines:
            told = json.loads(next(lines, "null"))["prompts_sha256"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return told if isinstance(told, str) else None


def flattered(half: str | None) -> str | None:
    """What to warn of, where heads are judged on prompts that they were trained on."""
    if half is None:
        return None
    named, rest = (
        ("these prompts", "no half of them can judge")
        if half == ALL
        else (f"the {half} half of these prompts", "that half flatters them")
    )
    return (
        f"the heads were trained on {named}, so {rest}; calibrate on other prompts: --prompts, another --run, and"
        " these heads with --heads"
    )
