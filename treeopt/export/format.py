"""What every runtime's module declares: how trees are written and read, and what cannot be expressed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from treeopt.errors import UnsupportedError
from treeopt.tree import Tree

INPUT_FACTS = (
    *("model", "model_sha256", "heads_sha256", "template", "temperature", "positions"),
    *("dtype", "device", "batch", "context"),
)
"""Facts of a provenance that depend on the tree's inputs alone, and so may stand in an export."""


@dataclass(frozen=True)
class Limits:
    """What a runtime takes. That a tree is no deeper than the model has heads holds for all of them."""

    max_rank: int | None = None
    """Highest rank, None where any is read right."""
    bare_root: bool = True
    """Whether a tree without choices, plain decoding, can be written."""


@dataclass(frozen=True)
class Format:
    """One runtime's way of writing trees down.

    `render(tree, provenance)` gives the files as {suffix: text}; the suffix "" is the file itself, others are
    appended to its name. `read(text, where)` gives the trees of a file by name, "" for one without, or None
    where the text is not of this format at all; InputError names `where` for one that is, but is wrong.
    """

    name: str
    description: str
    file_name: str
    """What its file is called where nobody names one."""
    limits: Limits
    render: Callable[[Tree, Mapping[str, Any]], dict[str, str]]
    read: Callable[[str, str], dict[str, Tree] | None]

    def write(self, tree: Tree, provenance: Mapping[str, Any], heads: int | None = None) -> dict[str, str]:
        """The files as {suffix: text}; UnsupportedError for a tree that the runtime would not read right."""
        self.check(tree, heads)
        return self.render(tree, provenance)

    def check(self, tree: Tree, heads: int | None = None) -> None:
        """UnsupportedError naming the first path beyond the limits, or beyond the model's `heads`."""
        if not tree.choices and not self.limits.bare_root:
            raise UnsupportedError(
                f"{self.name}: this is plain decoding, a tree without choices; run without Medusa"
            )
        for path in tree.choices:
            if heads is not None and len(path) > heads:
                raise UnsupportedError(
                    f"{self.name}: path {list(path)} needs {len(path)} heads, the model has {heads}; "
                    f"grow with --max-depth {heads}"
                )
            if self.limits.max_rank is not None and path[-1] > self.limits.max_rank:
                raise UnsupportedError(
                    f"{self.name}: path {list(path)} has rank {path[-1]}, this runtime reads up to "
                    f"{self.limits.max_rank}; grow with --max-rank {self.limits.max_rank}"
                )


def facts(provenance: Mapping[str, Any]) -> list[str]:
    """Lines `name: value` for comments: never a date, so that the same inputs give the same bytes."""
    return [f"{name}: {json.dumps(provenance[name])}" for name in INPUT_FACTS if name in provenance]
