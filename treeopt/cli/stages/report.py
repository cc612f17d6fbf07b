"""A run directory into its report: what it holds is loaded, and what is wrong with it becomes a warning."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from treeopt.artifact import sha256_file, write_text
from treeopt.cli.run import RunDirectory, next_command
from treeopt.cli.stages.trained import TRAINED, flattered
from treeopt.errors import InputError, TreeoptError
from treeopt.export import FORMATS
from treeopt.export.format import Format
from treeopt.export.read import read_trees
from treeopt.measure.generations import read_generations, read_provenance
from treeopt.measure.repetition import looping, repetition
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.accuracy_files import read_accuracy
from treeopt.search.choice import Choice, read_choice
from treeopt.search.evaluation import read_evaluation
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable
from treeopt.search.split import CALIBRATE, half_of
from treeopt.view.report import Contents, Export, Made, draw_figures, page
from treeopt.view.report.cautions import cautions
from treeopt.view.training import training_info

Loaded = TypeVar("Loaded")
OPTIONS: dict[str, dict[str, Any]] = {
    "generate": {
        "prompts": None,
        "template": None,
        "turns": None,
        "max_new_tokens": None,
        "temperature": None,
        "top_p": 1.0,
        "top_k": 0,
        "seed": 0,
    },
    "grow": {
        "budget": None,
        "estimator": "independent",
        "on_policy": False,
        "contiguous": False,
        "max_depth": None,
        "max_rank": None,
    },
    "profile": {"repeats": 30},
}
"""By command, the options that the provenance of what it makes tells; those that have one default, with it."""


@dataclass(frozen=True)
class Report:
    """The page, the figures beside it, and the warnings in it."""

    file: Path
    figures: list[Path]
    warnings: list[str]


def make_report(run: RunDirectory, output: Path | None = None) -> Report:
    """Write the report of a run and its figures; InputError where the run holds nothing to report."""
    contents = load_contents(run)
    drawings = draw_figures(contents)
    file = output or run.report
    figures = [file.parent / "figures" / f"{name}.svg" for name in drawings]
    for path, drawing in zip(figures, drawings.values(), strict=True):
        write_text(path, drawing.svg.decode())
    write_text(file, page(contents, drawings))
    return Report(file, figures, cautions(contents))


def load_contents(run: RunDirectory) -> Contents:
    """All artifacts of a run. One that cannot be read counts as absent, and why is `found`."""
    loader = _Loader(run)
    answers = loader.load(run.generations, read_generations, "generate", read_provenance)
    ranks = loader.load(run.ranks, read_ranks, "calibrate", _own)
    growth = loader.load(run.growth, Growth.read, "grow", _own)
    latency = loader.load(run.latency, LatencyProfile.read, "profile", _own)
    choices = loader.load(run.choice, read_choice, "choose", lambda found: found[0].provenance) or []
    evaluation = loader.load(run.evaluation, read_evaluation, "evaluate", lambda found: found["provenance"])
    heads = ranks.heads if ranks is not None else None
    exports = [
        export
        for format in FORMATS.values()
        if (export := loader.load(run.directory / format.file_name, partial(_export, format, heads)))
    ]
    training = loader.load(run.heads / "log.jsonl", _training) or []
    accuracy = _accuracy(run, ranks, loader)
    if not (loader.made or exports or training or accuracy or loader.found):
        raise InputError(f"{run}: nothing to report; `treeopt optimize` makes a run, --run names another")
    repeated = repetition(answers or [])
    trained = flattered(ranks.provenance.get(TRAINED)) if ranks is not None else None
    return Contents(
        name=str(
            next(
                (made.provenance["model"] for made in loader.made.values() if "model" in made.provenance), run
            )
        ),
        directory=str(run),
        accuracy=accuracy,
        ranks=ranks,
        growth=growth,
        latency=latency,
        choices=tuple(choices),
        evaluation=evaluation,
        training=tuple(training),
        exports=tuple(exports),
        repetition=repeated,
        made=loader.made,
        export_command=_export_command(run, choices),
        found=tuple(filter(None, [*loader.found, trained, looping(repeated)])),
    )


class _Loader:
    """Reads files that may be absent or broken; keeps where each comes from (`made`) and what is wrong (`found`)."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.made: dict[str, Made] = {}
        self.found: list[str] = []

    def load(
        self,
        path: Path,
        read: Callable[[Path], Loaded],
        command: str | None = None,
        origin: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> Loaded | None:
        """What `read` makes of the file, None without one; `origin` gives its provenance, `command` makes it."""
        if not path.is_file():
            return None
        try:
            loaded = read(path)
            if command is not None and origin is not None:
                provenance = origin(path if command == "generate" else loaded)
                maker = _maker(command, loaded)
                line = next_command(maker, self.run, provenance, *_words(maker, provenance))
                self.made[path.name] = Made(path.name, sha256_file(path), provenance, line)
        except TreeoptError as error:
            self.found.append(str(error))
            return None
        return loaded


def _own(loaded: Any) -> Mapping[str, Any]:
    provenance: Mapping[str, Any] = loaded.provenance
    return provenance


def _maker(command: str, loaded: Any) -> str:
    return "simulate" if command == "profile" and loaded.simulated else command


def _words(command: str, provenance: Mapping[str, Any]) -> list[str]:
    """The options that the provenance of a command's artifact tells, but for those at their defaults."""
    words = []
    for name, default in OPTIONS.get(command, {}).items():
        value = provenance.get("prompt_file" if name == "prompts" else name)
        if value is not None and value != default:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _accuracy(run: RunDirectory, ranks: RankTable | None, loader: _Loader) -> AccuracyTable | None:
    """Of the half of the ranks that trees are grown on, else the table that lies there."""
    if ranks is not None and any(half_of(name) == CALIBRATE for name in ranks.ids):
        return ranks.split(CALIBRATE).accuracy()
    return loader.load(run.accuracy, read_accuracy)


def _training(path: Path) -> list[dict[str, Any]]:
    """The records of a training log that can be drawn; InputError for anything else."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        training_info(records)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: not a training log ({error}); `treeopt train` makes this file") from error
    return records


def _export_command(run: RunDirectory, choices: Sequence[Choice]) -> str:
    """What writes the first choice as a file, named where there are several."""
    named = [f"{run.choice}:batch{c.batch}-context{c.context}" for c in choices[:1] if len(choices) > 1]
    return next_command("export", run, None, "--format", "json", *(("--tree", *named) if named else ()))


def _export(format: Format, heads: int | None, path: Path) -> Export:
    tree = next(iter(read_trees(path).values()))
    return Export(
        runtime=format.name,
        versions=format.versions,
        description=format.description,
        file=path.name,
        command=format.command_line(str(path), tree, heads),
        text=path.read_text(encoding="utf-8-sig"),
        tree=tree,
    )
