"""Everything about a tree that a decoding step needs and that does not change from step to step."""

from dataclasses import dataclass

import torch

from treeopt.errors import MismatchError
from treeopt.tree import Tree


@dataclass(frozen=True)
class TreeBuffers:
    """A tree as index tensors; N nodes, the root first.

    depths [N]: position of each node behind the root.
    width: ranks that must be drafted of every head, 1 + the highest used.
    draft_index [N - 1]: where each choice stands in the drafts [K * width] of a step; (head, rank) -> head * width +
    rank, so a rank can never reach into another head's guesses.
    visible [N, N]: True where a node may attend to another: itself and its ancestors.
    children: for each node, its children's indices.
    """

    tree: Tree
    depths: torch.Tensor
    width: int
    draft_index: torch.Tensor
    visible: torch.Tensor
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def build(cls, tree: Tree, heads: int, vocabulary: int, device: torch.device) -> "TreeBuffers":
        """Buffers of `tree` for a model with `heads` heads; MismatchError when it is deeper or wider than the model."""
        if tree.depth > heads:
            path = next(path for path in tree.choices if len(path) > heads)
            raise MismatchError(
                f"choice {list(path)} has depth {len(path)}, but there are {heads} heads; cut the tree or add heads"
            )
        if tree.max_rank >= vocabulary:
            path = next(path for path in tree.choices if path[-1] == tree.max_rank)
            raise MismatchError(
                f"choice {list(path)} takes rank {path[-1]}, but there are {vocabulary} tokens to rank; cut the tree"
            )
        visible = torch.eye(tree.size, dtype=torch.bool)
        for node, parent in enumerate(tree.parents):
            if parent >= 0:
                visible[node] |= visible[parent]
        width = tree.max_rank + 1
        index = [(len(path) - 1) * width + path[-1] for path in tree.choices]
        return cls(
            tree=tree,
            depths=torch.tensor(tree.depths, device=device),
            width=width,
            draft_index=torch.tensor(index, dtype=torch.long, device=device),
            visible=visible.to(device),
            children=tuple(tree.children(node) for node in range(tree.size)),
        )
