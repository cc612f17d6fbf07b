"""Growth for typical acceptance, under which several siblings may pass: nodes by what they add to what is covered.

Recorded on a large tree: at every step of a decoding, which nodes pass, each given its parent. Then what any part of
that tree accepts at that step is known: its longest path whose nodes all pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeopt.artifact import load_arrays, save_arrays
from treeopt.errors import InputError
from treeopt.search.bootstrap import ratio_interval, sums_by_prompt
from treeopt.search.grow import COVERAGE, Growth
from treeopt.search.ranks import listed, origin
from treeopt.search.split import ALL, half_of
from treeopt.tree import Tree


@dataclass(frozen=True, eq=False)
class PassTable:
    """One row for each decoding step with `tree`, a column for each of its N nodes, the root first.

    `passes` bool [steps, N]: whether the node is likely enough given its parent, be the parent accepted or not; the
    root always is. `prompt` int32 [steps]: the index into `ids` of the prompt that was being answered. Anything else
    raises InputError.
    """

    tree: Tree
    passes: NDArray[np.bool_]
    prompt: NDArray[np.int32]
    ids: tuple[str, ...]
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = len(self.prompt)
        if self.passes.shape != (steps, self.tree.size) or self.passes.dtype != np.bool_ or not steps:
            raise InputError(
                f"passes: {self.passes.dtype} {self.passes.shape} for {steps} steps and {self.tree.size} nodes; give"
                " a truth value for each node at each step, and at least one step"
            )
        whole = self.prompt.ndim == 1 and self.prompt.dtype.kind in "iu"
        if not whole or not 0 <= self.prompt.min() <= self.prompt.max() < len(self.ids):
            raise InputError(f"passes: prompt numbers steps by their place among {len(self.ids)} ids, from 0")
        if not self.passes[:, 0].all():
            raise InputError("passes: the root is in column 0 and always passes")

    @cached_property
    def reached(self) -> NDArray[np.bool_]:
        """[steps, N]: whether the node passes with all nodes above it."""
        reached = self.passes.copy()
        for node, parent in enumerate(self.tree.parents[1:], start=1):
            reached[:, node] &= reached[:, parent]
        return reached

    def accepted(self, tree: Tree) -> NDArray[np.int64]:
        """Guesses [steps] that `tree`, a part of the recorded one, would accept. InputError for other nodes."""
        column = {path: node for node, path in enumerate(self.tree.nodes)}
        stranger = next((path for path in tree.choices if path not in column), None)
        if stranger is not None:
            raise InputError(
                f"passes: {list(stranger)} is no node of the recorded tree; record with a larger one"
            )
        reached = self.reached[:, [column[path] for path in tree.nodes]]
        longest: NDArray[np.int64] = (reached * np.array(tree.depths)).max(axis=1)
        return longest

    def summary(self, seed: int = 0) -> dict[str, Any]:
        """What was recorded, for JSON: tokens per step of the whole tree, with a 95 % interval by prompt."""
        tokens = self.accepted(self.tree) + 1
        sums = sums_by_prompt([self.ids[i] for i in self.prompt], np.stack([tokens, np.ones_like(tokens)], 1))
        low, high = ratio_interval(sums[:, 0], sums[:, 1], np.random.default_rng(seed))
        return {
            "kind": "passes",
            "prompts": len(self.ids),
            "steps": len(tokens),
            "tokens": self.tree.size,
            "tokens_per_step": float(tokens.mean()),
            "interval": [float(low), float(high)],
            "provenance": self.provenance,
        }

    def split(self, half: str) -> "PassTable":
        """Steps of one half of the prompts, `calibrate` or `evaluate`, or `all`; InputError for none."""
        rows = np.array([half in (ALL, half_of(self.ids[i])) for i in self.prompt], bool)
        if not rows.any():
            raise InputError(f"passes: no step is of the {half} half; record that half, or take all")
        return PassTable(self.tree, self.passes[rows], self.prompt[rows], self.ids, self.provenance)

    def save(self, path: str | FilePath) -> None:
        """Write `passes.safetensors`: the two arrays, all else as JSON in the header."""
        metadata = {"choices": self.tree.choices, "ids": self.ids, "provenance": self.provenance}
        save_arrays(path, {"passes": self.passes, "prompt": self.prompt}, "passes", metadata)

    @classmethod
    def load(cls, path: str | FilePath) -> "PassTable":
        """Read what `save` wrote. InputError for anything else."""
        arrays, metadata = load_arrays(path, "passes")
        try:
            return cls(
                Tree.from_choices(metadata["choices"]),
                arrays["passes"],
                arrays["prompt"],
                listed(metadata, "ids"),
                origin(metadata),
            )
        except KeyError as error:
            raise InputError(f"{path}: has no {error.args[0]}; record it again") from error
        except (InputError, TypeError, ValueError) as error:
            raise InputError(f"{path}: {error}") from error


def grow_coverage(
    table: PassTable,
    budget: int,
    *,
    max_depth: int | None = None,
    max_rank: int | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Growth:
    """Grow by coverage from the recorded tree's nodes: `budget` nodes with the root.

    What a tree accepts on average is E = sum over depths d of P(some node at depth d passes with all above it), so a
    node's value is the share of steps that it adds to what its depth covers. A parent that adds nothing may lead to
    a child that does: what joins next is the path down to some node, of those the one that adds most per node. Ties
    go to the shorter path to join, then to the lesser depth, then the lesser path. E is submodular in the nodes, but
    nodes come with those above them, so nothing is claimed about how near to the best tree this gets.

    Exact without recomputing: as a node joins, the rows that it newly covers are taken from what the others of its
    depth would add, once for each row and depth. O(steps x N) in all, and O(N) for each path that joins.
    """
    if budget < 1:
        raise InputError(f"budget: {budget}; it counts the root, so it is at least 1")
    tree, reached = table.tree, table.reached
    parents, depths = np.array(tree.parents), np.array(tree.depths)
    levels = [np.flatnonzero(depths == depth) for depth in range(tree.depth + 1)]
    highest = np.array([max(path, default=-1) for path in tree.nodes])
    allowed = (depths <= (tree.depth if max_depth is None else max_depth)) & (
        highest <= (tree.max_rank if max_rank is None else max_rank)
    )
    adds = reached.sum(axis=0, dtype=np.int64)  # steps that each node would newly cover at its depth
    covered = np.zeros((len(reached), tree.depth + 1), bool)
    joined = np.zeros(tree.size, bool)
    order, values = [0], [1.0]
    joined[0] = True
    while len(order) < budget:
        best = _best_path(adds, joined, parents, levels, allowed, budget - len(order))
        if best is None:
            break
        path = [best]
        while not joined[parents[path[0]]]:
            path.insert(0, int(parents[path[0]]))
        for node in path:
            level = depths[node]
            fresh = reached[:, node] & ~covered[:, level]
            covered[fresh, level] = True
            adds[levels[level]] -= reached[np.ix_(fresh, levels[level])].sum(axis=0)
            joined[node] = True
            order.append(node)
            values.append(float(fresh.mean()))
    stopped = None
    if len(order) < budget:
        stopped = f"stopped at {len(order)} of {budget} nodes: no other recorded path adds to what passes"
    paths = tuple(tree.nodes[node] for node in order)
    return Growth(paths, tuple(values), COVERAGE, stopped, dict(provenance or {}))


def _best_path(
    adds: NDArray[np.int64],
    joined: NDArray[np.bool_],
    parents: NDArray[np.int64],
    levels: list[NDArray[np.int64]],
    allowed: NDArray[np.bool_],
    room: int,
) -> int | None:
    """The last node of the path of at most `room` nodes that adds most per node; None where none adds anything."""
    gain, missing = np.zeros_like(adds), np.zeros_like(adds)
    for level in levels[1:]:
        gain[level] = np.where(joined[level], 0, adds[level] + gain[parents[level]])
        missing[level] = np.where(joined[level], 0, 1 + missing[parents[level]])
    may = allowed & (missing > 0) & (missing <= room)
    rate = np.where(may, gain / np.maximum(missing, 1), 0.0)
    if not rate.max() > 0:
        return None
    ties = np.flatnonzero(rate == rate.max())
    return int(ties[np.argmin(missing[ties])])
