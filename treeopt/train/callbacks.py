"""What the training loop tells the outside: progress on stderr, a log of JSON lines, and a clean stop on Ctrl-C."""

import json
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from treeopt.artifact import append_line

UNTOLD = ("total_flos", "train_runtime", "train_samples_per_second", "train_steps_per_second")


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


class RecordsFile(TrainerCallback):
    """Appends each record to a file of JSON lines; after a resume, those past the checkpoint are dropped first."""

    def __init__(self, path: Path, stage: str) -> None:
        self._path, self._stage = path, stage

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Drop records of steps that are done again."""
        if not state.is_world_process_zero or not self._path.is_file():
            return
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not self._is_later(json.loads(line), state.global_step)]
        self._path.write_text("".join(kept), encoding="utf-8")

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
        return record.get("stage") == self._stage and record.get("step", -1) > step


class Interrupts(TrainerCallback):
    """The first Ctrl-C ends training behind the step under way, with a checkpoint; a second one ends it at once."""

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take over Ctrl-C, where Python lets this thread do so."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save and stop, if Ctrl-C was seen."""
        if self.seen:
            control.should_save = control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Give Ctrl-C back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            signal.signal(signal.SIGINT, self._before)
            raise KeyboardInterrupt
        self.seen = True
