"""The canonical list `[[0],[1],[0,0]]`, in a tree's own order: what most runtimes take."""

from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Format, refused
from treeopt.export.limits import Limits
from treeopt.export.listing import compact, read_json_list, sidecar
from treeopt.tree import Tree


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The list alone, so that its bytes depend on the tree alone, and the provenance in a file beside it."""
    return {"": compact(tree) + "\n", **sidecar(provenance)}


FORMAT = Format(
    name="json",
    versions="treeopt itself",
    description="canonical list of paths, with its provenance in a .meta.json beside it",
    file_name="choices.json",
    limits=Limits(bare_root=True),
    render=render,
    read=read_json_list,
    beyond={"orphan": refused("its parent is not in the list, and is not made up")},
)
