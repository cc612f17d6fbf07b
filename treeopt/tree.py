"""The tree of candidate tokens that one decoding step verifies.

A node is named by its *path*: the rank of the guess taken at each head on the way down from the root, so
`(0, 2)` is head 2's third guess below head 1's first. The root, `()`, is the token the backbone itself drew.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self

from treeopt.errors import InputError

Path = tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """An immutable candidate tree, checked once, when it is made.

    `choices` are the paths of all nodes but the root, each of non-negative ranks, sorted by (length, path),
    without duplicates, every path's parent among them. Two trees are equal exactly when they have the same
    nodes. Anything else raises InputError; `Tree.from_choices` brings other spellings into this form.

    >>> tree = Tree.from_choices([[0, 0], [1], [0]])
    >>> tree.choices, tree.size, tree.depth
    (((0,), (1,), (0, 0)), 4, 2)
    """

    choices: tuple[Path, ...]

    def __post_init__(self) -> None:
        if self.choices != _canonical(self.choices, "choices"):
            raise InputError("choices: not in canonical form; make the tree with Tree.from_choices")
        _require_closed(self.choices, "choices")

    @classmethod
    def from_choices(
        cls, choices: Iterable[Sequence[int]], *, close: bool = False, where: str = "choices"
    ) -> Self:
        """Make a tree of paths in any order, lists or tuples, duplicates merged.

        With `close`, missing ancestors are added; without it the first path that lacks its parent raises
        InputError, as does a path that is empty or not made of non-negative integers. `where` names the
        source in the message.
        """
        paths = _canonical(choices, where)
        if close:
            paths = _sorted({path[:length] for path in paths for length in range(1, len(path) + 1)})
        _require_closed(paths, where)
        return cls(paths)

    @property
    def size(self) -> int:
        """N: tokens that one step verifies, the root among them."""
        return len(self.choices) + 1

    @property
    def depth(self) -> int:
        """D: length of the longest path, which is the number of heads the tree needs."""
        return len(self.choices[-1]) if self.choices else 0

    @property
    def nodes(self) -> tuple[Path, ...]:
        """Paths of all N nodes; node 0 is the root, `()`."""
        return ((), *self.choices)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each node, 0 for the root."""
        return tuple(len(path) for path in self.nodes)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of each node's parent, -1 for the root; a parent comes before its children."""
        index = {path: i for i, path in enumerate(self.nodes)}
        return (-1, *(index[path[:-1]] for path in self.choices))

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in range(self.size)]
        for node, parent in enumerate(self.parents[1:], start=1):
            found[parent].append(node)
        return tuple(tuple(children) for children in found)

    def children(self, node: int) -> tuple[int, ...]:
        """Indices of the children of `node`, by rising rank."""
        return self._children[node]

    @cached_property
    def max_rank(self) -> int:
        """Highest rank in the tree, -1 for the bare root."""
        return max((path[-1] for path in self.choices), default=-1)

    def up_to_depth(self, depth: int) -> "Tree":
        """The same tree without nodes below `depth`, as fewer heads would draft it."""
        return Tree(tuple(path for path in self.choices if len(path) <= depth))


def _canonical(choices: Iterable[Any], where: str) -> tuple[Path, ...]:
    return _sorted({_path(entry, number, where) for number, entry in enumerate(choices)})


def _sorted(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(paths, key=lambda path: (len(path), path)))


def _path(entry: Any, number: int, where: str) -> Path:
    """One path out of anything a file can hold."""
    if not isinstance(entry, Sequence) or isinstance(entry, (str, bytes)):
        raise InputError(f"{where}: entry {number} is {entry!r}; a path is a list of ranks such as [0, 1]")
    if not entry:
        raise InputError(f"{where}: entry {number} is empty; leave the root out, every tree has it")
    try:
        path = tuple(operator.index(rank) for rank in entry)
    except TypeError:
        path = (-1,)
    if min(path) < 0 or any(isinstance(rank, bool) for rank in entry):
        raise InputError(
            f"{where}: entry {number} is {list(entry)}; ranks are whole numbers from 0 (0 = top guess)"
        )
    return path


def _require_closed(paths: tuple[Path, ...], where: str) -> None:
    known = {(), *paths}
    for path in paths:
        if path[:-1] not in known:
            raise InputError(
                f"{where}: {list(path)} has no parent {list(path[:-1])} in the tree; add it or close the tree"
            )


ROOT = Tree(())
"""Plain decoding: the bare root, one token a step."""


def chain(depth: int) -> Tree:
    """The top guess of each head, one below the other: decoding with heads but without a tree."""
    return dense([1] * depth)


def dense(widths: Sequence[int]) -> Tree:
    """The Cartesian product of the first `widths[k - 1]` guesses of each head k.

    Draft nodes: sum over k of prod_{j <= k} widths[j - 1] (Cai et al. 2024, sec. 2.1.2). InputError for a
    width below 1.
    """
    if any(width < 1 for width in widths):
        raise InputError(f"dense tree: widths {list(widths)}; each head gives at least 1 guess")
    levels = (product(*map(range, widths[:depth])) for depth in range(1, len(widths) + 1))
    return Tree(tuple(path for level in levels for path in level))
