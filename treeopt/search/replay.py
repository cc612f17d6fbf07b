"""Replay: decode with trees from the rank table alone, without the model.

At temperature 0, and with sampling whose noise is keyed by position, the text does not depend on the
tree. So the steps of a real decoding follow from the ranks exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from treeopt.errors import InputError
from treeopt.search.bootstrap import ratio_interval, sums_by_prompt
from treeopt.search.ranks import RankTable
from treeopt.tree import Path, Tree

CELLS = 2**27
"""Rows times trees that are replayed at a time: one byte of memory each."""


@dataclass(frozen=True, eq=False)
class Steps:
    """What each decoding step emitted, answer by answer.

    `tokens` [steps] are the tokens of each step, in order: a step that accepts a guesses emits a + 1.
    `counts` [answers] are the steps of each answer; `ids` and `categories` are one for each answer.
    """

    tokens: NDArray[Any]
    counts: NDArray[Any]
    ids: tuple[str, ...]
    categories: tuple[str, ...]

    @classmethod
    def starting_at(
        cls, table: RankTable, rows: NDArray[np.int64], accepted: NDArray[Any], *more: Any
    ) -> Self:
        """Steps that start at these rows of a table and accept so many guesses; `more` are a subclass's own fields."""
        counts = np.bincount(table.sequence[rows], minlength=len(table.ids))
        return cls(accepted + 1, counts, table.ids, table.categories, *more)

    @property
    def step_tokens(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of each answer's steps, in order."""
        flat, ends = self.tokens.tolist(), np.cumsum(self.counts).tolist()
        return tuple(tuple(flat[end - count : end]) for end, count in zip(ends, self.counts, strict=True))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of the rank table that each step starts at [steps]: the visited rows, each once."""
        ends: NDArray[np.int64] = np.cumsum(self.tokens, dtype=np.int64)
        return ends - self.tokens.astype(np.int64)

    @property
    def steps(self) -> int:
        """Decoding steps over all answers; the prefill counts for none."""
        return len(self.tokens)

    @cached_property
    def emitted(self) -> int:
        """Tokens over all answers."""
        return int(self.tokens.sum(dtype=np.int64))

    @property
    def tokens_per_step(self) -> float:
        """The acceleration rate of Cai et al. 2024, App. B.1; plain decoding has 1."""
        return self.emitted / self.steps

    def by_prompt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens emitted and steps taken [prompts], the answers to one prompt added up, for a bootstrap."""
        ends = np.cumsum(self.counts)
        upto = np.concatenate([[0], np.cumsum(self.tokens, dtype=np.int64)])
        totals = np.stack([upto[ends] - upto[ends - self.counts], self.counts], axis=1)
        emitted, steps = sums_by_prompt(self.ids, totals).T
        return emitted, steps

    def interval(self, rng: np.random.Generator) -> tuple[float, float]:
        """95 % interval of tokens per step, by bootstrap over prompts."""
        low, high = ratio_interval(*self.by_prompt(), rng)
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Replay(Steps):
    """What each decoding step with one `tree` emitted, answer by answer."""

    tree: Tree

    @classmethod
    def of_steps(
        cls, tree: Tree, step_tokens: Sequence[Sequence[int]], ids: Sequence[str], categories: Sequence[str]
    ) -> "Replay":
        """From the tokens of each answer's steps, as a real decoding took them."""
        tokens = np.array([count for answer in step_tokens for count in answer], np.int64)
        counts = np.array([len(answer) for answer in step_tokens], np.int64)
        return cls(tokens, counts, tuple(ids), tuple(categories), tree)

    def accepted_by_depth(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Steps [D] that reached depth 1..D, having accepted all above it, and those that accepted there."""
        at_least = np.array([np.count_nonzero(self.tokens > depth) for depth in range(self.tree.depth + 1)])
        return at_least[:-1], at_least[1:]

    def by_category(self) -> dict[str, "Replay"]:
        """The same replay seen one category at a time, in order of first appearance."""
        return {name: self._of_category(name) for name in dict.fromkeys(self.categories)}

    def _of_category(self, category: str) -> "Replay":
        chosen = np.array([name == category for name in self.categories])
        ids = tuple(self.ids[index] for index in np.flatnonzero(chosen))
        tokens = self.tokens[np.repeat(chosen, self.counts)]
        return Replay(tokens, self.counts[chosen], ids, (category,) * len(ids), self.tree)


def replay(table: RankTable, tree: Tree) -> Replay:
    """Decode every answer of `table` with `tree`: from row 0, accept the longest path that the ranks follow.

    A step at row o that accepts a guesses emits a + 1 tokens and goes on at row o + a + 1. Raises
    InputError when the tree needs heads or ranks that the table does not have.
    """
    return replay_all(table, [tree])[0]


def replay_all(table: RankTable, trees: Sequence[Tree]) -> list[Replay]:
    """`replay` of any number of trees, all budgets of a growth for example, in one pass.

    Every row is walked down the union of the trees once: where its walk ends says what each tree accepts
    there. Then all answers under all trees take their steps together.
    """
    if not table.positions:
        raise InputError("replay: the rank table has no answer tokens; calibrate on some prompts")
    nodes: set[Path] = set()
    for tree in trees:
        nodes.update(tree.choices)
    union = Tree.from_choices(nodes)
    require_fits(table, union)
    ends = _walk_ends(table, union)
    accepted = _accepted(union, trees)
    block = max(1, CELLS // table.positions)
    return [
        replayed
        for start in range(0, len(trees), block)
        for replayed in _replay_block(
            table, trees[start : start + block], accepted[start : start + block], ends
        )
    ]


def require_fits(table: RankTable, tree: Tree, where: str = "replay") -> None:
    """InputError, `where` first, when the tree needs heads or ranks that the table does not have."""
    for path in tree.choices:
        if len(path) > table.heads:
            raise InputError(
                f"{where}: choice {list(path)} is {len(path)} deep, the ranks are of {table.heads} heads;"
                " cut the tree to them"
            )
        if max(path) >= table.width:
            raise InputError(
                f"{where}: choice {list(path)} needs rank {max(path)}, the table keeps ranks up to"
                f" {table.width - 1}; calibrate with more"
            )


def _walk_ends(table: RankTable, tree: Tree) -> NDArray[np.int64]:
    """The deepest node that the ranks of each row [P] follow: all rows walk down the tree together."""
    base = table.width + 1  # ranks, MISS
    choices = np.array([path[-1] for path in tree.choices], np.int64)
    edges = np.array(tree.parents[1:], np.int64) * base + choices  # [N - 1] from (parent, rank) to node
    order = np.argsort(edges)
    edges = edges[order]
    ends = np.zeros(table.positions, np.int64)
    rows, nodes = np.arange(table.positions), np.zeros(table.positions, np.int64)
    for head in range(tree.depth):
        ranks = table.ranks[rows, head].astype(np.int64)
        wanted = nodes * base + ranks
        found = np.minimum(np.searchsorted(edges, wanted), len(edges) - 1)
        follows = (ranks >= 0) & (edges[found] == wanted)
        rows, nodes = rows[follows], order[found[follows]] + 1
        ends[rows] = nodes
    return ends


def _accepted(union: Tree, trees: Sequence[Tree]) -> NDArray[np.int16]:
    """Guesses [trees, N] that each tree accepts where a row's walk down their union ends at a node."""
    index = {path: node for node, path in enumerate(union.nodes)}
    accepted = np.zeros((len(trees), union.size), np.int16)
    for number, tree in enumerate(trees):
        accepted[number, [index[path] for path in tree.nodes]] = tree.depths
    for node, parent in enumerate(union.parents[1:], start=1):
        np.maximum(accepted[:, node], accepted[:, parent], out=accepted[:, node])
    return accepted


def _replay_block(
    table: RankTable, trees: Sequence[Tree], accepted: NDArray[np.int16], ends: NDArray[np.int64]
) -> Iterator[Replay]:
    """Steps of all answers under all `trees` in lockstep: `ends` [P] and `accepted` [trees, N] say how far."""
    for tree, rows, depths in zip(trees, visited_rows(table, accepted, ends), accepted, strict=True):
        starts = np.flatnonzero(rows)
        yield Replay.starting_at(table, starts, depths[ends[starts]], tree)


def visited_rows(table: RankTable, accepted: NDArray[Any], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a step starts at each row [ways, P], where way w accepts `accepted[w, ends[row]]` guesses at a row."""
    lengths = table.lengths
    first = (np.cumsum(lengths) - lengths)[lengths > 0]
    position, end = np.tile(first, len(accepted)), np.tile(first + lengths[lengths > 0], len(accepted))
    number = np.repeat(np.arange(len(accepted)), len(first))
    visited = np.zeros((len(accepted), table.positions), bool)
    while position.size:
        visited[number, position] = True
        position = position + 1 + accepted[number, ends[position]]
        assert (position <= end).all(), "a rank past the end of an answer is unknown and cannot be accepted"
        going = position < end
        position, end, number = position[going], end[going], number[going]
    return visited
