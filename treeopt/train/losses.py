"""Training objectives (Cai et al. 2024, section 2.2)."""

import torch
from torch.nn import functional

from treeopt.measure.states import UNKNOWN

DECAY = 0.8  # lambda_k = DECAY ** k


def medusa1_loss(logits: torch.Tensor, truths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """L_1 = sum over heads k of lambda_k * CE(p^(k), truth of head k), equation 1 of the paper.

    logits [K, P, V], truths [K, P] with UNKNOWN where an answer has ended; such places carry no loss, and a head
    without any known truth in the batch contributes none. Returns the sum, and each head's own mean loss [K].
    """
    per_head = torch.stack(
        [
            functional.cross_entropy(head.float(), truth, ignore_index=UNKNOWN, reduction="sum")
            for head, truth in zip(logits, truths, strict=True)
        ]
    ) / (truths != UNKNOWN).sum(1).clamp(min=1)
    weights = DECAY ** torch.arange(1, len(logits) + 1, device=logits.device)
    return (weights * per_head).sum(), per_head.detach()
