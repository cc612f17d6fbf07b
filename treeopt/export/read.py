"""Trees out of any file that holds some: every export format, lists by hand, and treeopt's artifacts."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from treeopt.artifact import read_json
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.listing import Listing
from treeopt.tree import Tree

EVERY = "all"
"""The name that stands for all trees of a file, unless one is called that."""


def parse_tree_option(option: str) -> tuple[str, Tree]:
    """Read FILE or FILE:NAME as a label and its one tree.

    NAME is a tree's name where the file holds several, or the size N of a growth. The label is the tree's
    name, else the file's. InputError lists the names where one is needed or is not there.
    """
    file, colon, name = option.rpartition(":")
    if not colon or not name or Path(option).exists():
        file, name = option, ""
    trees = read_trees(file, name or None)
    if len(trees) > 1:
        raise InputError(f"{file}: holds several trees; name one as {file}:NAME, NAME of {', '.join(trees)}")
    return next(iter(trees.items()))


def parse_trees_option(option: str) -> dict[str, Tree]:
    """`parse_tree_option`, where FILE:all is every tree of a file, and every size of a growth."""
    file, colon, name = option.rpartition(":")
    if name == EVERY and colon and not Path(option).exists():
        return read_trees(file, EVERY)
    return dict([parse_tree_option(option)])


def read_trees(path: str | Path, name: str | None = None) -> dict[str, Tree]:
    """All trees of a file by name, or the one called `name`; a tree without a name goes by the file's stem.

    Takes every format of FORMATS, a plain list of paths, the old dense form `[1, 7, 6]`, `{"trees": {NAME: paths}}`,
    and the artifacts growth.json (`name` is a size N, without it the whole growth), choice.json and evaluation.json.
    The name `all` is every tree there, and every size of a growth.
    Nothing in a file is ever executed. InputError, one line, for anything else.
    """
    return {found: listing.tree() for found, listing in read_listings(path, name).items()}


def read_listings(path: str | Path, name: str | None = None) -> dict[str, Listing]:
    """As `read_trees`, but the choices as they are listed, be they a tree or not."""
    found: dict[str, Listing] | None = None
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        _require_each_once(text, str(path))
        for format in FORMATS.values():
            found = found or format.read(text, str(path))
        if not found and text.lstrip().startswith("{"):
            found = _of_object(path, name)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: not a file of trees ({type(error).__name__}); {_TAKES}") from error
    if not found:
        raise InputError(f"{path}: holds no tree; {_TAKES}")
    named = {label or Path(path).stem: listing for label, listing in found.items()}
    if name is None or (name == EVERY and name not in named):
        return named
    if name not in named:
        raise InputError(f"{path}: has no tree {name!r}; it has {', '.join(named)}")
    return {name: named[name]}


def _require_each_once(text: str, where: str) -> None:
    """InputError where an object of JSON has a field twice: readers would silently take one of the two."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        [(name, times)] = Counter(name for name, _ in pairs).most_common(1) or [("", 0)]
        if times > 1:
            raise InputError(f"{where}: has {name!a:.40} {times} times in one object; leave one")
        return dict(pairs)

    if text.lstrip().startswith("{"):
        with suppress(ValueError):  # other text, for other readers
            json.loads(text, object_pairs_hook=fields)


_TAKES = "give a list of paths such as [[0], [1], [0, 0]], a runtime's file, or an artifact of treeopt"


def _of_object(path: str | Path, name: str | None) -> dict[str, Listing] | None:
    """The choices of an artifact, told by its fields; None where it has none of them."""
    content, where = read_json(path), str(path)
    if "trees" in content:
        if not isinstance(content["trees"], dict):
            raise InputError(f"{where}: trees is not an object of NAME: paths; write it as one")
        return {
            key: _listing(choices, f"{where} tree {key!a:.40}") for key, choices in content["trees"].items()
        }
    if "nodes" in content:
        return _of_growth(content["nodes"], where, name)
    if "points" in content:
        points = _objects(content["points"], where, "points")
        return {
            f"batch{point.get('batch')}-context{point.get('context')}": _counted(point, where)
            for point in points
        }
    if "runs" in content:
        runs = _objects(content["runs"], where, "runs")
        return {str(run.get("name")): _counted(run, where) for run in runs if run.get("choices")}
    return {"": _counted(content, where)} if "choices" in content else None


def _of_growth(nodes: Any, where: str, size: str | None) -> dict[str, Listing]:
    """The tree of N = `size` nodes, the root among them, or of all; the root itself need not be listed."""
    paths = [node.get("path") for node in _objects(nodes, where, "nodes")]
    paths = [path for path in paths if path != []]
    if size is None:
        return {"": Listing(paths, where)}
    largest = len(paths) + 1
    if size == EVERY:
        return {str(n): Listing(paths[: n - 1], where) for n in range(1, largest + 1)}
    if not size.isdecimal() or not 1 <= int(size) <= largest:
        raise InputError(f"{where}: no tree {size!r}; a growth's trees go by size, 1 to {largest}")
    return {size: Listing(paths[: int(size) - 1], where)}


def _counted(entry: Mapping[str, Any], where: str) -> Listing:
    """Choices beside their number of tokens, where an artifact tells it: InputError where the two contradict."""
    choices, tokens = entry.get("choices"), entry.get("tokens")
    counted = 1 + len(choices or []) if isinstance(choices, list | None) else tokens
    if tokens not in (None, counted):
        raise InputError(
            f"{where}: tokens is {tokens!r:.40}, but the root and its choices are {counted}; make the file again"
        )
    return _listing(choices, where)


def _listing(choices: Any, where: str) -> Listing:
    """Choices out of an artifact, where null is "no tree": plain decoding."""
    return Listing([] if choices is None else choices, where)


def _objects(value: Any, where: str, field: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{where}: {field} is not a list of objects; make the file again")
    return value
