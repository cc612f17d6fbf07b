"""NxD Inference of AWS Neuron (commit 4bcdc54): a JSON list for `--medusa-tree-json`, and its speculation length."""

from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Format
from treeopt.export.limits import Limits
from treeopt.export.listing import compact, read_json_list, sidecar
from treeopt.export.runtimes.medusa import BEYOND
from treeopt.tree import Tree

FILE = "medusa_tree.json"


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The list, and the arguments that go with it, TREE_FILE being its path: the length counts the root, and must."""
    lengths = f"--num-medusa-heads {heads} --medusa-speculation-length {tree.size}"
    arguments = f"--is-medusa {lengths} --medusa-tree-json TREE_FILE\n"
    return {"": compact(tree) + "\n", ".args": arguments, **sidecar(provenance)}


FORMAT = Format(
    name="nxd",
    versions="NxD Inference at 4bcdc54",
    description="a list for --medusa-tree-json, and in .args all arguments, batch 1 and greedy",
    file_name=FILE,
    limits=Limits(max_rank=9, top_k=True),
    render=render,
    read=read_json_list,
    beyond={rule: follows for rule, follows in BEYOND.items() if rule != "mixed"},
    command="--is-medusa --num-medusa-heads {heads} --medusa-speculation-length {tokens} --medusa-tree-json {file}",
)
