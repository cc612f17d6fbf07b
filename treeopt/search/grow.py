"""Growth: the order in which nodes join the tree, which is every budget's tree at once."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeopt.artifact import read_json, write_json
from treeopt.errors import InputError
from treeopt.search.estimate import Estimator, Guesses
from treeopt.tree import Path, Tree

COVERAGE = "coverage"
"""The estimator's name where a value is what a node added when it joined, which may be more than its parent did."""


@dataclass(frozen=True)
class Growth:
    """Nodes in order of joining, the root `()` first with value 1.

    `values[i]` is the probability that the whole path `paths[i]` is right, or what it added to the tokens per step
    when it joined, where the estimator is `coverage`. `stopped` says why there are fewer nodes than the budget
    asked for, None where there are not. Growth of a smaller budget is a prefix of this one; only that of `coverage`
    may fill its last places otherwise.
    """

    paths: tuple[Path, ...]
    values: tuple[float, ...]
    estimator: str
    stopped: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Nodes grown, the root among them."""
        return len(self.paths)

    @cached_property
    def tokens_per_step(self) -> NDArray[np.float64]:
        """Expected tokens per step of each tree; entry i is for N = i + 1.

        The sum of its nodes' values, the root's 1 among them (Cai et al. 2024, sec. 2.3.3).
        """
        return np.cumsum(self.values)

    def tree(self, size: int) -> Tree:
        """The tree of N = `size` nodes. InputError for more nodes than were grown."""
        if not 1 <= size <= self.size:
            raise InputError(
                f"growth: has no tree of {size} nodes, {self.size} were grown; grow with a larger budget"
            )
        return Tree.from_choices(self.paths[1:size], where="growth")

    def write(self, path: str | FilePath) -> None:
        """Write `growth.json`: `nodes` are those that joined the root, which every tree has and no file lists."""
        joined = zip(self.paths[1:], self.values[1:], strict=True)
        nodes = [{"path": list(node), "value": value} for node, value in joined]
        content = {
            "estimator": self.estimator,
            "stopped": self.stopped,
            "nodes": nodes,
            "tokens_per_step": self.tokens_per_step,
            "provenance": dict(self.provenance),
        }
        write_json(path, content, "growth")

    @classmethod
    def read(cls, path: str | FilePath) -> "Growth":
        """Read `growth.json`; InputError when nodes are not in order. A root that is listed is passed over."""
        content = read_json(path, "growth", ["nodes", "estimator"])
        try:
            nodes = [(tuple(node["path"]), float(node["value"])) for node in content["nodes"] if node["path"]]
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(f"{path}: a node is no path with a value; grow again") from error
        Tree.from_choices([node for node, _ in nodes], where=str(path))
        values: dict[Path, float] = {(): 1.0}
        gains = content["estimator"] == COVERAGE
        for node, value in nodes:
            most = values.get(node[:-1], -1.0)
            if node in values or not 0 <= value <= (1.0 if gains and most >= 0 else most):
                raise InputError(
                    f"{path}: node {list(node)} is out of place; parents come before their children and are"
                    " worth no less, and no node comes twice"
                )
            values[node] = value
        stopped, provenance = content.get("stopped"), content.get("provenance", {})
        if not isinstance(stopped, str | None) or not isinstance(provenance, dict):
            raise InputError(f"{path}: stopped is no text or provenance no object; grow again")
        return cls(tuple(values), tuple(values.values()), str(content["estimator"]), stopped, provenance)


def grow(
    estimator: Estimator,
    budget: int,
    *,
    max_depth: int | None = None,
    max_rank: int | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Growth:
    """Grow best first: from the root on, add the node of highest value, to `budget` nodes with the root.

    No deeper than `max_depth`, no guess above `max_rank`. Values never grow down a tree, so the best N
    nodes are always a tree and greedy is optimal for their sum (Cai et al. 2024, sec. 2.3.3; Wang et al.
    2024, arXiv 2406.17276). Ties go to the lesser depth, then the lesser path. Growth stops, with a
    notice in `stopped`, when no node of positive value is left.

    O(N log N), whatever the number of ranks: a node that joins makes way for two others at most, its
    first child and its next sibling. A child that a table ranks behind its sibling cannot join before it.
    """
    depth, estimator = _limits(estimator, budget, max_depth, max_rank)
    paths: list[Path] = [()]
    values = [1.0]
    # entries: (-value, depth, path, parent's value, place among its siblings, its siblings)
    heap: list[tuple[float, int, Path, float, int, Guesses]] = []

    def offer(parent: Path, value: float, place: int, siblings: Guesses) -> None:
        ranks, probabilities = siblings
        if place < len(ranks) and value * probabilities[place] > 0:
            node = (*parent, ranks[place])
            heapq.heappush(heap, (-value * probabilities[place], len(node), node, value, place, siblings))

    if depth > 0:
        offer((), 1.0, 0, estimator.children(()))
    while heap and len(paths) < budget:
        negative, level, node, above, place, siblings = heapq.heappop(heap)
        paths.append(node)
        values.append(-negative)
        offer(node[:-1], above, place + 1, siblings)
        if level < depth:
            offer(node, -negative, 0, estimator.children(node))
    stopped = None
    if len(paths) < budget:
        stopped = (
            f"stopped at {len(paths)} of {budget} nodes: no other path of {depth} heads has a value above 0"
        )
    return Growth(tuple(paths), tuple(values), estimator.name, stopped, dict(provenance or {}))


def _limits(
    estimator: Estimator, budget: int, max_depth: int | None, max_rank: int | None
) -> tuple[int, Estimator]:
    if budget < 1:
        raise InputError(f"budget: {budget}; it counts the root, so it is at least 1")
    if max_depth is not None and max_depth < 1:
        raise InputError(f"max depth: {max_depth}; a tree needs at least 1")
    if max_rank is not None and max_rank < 0:
        raise InputError(f"max rank: {max_rank}; the top guess is rank 0")
    depth = estimator.heads if max_depth is None else min(max_depth, estimator.heads)
    return depth, estimator if max_rank is None else estimator.up_to_rank(max_rank)
