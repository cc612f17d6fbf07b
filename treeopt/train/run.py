"""One stage of training in its own directory: refused where the directory is another run's, else resumed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open

from treeopt.artifact import read_json, write_json
from treeopt.errors import InputError, MismatchError
from treeopt.train.callbacks import Tally
from treeopt.train.data import Answers
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.processes import is_main_process, part
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
    InputError when the loss is no number, or a weight at the end.
    """
    trainer = HeadTrainer(module, settings, directory, train, held_out, log=log, stage=stage, device=device)
    trainer.accelerator.wait_for_everyone()  # the first process may have to clear the directory
    last = last_checkpoint(directory)
    trainer.args.eval_on_start = len(held_out) > 0 and last is None
    with trainer.interrupts:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
        step, judges = trainer.state.global_step, is_main_process() and len(held_out) > 0
        if judges and not trainer.interrupts.seen and not _is_judged(log, stage, step):
            trainer.evaluate()  # as a second Ctrl-C, or a crash, came behind the last step
    if trainer.interrupts.seen:
        part()
        raise KeyboardInterrupt
    if not all(bool(torch.isfinite(p).all()) for p in module.parameters() if p.requires_grad):
        raise InputError(f"step {step} left weights that are no finite numbers; lower --learning-rate")


def last_checkpoint(directory: Path) -> Path | None:
    """The newest whole checkpoint in a stage's directory, if there is one."""
    whole = filter(_is_whole, directory.glob("checkpoint-[0-9]*"))
    return max(whole, key=lambda checkpoint: int(checkpoint.name.split("-")[1]), default=None)


def _is_whole(checkpoint: Path) -> bool:
    """Whether its files are there and none was cut off, by a crash or a full disk."""
    try:
        for name in (Tally.FILE, "trainer_state.json"):
            json.loads((checkpoint / name).read_text())
        with safe_open(checkpoint / "model.safetensors", framework="pt"):
            pass
    except (OSError, ValueError, SafetensorError):
        return False
    return all(is_zipfile(checkpoint / name) for name in ("optimizer.pt", "scheduler.pt"))


def _is_judged(log: Path, stage: str, step: int) -> bool:
    """Whether the log has held-out numbers of this step."""
    records = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return any((r.get("stage"), r.get("step")) == (stage, step) and "held_out_loss" in r for r in records)


def claim(directory: Path, facts: dict[str, Any], *, overwrite: bool) -> None:
    """Note what a training directory is for.

    One that was begun for something else is cleared with `overwrite`, and otherwise refused with MismatchError.
    """
    path = directory / "run.json"
    facts = json.loads(json.dumps(facts))  # as they are read back
    if path.is_file():
        try:
            before = read_json(path, "training")
        except InputError:
            if not overwrite:
                raise
            before = {}
        changed = next(_changes(before, facts), None)
        if changed is None:
            return
        if not overwrite:
            raise MismatchError(
                f"{directory}: an unfinished run with {changed}; repeat its command to go on with it, or start anew"
                " with --overwrite"
            )
    if is_main_process():
        if overwrite and directory.is_dir():
            shutil.rmtree(directory)
        write_json(path, facts, "training")


def _changes(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """What is not as it was, by name; dictionaries entry by entry."""
    if isinstance(before, dict) and isinstance(now, dict):
        for inner, value in now.items():
            yield from _changes(before.get(inner), value, f"{name} {inner}".strip())
    elif before != now:
        yield f"{name} {before!s:.60}, but this has {now!s:.60}"
