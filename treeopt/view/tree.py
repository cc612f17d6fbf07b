"""A tree as text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from treeopt.tree import Path, Tree

WIDTH = 100
NO_BREAK = "\u00a0"


def draw(tree: Tree, values: Mapping[Path, float] | None = None) -> str:
    """Draw a tree: a line for every node that has children, and one for neighbouring siblings that have none.

    A node is shown by its rank, then by its value where `values` (path to value) has it. The first line
    counts the nodes of each depth.
    """
    return "\n".join([_summary(tree, bool(values)), *_lines(tree, values or {})])


def _summary(tree: Tree, valued: bool) -> str:
    if not tree.choices:
        return "1 node: the root alone, plain decoding"
    counts = Counter(tree.depths[1:])
    depths = ", ".join(f"{counts[depth]} at depth {depth}" for depth in sorted(counts))
    return f"{tree.size} nodes: the root, {depths}. Below, each by its rank{': value' if valued else ''}"


def _lines(tree: Tree, values: Mapping[Path, float]) -> Iterator[str]:
    waiting = [*_blocks(tree, 0, "")]
    while waiting:
        block, indent, last = waiting.pop()
        below = indent + ("   " if last else "│  ")
        first, *more = _rows([_label(tree.nodes[node], values) for node in block], WIDTH - len(below))
        yield indent + ("└─ " if last else "├─ ") + first
        yield from (below + row for row in more)
        waiting += _blocks(tree, block[0], below)


def _blocks(tree: Tree, parent: int, indent: str) -> Iterator[tuple[list[int], str, bool]]:
    """The children of a node, those drawn on one line together, last first; and whether it is the last."""
    kinds = groupby(tree.children(parent), lambda node: node if tree.children(node) else None)
    blocks = [list(nodes) for _, nodes in kinds]
    return ((block, indent, block is blocks[-1]) for block in reversed(blocks))


def _label(path: Path, values: Mapping[Path, float]) -> str:
    if path not in values:
        return str(path[-1])
    return f"{path[-1]}: {values[path]:{'.3f' if values[path] >= 0.001 else '.0e'}}"


def _rows(labels: Sequence[str], width: int) -> list[str]:
    """Labels side by side, wrapped between them but never inside."""
    joined = "   ".join(label.replace(" ", NO_BREAK) for label in labels)
    return [row.replace(NO_BREAK, " ") for row in wrap(joined, max(width, 1), break_long_words=False)]
