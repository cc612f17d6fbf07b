"""Medusa heads, evaluated together (Cai et al. 2024, section 2.1.1).

Head k = 1..K takes the hidden state before the root and scores the token k places after it:
logits_k = W2_k (x + SiLU(W1_k x + b1_k)), with L such residual layers and W2_k either the head's own or the
backbone's language-model head.
"""

from collections.abc import Callable

import torch
from torch import nn

Projection = Callable[[torch.Tensor], torch.Tensor]


class MedusaHeads(nn.Module):
    """K heads of L residual layers, stacked: one matmul a layer, and one for a shared LM head.

    `weight` [L, K, H, H] and `bias` [L, K, H]; `lm_weight` [K, V, H] where each head has its own LM head, else None
    and `project` (the backbone's LM head, [..., H] -> [..., V]) serves all.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor,
        lm_weight: torch.Tensor | None = None,
        project: Projection | None = None,
    ) -> None:
        super().__init__()
        assert weight.ndim == 4 and bias.shape == weight.shape[:3]
        assert (lm_weight is None) != (project is None)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        self.lm_weight = None if lm_weight is None else nn.Parameter(lm_weight)
        self._project = [project]  # in a list, so that the backbone's head is no submodule of the heads
        self.sha256 = ""

    @classmethod
    def untrained(
        cls,
        heads: int,
        layers: int,
        hidden_size: int,
        project: Projection | None = None,
        lm_weight: torch.Tensor | None = None,
    ) -> "MedusaHeads":
        """Heads that repeat the LM head, as the paper starts training: residual layers of zeros.

        They share `project`, or each starts with a copy of `lm_weight` [V, H].
        """
        shape = (layers, heads, hidden_size, hidden_size)
        own = None if lm_weight is None else lm_weight.repeat(heads, 1, 1)
        return cls(torch.zeros(shape), torch.zeros(shape[:3]), own, project)

    @property
    def heads(self) -> int:
        """K."""
        return self.weight.shape[1]

    @property
    def layers(self) -> int:
        """L."""
        return self.weight.shape[0]

    def first(self, count: int) -> "MedusaHeads":
        """The first `count` heads, as much as a tree of that depth needs; weights are shared, not copied."""
        lm_weight = None if self.lm_weight is None else self.lm_weight[:count]
        return MedusaHeads(self.weight[:, :count], self.bias[:, :count], lm_weight, self._project[0])

    def features(self, hidden: torch.Tensor) -> torch.Tensor:
        """[P, H] -> [K, P, H], the states that the LM heads read."""
        states = hidden.expand(self.heads, *hidden.shape)
        for layer, (weight, bias) in enumerate(zip(self.weight, self.bias, strict=True)):
            if layer == 0:  # all heads read the same state, so this is one plain product
                update = nn.functional.linear(hidden, weight.flatten(0, 1), bias.flatten())
                update = update.unflatten(1, (self.heads, -1)).transpose(0, 1)
            else:
                update = torch.baddbmm(bias[:, None], states, weight.transpose(1, 2))
            states = states + nn.functional.silu(update)
        return states

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [K, P, V] for hidden states [P, H]."""
        states = self.features(hidden)
        if self.lm_weight is not None:
            return torch.bmm(states, self.lm_weight.transpose(1, 2))
        project = self._project[0]
        assert project is not None
        return project(states)


def top_ranks(logits: torch.Tensor, width: int) -> torch.Tensor:
    """The `width` best token ids of each row of [..., V], in the order of a rank table: logit descending, id ascending.

    `torch.topk` leaves the order of equal logits open, so rows where two of the best are equal are sorted again.
    """
    width = min(width, logits.shape[-1])
    values, ids = logits.topk(min(width + 1, logits.shape[-1]))
    ids = ids[..., :width]
    tied = (values[..., 1:] == values[..., :-1]).any(-1)
    if tied.any():
        ids = ids.clone()
        worst = values[..., width - 1]
        for row in tied.nonzero().tolist():
            where = tuple(row)
            found = (logits[where] >= worst[where]).nonzero()[:, 0]
            order = logits[where][found].sort(descending=True, stable=True).indices[:width]
            ids[where] = found[order]
    return ids


def top_probabilities(logits: torch.Tensor, width: int) -> torch.Tensor:
    """What the softmax of logits [..., V] gives to ranks 0 to `width` - 1: float32 [..., width], falling.

    0 where there are fewer ids, and for all ranks where a logit is no number (NaN).
    """
    scores = logits.float()
    best = scores.topk(min(width, scores.shape[-1])).values
    shares = (best - scores.logsumexp(-1, keepdim=True)).exp().nan_to_num(nan=0.0)
    falling = shares.clamp(max=1).cummin(-1).values  # exp rounds, and may rise where two logits nearly tie
    return nn.functional.pad(falling, (0, width - best.shape[-1]))


def rank_of(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The rank of `truth` [...] among `logits` [..., V]: how many ids come before it in the order of `top_ranks`.

    A count, so nothing is sorted; ids of equal logit count only where they are lower than the truth. What is not
    known to come after the truth comes before it, so that logits that are not numbers (NaN) never make a good rank.
    """
    own = logits.gather(-1, truth[..., None])
    ranks = (~(logits <= own)).sum(-1)
    tied = (logits == own).sum(-1) > 1
    if tied.any():
        before = torch.arange(logits.shape[-1], device=logits.device) < truth[tied][:, None]
        ranks[tied] += ((logits[tied] == own[tied]) & before).sum(-1)
    return ranks
