"""One stage of training in its own directory: refused where the directory is another run's, else resumed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from treeopt.artifact import read_json, write_json
from treeopt.errors import MismatchError
from treeopt.train.callbacks import Tally
from treeopt.train.data import Answers
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.processes import is_main_process
from treeopt.train.trainer import HeadTrainer, LoopSettings


def fit(
    module: HeadsOnBackbone,
    settings: LoopSettings,
    directory: Path,
    train: Answers,
    held_out: Answers,
    *,
    log: Path,
    stage: str,
    device: torch.device,
) -> None:
    """Train `module` in place, from the last checkpoint in `directory` where there is one.

    Ctrl-C ends it with KeyboardInterrupt behind the step under way, and the next call goes on from there. Errors:
    InputError when the loss is no number.
    """
    trainer = HeadTrainer(module, settings, directory, train, held_out, log=log, stage=stage, device=device)
    trainer.accelerator.wait_for_everyone()  # the first process may have to clear the directory
    last = last_checkpoint(directory)
    trainer.args.eval_on_start = len(held_out) > 0 and last is None
    with trainer.interrupts:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    if trainer.interrupts.seen:
        raise KeyboardInterrupt


def last_checkpoint(directory: Path) -> Path | None:
    """The newest whole checkpoint in a stage's directory, if there is one."""
    whole = [file.parent for file in directory.glob(f"checkpoint-*/{Tally.FILE}")]
    return max(whole, key=lambda checkpoint: int(checkpoint.name.split("-")[1]), default=None)


def claim(directory: Path, facts: dict[str, Any], *, overwrite: bool) -> None:
    """Note what a training directory is for.

    One that was begun for something else is cleared with `overwrite`, and otherwise refused with MismatchError.
    """
    path = directory / "run.json"
    facts = json.loads(json.dumps(facts))  # as they are read back
    if path.is_file():
        before = read_json(path, "training")
        changed = next(_changes(before, facts), None)
        if changed is None:
            return
        if not overwrite:
            raise MismatchError(
                f"{directory}: an unfinished run with {changed}; repeat its command to go on with it, or start anew"
                " with --overwrite"
            )
        if is_main_process():
            shutil.rmtree(directory)
    if is_main_process():
        write_json(path, facts, "training")


def _changes(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """What is not as it was, by name; dictionaries entry by entry."""
    if isinstance(before, dict) and isinstance(now, dict):
        for inner, value in now.items():
            yield from _changes(before.get(inner), value, f"{name} {inner}".strip())
    elif before != now:
        yield f"{name} {before!s:.60}, but this has {now!s:.60}"
