"""Choices as files list them, before they are a tree: JSON, Python and bare numbers, all data, nothing executed."""

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treeopt.artifact import format_json
from treeopt.errors import InputError
from treeopt.tree import Tree, chain, dense

INPUT_FACTS = (
    *("model", "model_sha256", "heads_sha256", "template", "temperature", "positions"),
    *("dtype", "device", "batch", "context", "fitted_to"),
)
"""Facts of a provenance that depend on the tree's inputs alone, and so may stand in an export."""

SIDECAR = ".meta.json"
LARGEST, LONGEST = 10_000, 64
"""Nodes and depth of a tree that a file may give by numbers alone: more is no tree to decode with."""

_LIST = re.compile(r"^[ \t]*(\w+[ \t]*=[ \t]*)?[\[(]", re.MULTILINE)
"""A line that starts as a list does, named or not: any other file is left to other formats."""


@dataclass(frozen=True)
class Listing:
    """What a file lists, unchecked, and its place in the file, for messages."""

    paths: Any
    where: str

    @property
    def dense(self) -> bool:
        """Whether it is the old form `[1, 7, 6]`: the LM head's 1, then the branches of each head."""
        paths = self.paths
        return isinstance(paths, Sequence) and bool(paths) and all(type(entry) is int for entry in paths)

    def tree(self, *, close: bool = False) -> Tree:
        """The tree; InputError for what is none. With `close`, missing ancestors are added."""
        if not isinstance(self.paths, (list, tuple)):
            raise InputError(
                f"{self.where}: choices are {self.paths!r:.40}; give a list such as [[0], [1], [0, 0]]"
            )
        if self.dense:
            return _dense(self.paths, self.where)
        return Tree.from_choices(self.paths, close=close, where=self.where)


def _dense(numbers: Sequence[int], where: str) -> Tree:
    head, *widths = numbers
    if head != 1 or not widths or min(widths) < 1:
        raise InputError(
            f"{where}: {list(numbers)!s:.60} has numbers where paths belong; the old dense form starts with 1, then has"
            " the branches of each head, from 1"
        )
    leaves = size = 1
    for depth, width in enumerate(widths, start=1):
        leaves *= width
        size += leaves
        if size > LARGEST or depth > LONGEST:
            raise InputError(f"{where}: a dense tree beyond {LARGEST} nodes or {LONGEST} heads; give fewer")
    return dense(widths)


def chain_listing(length: Any, where: str) -> dict[str, Listing]:
    """The chain of so many top guesses, as runtimes without trees have it; InputError for no such number."""
    if type(length) is not int or not 1 <= length <= LONGEST:
        raise InputError(f"{where}: {length!r:.40} draft tokens; give a whole number from 1 to {LONGEST}")
    return {"": Listing(chain(length).choices, where)}


def json_value(text: str) -> Any:
    """A JSON value, None for any other text."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def json_object(text: str) -> dict[str, Any]:
    """A JSON object, an empty one for any other text."""
    content = json_value(text) if text.lstrip().startswith("{") else None
    return content if isinstance(content, dict) else {}


def read_json_list(text: str, where: str) -> dict[str, Listing] | None:
    """The `read` of runtimes that take a JSON list of paths, in any order."""
    choices = json_value(text)
    return {"": Listing(choices, where)} if isinstance(choices, list) else None


def read_python(text: str, where: str) -> dict[str, Listing] | None:
    """The `read` of runtimes that take Python: all lists of a file by name, or one alone. Parsed as data."""
    if text.lstrip().startswith("{") or not _LIST.search(text):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's remarks on the style of the file
            statements = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        line, reason = getattr(error, "lineno", None) or 1, getattr(error, "msg", error)
        raise InputError(f"{where} line {line}: not a list of paths ({reason})") from error
    found: dict[str, Listing] = {}
    for statement in statements:
        match statement:
            case ast.Expr(ast.Constant(str())):
                continue  # a docstring
            case ast.Assign([ast.Name(name)], value) if name not in found:
                found[name] = _literal(value, where)
            case ast.Expr(value) if "" not in found:
                found[""] = _literal(value, where)
            case ast.Assign([ast.Name(name)], _):
                raise InputError(f"{where} line {statement.lineno}: has {name} a second time; leave one")
            case ast.Expr(_):
                raise InputError(
                    f"{where} line {statement.lineno}: a second list without a name; leave one, or name both"
                )
            case _:
                raise InputError(
                    f"{where} line {statement.lineno}: not of the form NAME = [paths]; the file is read as "
                    f"data, never executed"
                )
    return found


def _literal(value: ast.expr, where: str) -> Listing:
    place = f"{where} line {value.lineno}"
    try:
        choices = ast.literal_eval(value)
        str(choices)  # ValueError for numbers too long to be told in a message
    except (ValueError, TypeError, SyntaxError):
        choices = None
    if not isinstance(choices, (list, tuple)):
        raise InputError(f"{place}: not a list of paths written out, such as [(0,), (1,), (0, 0)]")
    return Listing(choices, place)


def compact(tree: Tree) -> str:
    """The canonical list on one line: `[[0],[1],[0,0]]`."""
    return json.dumps(tree.choices, separators=(",", ":"))


def facts(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What of a provenance may stand in an export: never a date, so that the same inputs give the same bytes."""
    return {name: provenance[name] for name in INPUT_FACTS if name in provenance}


def comments(provenance: Mapping[str, Any]) -> str:
    """Lines `# name: value`."""
    return "".join(f"# {name}: {json.dumps(value)}\n" for name, value in facts(provenance).items())


def sidecar(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The file that stands beside one whose format has no comments."""
    return {SIDECAR: format_json(dict(provenance))}


def python_line(tree: Tree, provenance: Mapping[str, Any]) -> str:
    """One list below its provenance, named by N, the root included, as all trees of treeopt are."""
    return f"{comments(provenance)}treeopt_{tree.size} = {list(tree.choices)}\n"
