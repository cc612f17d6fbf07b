"""Text Generation Inference (commit db931fc): `--speculate K`, the top guess of each head, no tree."""

import re
from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Format, refused
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, chain_listing, comments
from treeopt.tree import Tree

_ARGUMENT = re.compile(r"--speculate[= ](\d{1,4})")


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The launcher's argument; --model-id goes with it, and names the heads."""
    return {"": f"{comments(provenance)}--speculate {tree.depth}\n"}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The chain of a file that holds the argument alone, and comments."""
    lines = (line.strip() for line in text.splitlines())
    said = [line for line in lines if line and not line.startswith("#")]
    found = _ARGUMENT.fullmatch(said[0]) if len(said) == 1 else None
    return chain_listing(int(found[1]), f"{where} --speculate") if found else None


FORMAT = Format(
    name="tgi",
    versions="text-generation-inference at db931fc",
    description="the launcher's --speculate",
    file_name="tgi_speculate.args",
    limits=Limits(chain=True),
    render=render,
    read=read,
    beyond={"heads": refused("RuntimeError: more than medusa_num_heads")},
    command="text-generation-launcher --model-id HEADS_DIR --speculate {depth}",
)
