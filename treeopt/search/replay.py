"""Replay: decode with a tree from the rank table alone, without the model.

At temperature 0, and with sampling whose noise is keyed by position, the text does not depend on the
tree. So the steps of a real decoding follow from the ranks exactly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeopt.errors import InputError
from treeopt.search.bootstrap import ratio_interval, sums_by_prompt
from treeopt.search.ranks import RankTable
from treeopt.tree import Tree


@dataclass(frozen=True)
class Replay:
    """What each decoding step emitted: `step_tokens` holds the tokens of each answer's steps, in order.

    A step that accepts a guesses emits a + 1 tokens. `ids` and `categories` are one for each answer.
    """

    tree: Tree
    step_tokens: tuple[tuple[int, ...], ...]
    ids: tuple[str, ...]
    categories: tuple[str, ...]

    @cached_property
    def _tokens(self) -> NDArray[np.int64]:
        return np.array([tokens for answer in self.step_tokens for tokens in answer], np.int64)

    @property
    def steps(self) -> int:
        """Decoding steps over all answers; the prefill counts for none."""
        return len(self._tokens)

    @property
    def emitted(self) -> int:
        """Tokens over all answers."""
        return int(self._tokens.sum())

    @property
    def tokens_per_step(self) -> float:
        """The acceleration rate of Cai et al. 2024, App. B.1; plain decoding has 1."""
        return self.emitted / self.steps

    def accepted_by_depth(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Steps [D] that reached depth 1..D, having accepted all above it, and those that accepted there."""
        at_least = np.array([np.count_nonzero(self._tokens > depth) for depth in range(self.tree.depth + 1)])
        return at_least[:-1], at_least[1:]

    def by_prompt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens emitted and steps taken [prompts], the answers to one prompt added up, for a bootstrap."""
        totals = np.array([(sum(answer), len(answer)) for answer in self.step_tokens], np.int64)
        emitted, steps = sums_by_prompt(self.ids, totals).T
        return emitted, steps

    def interval(self, rng: np.random.Generator) -> tuple[float, float]:
        """95 % interval of tokens per step, by bootstrap over prompts."""
        low, high = ratio_interval(*self.by_prompt(), rng)
        return float(low), float(high)

    def by_category(self) -> dict[str, "Replay"]:
        """The same replay seen one category at a time, in order of first appearance."""
        return {name: self._of_category(name) for name in dict.fromkeys(self.categories)}

    def _of_category(self, category: str) -> "Replay":
        chosen = [index for index, name in enumerate(self.categories) if name == category]
        return Replay(
            self.tree,
            tuple(self.step_tokens[index] for index in chosen),
            tuple(self.ids[index] for index in chosen),
            tuple(self.categories[index] for index in chosen),
        )


def replay(table: RankTable, tree: Tree) -> Replay:
    """Decode every answer of `table` with `tree`: from row 0, accept the longest path that the ranks follow.

    A step at row o that accepts a guesses emits a + 1 tokens and goes on at row o + a + 1. Raises
    InputError when the tree needs heads or ranks that the table does not have.
    """
    _require_fits(table, tree)
    accepted = _accepted(table, tree).tolist()
    step_tokens = []
    start = 0
    for length in table.lengths.tolist():
        position, end, tokens = start, start + length, []
        while position < end:
            tokens.append(accepted[position] + 1)
            position += accepted[position] + 1
        assert position == end, "a rank past the end of an answer is unknown and cannot be accepted"
        step_tokens.append(tuple(tokens))
        start = end
    return Replay(tree, tuple(step_tokens), table.ids, table.categories)


def _require_fits(table: RankTable, tree: Tree) -> None:
    if not table.positions:
        raise InputError("replay: the rank table has no answer tokens; calibrate on some prompts")
    for path in tree.choices:
        if len(path) > table.heads:
            raise InputError(
                f"replay: choice {list(path)} is {len(path)} deep, the ranks are of {table.heads} heads;"
                " cut the tree to them"
            )
        if max(path) >= table.width:
            raise InputError(
                f"replay: choice {list(path)} needs rank {max(path)}, the table keeps ranks up to"
                f" {table.width - 1}; calibrate with more"
            )


def _accepted(table: RankTable, tree: Tree) -> NDArray[np.int64]:
    """Guesses accepted by a step that starts at each row [P]: all rows walk down the tree together."""
    base = table.width + 1  # ranks, MISS
    choices = np.array([path[-1] for path in tree.choices], np.int64)
    edges = np.array(tree.parents[1:], np.int64) * base + choices  # [N - 1] from (parent, rank) to node
    order = np.argsort(edges)
    edges = edges[order]
    accepted = np.zeros(table.positions, np.int64)
    rows, nodes = np.arange(table.positions), np.zeros(table.positions, np.int64)
    for head in range(tree.depth):
        ranks = table.ranks[rows, head].astype(np.int64)
        wanted = nodes * base + ranks
        found = np.minimum(np.searchsorted(edges, wanted), len(edges) - 1)
        follows = (ranks >= 0) & (edges[found] == wanted)
        rows, nodes = rows[follows], order[found[follows]] + 1
        accepted[rows] += 1
    return accepted
