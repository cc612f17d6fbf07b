"""Trees that a command is given with --tree, or finds in the run's choice."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from treeopt.artifact import read_json, require_match
from treeopt.cli.run import RunDirectory
from treeopt.export.read import EVERY, parse_trees_option, read_trees
from treeopt.search.accuracy_files import split_name
from treeopt.search.choice import read_choice
from treeopt.tree import Tree

RESERVED = ("plain", "hf_generate")
"""Names of runs that are no trees."""


def given_trees(options: Sequence[str], run: RunDirectory) -> dict[str, Tree]:
    """The trees by name: those of the options, else those of the run's choice.

    A tree goes by its name, else by its file's; where that is taken, by the option as typed. The same tree in two
    settings of a choice is taken once.
    """
    trees: dict[str, Tree] = {}
    if not options:
        read_choice(run.choice)  # which says what makes it
        for name, tree in read_trees(run.choice).items():
            if tree not in trees.values():
                trees[name] = tree
        return trees
    for option in options:
        for name, tree in parse_trees_option(option).items():
            typed = f"{option.removesuffix(EVERY)}{name}" if option.endswith(f":{EVERY}") else option
            trees[typed if name in trees or name in RESERVED else name] = tree
    return trees


def require_own_choice(run: RunDirectory, name: str, provenance: Mapping[str, Any]) -> None:
    """MismatchError when the run's choice is not of the model and heads that it meets; a tree of --tree may be."""
    for choice in read_choice(run.choice):
        require_match(str(run.choice), choice.provenance, name, provenance)


def tree_provenance(option: str) -> dict[str, Any]:
    """What an artifact says about where its tree comes from; nothing for any other file."""
    path, name = split_name(option)
    if path.suffix != ".json" or not path.read_text(encoding="utf-8-sig").lstrip().startswith("{"):
        return {}
    content = read_json(path)
    for point in read_choice(path) if "points" in content else ():
        if name == f"batch{point.batch}-context{point.context}":
            content = asdict(point)
    setting: dict[str, Any] = {key: content[key] for key in ("batch", "context") if key in content}
    provenance = content.get("provenance")
    return setting | (provenance if isinstance(provenance, dict) else {})
