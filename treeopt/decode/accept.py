"""Acceptance rules, as pure functions.

Greedy and sampled acceptance are one rule: at every node the backbone draws its next token, and a child is accepted
when it is the token drawn at its parent. Greedy drawing is the case without noise.
"""

from collections.abc import Sequence

import torch


def draw(logits: torch.Tensor, temperature: float = 0.0, noise: torch.Tensor | None = None) -> torch.Tensor:
    """The token drawn at each node, [..., V] -> [...]: argmax(logits / T + noise), and argmax(logits) at T = 0.

    Gumbel-max: with standard Gumbel noise the token has the distribution softmax(logits / T).
    """
    if temperature == 0:
        return logits.argmax(-1)
    assert noise is not None
    return (logits.float() / temperature + noise).argmax(-1)


def follow(children: Sequence[Sequence[int]], tokens: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """The accepted nodes, root first: from the root on, the child whose token is the one drawn at its parent."""
    path = [0]
    while True:
        node = path[-1]
        accepted = next((child for child in children[node] if tokens[child] == drawn[node]), None)
        if accepted is None:
            return path
        path.append(accepted)
