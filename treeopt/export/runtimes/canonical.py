"""The canonical list `[[0],[1],[0,0]]`, in a tree's own order: what most runtimes take."""

import json
from collections.abc import Mapping
from typing import Any

from treeopt.artifact import format_json
from treeopt.export.format import Format, Limits
from treeopt.tree import Tree


def render(tree: Tree, provenance: Mapping[str, Any]) -> dict[str, str]:
    """The list alone, so that its bytes depend on the tree alone, and the provenance in a file beside it."""
    return {
        "": json.dumps(tree.choices, separators=(",", ":")) + "\n",
        ".meta.json": format_json(dict(provenance)),
    }


def read(text: str, where: str) -> dict[str, Tree] | None:
    """One tree from a JSON list of paths, in any order."""
    try:
        choices = json.loads(text)
    except ValueError:
        return None
    return {"": Tree.from_choices(choices, where=where)} if isinstance(choices, list) else None


FORMAT = Format(
    name="json",
    description="canonical list of paths, with its provenance in a .meta.json beside it",
    file_name="choices.json",
    limits=Limits(),
    render=render,
    read=read,
)
