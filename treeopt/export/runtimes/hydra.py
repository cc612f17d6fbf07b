"""`hydra_choices.py` of Hydra (commit 3f39fbd): Medusa's notation, with rules of its own on siblings."""

from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Format, wrong
from treeopt.export.limits import Limits
from treeopt.export.listing import python_line, read_python
from treeopt.export.runtimes.medusa import BEYOND
from treeopt.tree import Tree


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """One line: the list is also what `--hydra-choices` takes."""
    return {"": python_line(tree, provenance)}


FORMAT = Format(
    name="hydra",
    versions="zankner/Hydra at 3f39fbd",
    description="a line for its choices file, or --hydra-choices",
    file_name="hydra_choices.py",
    limits=Limits(max_rank=9, gaps_from=None, siblings_first=True),
    render=render,
    read=read_python,
    beyond=BEYOND
    | {
        "rank": wrong("trees are made for ten guesses of each head"),
        "gap": wrong("siblings are counted through, so that this path gets another guess"),
        "expansion": wrong("nodes with children are counted through, so that this path gets another parent"),
    },
    command='--hydra-choices "{choices}"',
)
