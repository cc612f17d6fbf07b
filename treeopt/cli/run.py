"""The run directory: where the artifacts of one model lie, and with which settings its answers were made."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeopt.errors import InputError

DEMO = Path(__file__).parents[1] / "demo"
RESULTS = Path("results")
ASKED = ("model", "heads", "adapter", "device", "dtype")
MODEL_COMMANDS = ("generate", "calibrate", "profile", "evaluate", "train medusa1", "optimize")


class RunDirectory:
    """A directory and the paths of the artifacts in it; nothing need exist yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.generations = directory / "generations.jsonl"
        self.ranks = directory / "ranks.safetensors"
        self.partial_ranks = directory / "ranks.partial.safetensors"
        self.accuracy = directory / "accuracy.csv"
        self.passes = directory / "passes.safetensors"
        self.growth = directory / "growth.json"
        self.typical_growth = directory / "growth-typical.json"
        self.latency = directory / "latency.json"
        self.choice = directory / "choice.json"
        self.evaluation = directory / "evaluation.json"
        self.report = directory / "report.html"
        self.heads = directory / "heads"
        self.adapter = directory / "adapter"

    def __str__(self) -> str:
        return str(self.directory)

    def has_heads(self) -> bool:
        """Whether `treeopt train` has left heads here."""
        return any(self.heads.glob("medusa_lm_head.*"))

    def has_adapter(self) -> bool:
        """Whether `treeopt train` has left a LoRA adapter here."""
        return (self.adapter / "adapter_config.json").is_file()

    @classmethod
    def of(cls, file: Path) -> "RunDirectory":
        """The run that a file is an artifact of, by its name; the demo's for any other file, and for its heads."""
        run = cls(file.parent)
        is_artifact = file in vars(run).values() and file != DEMO / "heads"
        return run if is_artifact else cls(default_directory(None))


def default_directory(model: str | None) -> Path:
    """results/demo, or results/<name of the model>."""
    if model is None:
        return RESULTS / "demo"
    path = Path(model).resolve() if Path(model).exists() else Path(model)
    return RESULTS / (path.stem if path.suffix == ".gguf" else path.name)


@dataclass(frozen=True)
class ModelOptions:
    """Which model, heads and adapter a command was asked to use; `config` is a shape for random weights."""

    run: RunDirectory
    model: str | None = None
    heads: Path | None = None
    adapter: Path | None = None
    device: str | None = None
    dtype: str = "float32"
    config: Path | None = None
    num_heads: int = 5

    @property
    def is_demo(self) -> bool:
        """Whether the bundled model is meant."""
        return self.model is None and self.config is None

    def heads_path(self) -> Path | None:
        """--heads, else those trained in the run, else the demo's for the demo; None for none."""
        if self.heads is not None:
            return self.heads
        if self.run.has_heads():
            return self.run.heads
        return DEMO / "heads" if self.is_demo else None

    def asked(self) -> dict[str, str]:
        """The options as typed: recorded in every artifact, so that the next command can be named in full."""
        dtype = None if self.dtype == "float32" else self.dtype
        typed = {
            "model": self.model,
            "heads": self.heads,
            "adapter": self.adapter,
            "device": self.device,
            "dtype": dtype,
        }
        return {name: str(value) for name, value in typed.items() if value is not None}


def require_writable(path: Path) -> None:
    """InputError, before any long work, where a file could not be written at its end."""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(f"{path}: cannot be written; choose another place")


def next_command(
    command: str, run: RunDirectory, provenance: Mapping[str, Any] | None = None, *extra: str
) -> str:
    """The line to type next, with the run in use and, for a command that loads the model, the model's options."""
    recorded = (provenance or {}).get("asked")
    recorded = recorded if isinstance(recorded, dict) else {}
    asked = {name: str(recorded[name]) for name in ASKED if name in recorded}
    words = ["treeopt", *command.split(), *extra]
    model = asked.get("model") if command in MODEL_COMMANDS else None
    if command in MODEL_COMMANDS:
        words += [word for name, value in asked.items() for word in (f"--{name}", value)]
    if command != "inspect" and run.directory != default_directory(model):
        words += ["--run", str(run)]
    return shlex.join(words)
