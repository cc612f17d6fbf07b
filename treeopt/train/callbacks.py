"""What stands around the training loop: progress on stderr, a log of JSON lines, and a clean stop on Ctrl-C."""

import json
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
from accelerate.utils import reduce  # type: ignore[import-untyped]
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from treeopt.artifact import append_line, write_text
from treeopt.train.processes import world_size

UNTOLD = ("loss", "total_flos", "train_runtime", "train_samples_per_second", "train_steps_per_second")


class Progress(TrainerCallback):
    """A tqdm bar of steps, on stderr."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Open the bar."""
        if state.is_world_process_zero:
            self._bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc=self._name, unit="step", disable=None
            )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Move it."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Close it."""
        if self._bar is not None:
            self._bar.close()


class Tally(TrainerCallback):
    """Losses summed up since the last record, and the truths they are of: `sums` [2, K + 1], of this process.

    Each checkpoint has them, so that a resumed run logs what an uninterrupted one does. They are the last file of a
    checkpoint: one without it is not whole.
    """

    FILE = "tally.json"

    def __init__(self, heads: int) -> None:
        self.sums = torch.zeros(2, heads + 1, dtype=torch.float64)

    def add(self, losses: torch.Tensor, truths: torch.Tensor) -> None:
        """Add those of a batch, each [K + 1]."""
        self.sums += torch.stack([losses, truths]).double().cpu()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take up those of all processes, in the first one."""
        if state.is_world_process_zero and state.global_step > 0:
            self.sums.copy_(torch.tensor(json.loads(self._file(args, state).read_text())))

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Finish the checkpoint."""
        sums = reduce(self.sums.to(args.device), "sum")
        if state.is_world_process_zero:
            write_text(self._file(args, state), json.dumps(sums.tolist()))

    def _file(self, args: TrainingArguments, state: TrainerState) -> Path:
        return Path(str(args.output_dir), f"checkpoint-{state.global_step}", self.FILE)


class RecordsFile(TrainerCallback):
    """Appends each record to a file of JSON lines; after a resume, those past the checkpoint are dropped first."""

    def __init__(self, path: Path, stage: str) -> None:
        self._path, self._stage = path, stage

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Drop records of steps that are done again, and what a crash left of a line."""
        if not state.is_world_process_zero or not self._path.is_file():
            return
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        kept = [line for line in whole if not self._is_later(json.loads(line), state.global_step)]
        write_text(self._path, "".join(kept))

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Append a record."""
        told = {name: value for name, value in kwargs["logs"].items() if name not in UNTOLD}
        if "train_loss" in told and not isinstance(told["train_loss"], list):
            return  # transformers' closing summary
        if state.is_world_process_zero:
            append_line(self._path, {"stage": self._stage, "step": state.global_step, **told})

    def _is_later(self, record: dict[str, Any], step: int) -> bool:
        """Whether a record is of this stage and behind the step; behind step 0, where all begins, are all."""
        return record.get("stage") == self._stage and (step == 0 or record["step"] > step)


class Interrupts(TrainerCallback):
    """The first Ctrl-C ends training behind the step under way, with a checkpoint; a second one ends it at once.

    Several processes end behind the same step, whichever of them was told; as `torchrun` passes Ctrl-C on to those
    that have it from the terminal, a second one says nothing there. To be used as a context manager.
    """

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Take over Ctrl-C, where Python lets this thread do so and it is not to be ignored."""
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        """Give Ctrl-C back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save and stop, if Ctrl-C was seen."""
        self.seen = bool(reduce(torch.tensor(float(self.seen), device=args.device), "sum"))
        if self.seen:
            control.should_save = control.should_training_stop = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """An epoch that was broken off is not judged."""
        if self.seen and state.global_step < state.max_steps and (state.epoch or 0) % 1:
            control.should_evaluate = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.seen and world_size() == 1:
            raise KeyboardInterrupt
        self.seen = True
