"""`medusa_choices.py` of FasterDecoding/Medusa (commit e2a5d20): `NAME = [(0,), (1,), (0, 0)]` lines."""

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any

from treeopt.errors import InputError
from treeopt.export.format import Format, Limits, facts
from treeopt.tree import Tree

TOPK = 10
"""Guesses the runtime takes of each head. A higher rank would silently read the next head's guesses."""

_LIST = re.compile(r"^[ \t]*(\w+[ \t]*=[ \t]*)?[\[(]", re.MULTILINE)
"""A line that starts as a list does, named or not: any other file is left to other formats."""


def render(tree: Tree, provenance: Mapping[str, Any]) -> dict[str, str]:
    """One line, named by the number of choices as the runtime's own trees are, below its provenance."""
    comments = [f"# {fact}\n" for fact in facts(provenance)]
    return {"": "".join(comments) + f"treeopt_{len(tree.choices)} = {list(tree.choices)}\n"}


def read(text: str, where: str) -> dict[str, Tree] | None:
    """All trees of a file by name, or one list alone. Parsed as data: nothing in the file is executed."""
    if not _LIST.search(text):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's remarks on the style of the file
            statements = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        line, reason = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise InputError(f"{where} line {line}: not a list of paths ({reason})") from error
    trees: dict[str, Tree] = {}
    for statement in statements:
        match statement:
            case ast.Expr(ast.Constant(str())):
                continue  # a docstring
            case ast.Assign([ast.Name(name)], value):
                trees[name] = _tree(value, where)
            case ast.Expr(value):
                trees[""] = _tree(value, where)
            case _:
                raise InputError(
                    f"{where} line {statement.lineno}: not of the form NAME = [paths]; the file is read as "
                    f"data, never executed"
                )
    return trees


def _tree(value: ast.expr, where: str) -> Tree:
    place = f"{where} line {value.lineno}"
    try:
        choices = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        choices = None
    if not isinstance(choices, (list, tuple)):
        raise InputError(f"{place}: not a list of paths written out, such as [(0,), (1,), (0, 0)]")
    return Tree.from_choices(choices, where=place)


FORMAT = Format(
    name="medusa",
    description="a line for medusa_choices.py of FasterDecoding/Medusa (e2a5d20), batch 1",
    file_name="medusa_choices.py",
    limits=Limits(max_rank=TOPK - 1, bare_root=False),
    render=render,
    read=read,
)
