"""Heads trained on the run's own answers."""

import json
from pathlib import Path
from typing import Any

from treeopt.artifact import require_match
from treeopt.cli.decoding import Decoding
from treeopt.cli.run import require_writable
from treeopt.cli.session import Session
from treeopt.cli.stages.generate import ensure_generations
from treeopt.errors import InputError
from treeopt.measure.generations import read_generations, read_provenance
from treeopt.model.checkpoints import save_heads
from treeopt.search.split import ALL, half_of
from treeopt.train.medusa1 import Medusa1Settings, train_medusa1


def train_heads(
    session: Session,
    decoding: Decoding,
    settings: Medusa1Settings,
    output: Path,
    *,
    generations: Path | None = None,
    split: str = "calibrate",
    overwrite: bool = False,
) -> Path:
    """Train Medusa-1 heads and write them with their log; the weights' file.

    Learns from one half of the run's answers, made first where there are none, or of the file `generations`.
    InputError when there are heads already, unless `overwrite`; they are replaced only by whole new ones.
    """
    if any(output.glob("medusa_lm_head.*")) and not overwrite:
        raise InputError(f"{output}: holds heads already; name another --output, or --overwrite them")
    log = output / "log.partial.jsonl"
    require_writable(log)
    backbone = session.backbone
    if generations is None:
        answers = [a for a in ensure_generations(session, decoding) if split in (ALL, half_of(a.id))]
    else:
        require_match(str(generations), read_provenance(generations), "the model", session.facts(heads=False))
        answers = read_generations(
            generations, vocabulary=backbone.vocabulary, end_tokens=backbone.end_tokens, split=split
        )
    if not answers:
        raise InputError(f"no answer is in the {split} half of the prompts; add prompts, or take --split all")
    log.unlink(missing_ok=True)
    heads = train_medusa1(backbone, answers, settings, log)
    file = save_heads(output, heads, base_model=session.source.model or backbone.name)
    log.replace(output / "log.jsonl")
    return file


def log_records(directory: Path) -> list[dict[str, Any]]:
    """The settings and the epochs that the log beside trained heads tells of."""
    lines = (directory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
