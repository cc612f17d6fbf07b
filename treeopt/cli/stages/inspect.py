"""What is in a file: a tree, several trees, or an artifact."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from treeopt.artifact import load_arrays, load_json
from treeopt.cli.tables import choice_text, growth_drawing, growth_text, latency_text, passes_text
from treeopt.errors import InputError
from treeopt.export.read import parse_tree_option, read_trees
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.accuracy_files import read_accuracy, split_name
from treeopt.search.choice import read_choice
from treeopt.search.coverage import PassTable
from treeopt.search.evaluation import read_evaluation
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.rank_files import read_ranks
from treeopt.tree import Path as TreePath
from treeopt.tree import Tree
from treeopt.view.tables import accuracy_table, runs_text, table
from treeopt.view.tree import draw

PROMPTS = "prompts"


@dataclass(frozen=True)
class Seen:
    """What a file holds: `content` for JSON, `text`, and the words of the command to type next."""

    content: Any
    text: str
    following: tuple[str, ...]


def inspect(source: str, accuracy: str | None = None, *, cumulative: bool = False) -> Seen:
    """The content of FILE or FILE:NAME. `accuracy` names a table that gives a tree's nodes their values."""
    path, name = split_name(source)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name a file in it")
    kinds = {".safetensors": _arrays, ".npz": _ranks, ".jsonl": _lines, ".csv": _csv}
    if path.name.lower().endswith(".jsonl.gz"):
        return _generations(path)
    if (path.suffix.lower() == ".csv" and cumulative) or (accuracy is None and _is_accuracy(path)):
        return _accuracy(source, cumulative=cumulative)
    if cumulative and accuracy is None:
        raise InputError(
            f"--cumulative is about a table of accuracies, but {path} is none; name one by --accuracy"
        )
    if path.suffix.lower() in kinds:
        return kinds[path.suffix.lower()](path)
    values = read_accuracy(accuracy, cumulative=cumulative) if accuracy else None
    kind = None if name or values else _kind(path)
    if kind == PROMPTS:
        return _prompts(path)
    if kind in _ARTIFACTS:
        describe, following = _ARTIFACTS[kind]
        return Seen(load_json(path), describe(path), following)
    trees = read_trees(path, name)
    content = {"trees": {found: tree.choices for found, tree in trees.items()}}
    if len(trees) > 1:
        rows = [[found, tree.size, tree.depth, tree.max_rank] for found, tree in trees.items()]
        listed = table(["tree", "N", "depth", "highest rank"], rows)
        return Seen(content, listed, ("inspect", f"{path}:{next(iter(trees))}"))
    _, tree = parse_tree_option(source)
    return Seen(content, draw(tree, _values(tree, path, values)), ("replay", "--tree", source))


def _values(tree: Tree, path: Path, accuracy: AccuracyTable | None) -> Mapping[TreePath, float] | None:
    """The value of each node, by a table of accuracies, else by a growth: the file itself, or one beside it."""
    if accuracy is not None:
        known = accuracy.values
        return {
            node: float(np.prod([known[head, rank] for head, rank in enumerate(node)]))
            for node in tree.choices
            if len(node) <= accuracy.heads and max(node) < accuracy.width
        }
    growth = path if _kind(path) == "growth" else path.with_name("growth.json")
    if not growth.is_file():
        return None
    grown = Growth.read(growth)
    return dict(zip(grown.paths, grown.values, strict=True))


def _kind(path: Path) -> str | None:
    """The kind of artifact, where the file is one; PROMPTS for a list of objects."""
    if path.suffix.lower() != ".json":
        return None
    content = load_json(path)
    if isinstance(content, list) and any(isinstance(entry, dict) for entry in content):
        return PROMPTS
    return str(content.get("kind")) if isinstance(content, dict) else None


def _arrays(path: Path) -> Seen:
    """Ranks, or passes of typical acceptance."""
    if load_arrays(path)[1].get("kind") != "passes":
        return _ranks(path)
    content = PassTable.load(path).summary()
    return Seen(content, passes_text(content), ("grow", "--passes", str(path)))


def _ranks(path: Path) -> Seen:
    ranks = read_ranks(path)
    ended, categories = Counter(ranks.ended), Counter(ranks.categories)
    content = {
        "answers": len(ranks.ids),
        "positions": ranks.positions,
        "heads": ranks.heads,
        "width": ranks.width,
        "ended": dict(ended),
        "categories": dict(categories),
        "provenance": ranks.provenance,
    }
    first = (
        f"{ranks.positions:,} positions of {len(ranks.ids)} answers, {ranks.heads} heads, ranks below {ranks.width}; "
        f"ended: {_counts(ended)}; categories: {_counts(categories)}"
    )
    return Seen(content, f"{first}\n\n{accuracy_table(ranks.accuracy())}", ("grow", "--ranks", str(path)))


def _lines(path: Path) -> Seen:
    """Answers, or prompts."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            answers = '"answer_ids"' in file.readline()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return _generations(path) if answers else _prompts(path)


def _prompts(path: Path) -> Seen:
    """How many of each category, and every row that was skipped or repaired."""
    from treeopt.measure.prompts import read_prompts

    file = read_prompts(path)
    categories = Counter(prompt.category for prompt in file.prompts)
    content = {
        "prompts": len(file.prompts),
        "categories": dict(categories),
        "skipped": file.skipped,
        "repaired": file.repaired,
    }
    lines = [f"{len(file.prompts)} prompts; categories: {_counts(categories)}"]
    for done, notes in (("skipped", file.skipped), ("repaired", file.repaired)):
        lines += [f"\n{len(notes)} {done}:", *(f"  {note}" for note in notes)] if notes else []
    return Seen(content, "\n".join(lines), ("generate", "--prompts", str(path)))


def _generations(path: Path) -> Seen:
    from treeopt.measure.generations import read_generations, read_provenance

    answers = read_generations(path)
    lengths = [len(answer.answer_ids) for answer in answers]
    ended = Counter(answer.ended for answer in answers)
    content = {
        "answers": len(answers),
        "tokens": sum(lengths),
        "ended": dict(ended),
        "provenance": read_provenance(path),
    }
    text = (
        f"{len(answers)} answers of {mean(lengths):.1f} tokens on average, {sum(lengths):,} in all;"
        f" ended: {_counts(ended)}"
    )
    return Seen(content, text, ("calibrate",))


def _csv(path: Path) -> Seen:
    """Accuracies, ranks or latencies, told by the header."""
    try:
        header = path.read_text(encoding="utf-8-sig").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if "latency_ms" in header:
        profile = LatencyProfile.from_csv(path)
        samples = {"samples": profile.samples.to_dict("records")}
        return Seen(samples, latency_text(profile), ("choose", "--latency", str(path)))
    if "rank_1" in header:
        return _ranks(path)
    return _accuracy(str(path))


def _is_accuracy(path: Path) -> bool:
    """Whether a JSON file holds what `--accuracy` takes: a matrix of fractions, alone or by its field's name."""
    if path.suffix.lower() != ".json":
        return False
    content = load_json(path)
    if isinstance(content, dict):
        return "kind" not in content and bool({"accuracy", "topk_accuracy"} & content.keys())
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, list) and any(isinstance(entry, float) for entry in first)


def _accuracy(source: str, *, cumulative: bool = False) -> Seen:
    table = read_accuracy(source, cumulative=cumulative)
    how = ("--cumulative",) if cumulative else ()
    return Seen({"accuracy": table.values}, accuracy_table(table), ("grow", "--accuracy", source, *how))


def _growth(path: Path) -> str:
    growth = Growth.read(path)
    return "\n\n".join(filter(None, [growth_drawing(growth), growth_text(growth), growth.stopped]))


def _choice(path: Path) -> str:
    choices = read_choice(path)
    drawn = [draw(choice.tree, _values(choice.tree, path, None)) for choice in choices]
    return "\n\n".join([choice_text(choices), *drawn])


_ARTIFACTS: dict[str | None, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "growth": (_growth, ("choose",)),
    "choice": (_choice, ("export", "--format", "json")),
    "latency": (lambda path: latency_text(LatencyProfile.read(path)), ("choose",)),
    "evaluation": (
        lambda path: runs_text(read_evaluation(path)["runs"]),
        ("export", "--format", "json"),
    ),
}


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.items())
