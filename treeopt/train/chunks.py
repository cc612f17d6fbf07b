"""Losses over a vocabulary, some rows at a time: the logits of all rows together are what would fill the memory.

Each chunk's gradient is taken as soon as its loss is known, while its logits are still in the processor's cache, so
on a CPU this is also faster (`benchmarks/head_loss.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}

Loss = Callable[..., torch.Tensor]


def chunks(vocabulary: int, *rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Tensors of as many rows, cut alike so that a piece's logits are few enough."""
    size = max(1, LOGITS_AT_ONCE.get(rows[0].device.type, 2**28) // vocabulary)
    return zip(*(tensor.split(size) for tensor in rows), strict=True)


def chunked_sum(
    loss: Loss,
    vocabulary: int,
    hidden: torch.Tensor,
    *others: torch.Tensor,
    parameters: Sequence[torch.Tensor] = (),
) -> torch.Tensor:
    """`loss(hidden, *others)`, which is a sum over rows, with gradients for `hidden` [P, H] and `parameters`.

    `parameters` are all tensors that `loss` depends on besides and that are to have gradients.
    """
    if not torch.is_grad_enabled():
        parts = [loss(*pieces) for pieces in chunks(vocabulary, hidden, *others)]
        return torch.stack(parts).sum() if parts else hidden.new_zeros((), dtype=torch.float32)
    result: torch.Tensor = _ChunkedSum.apply(loss, vocabulary, hidden, others, *parameters)
    return result


class _ChunkedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        loss: Loss,
        vocabulary: int,
        hidden: torch.Tensor,
        others: tuple[torch.Tensor, ...],
        *parameters: torch.Tensor,
    ) -> torch.Tensor:
        total = hidden.new_zeros((), dtype=torch.float32)
        gradients = [torch.zeros_like(parameter) for parameter in parameters]
        pieces = []
        for piece, *constants in chunks(vocabulary, hidden, *others):
            with torch.enable_grad():
                rows = piece.detach().requires_grad_()
                value = loss(rows, *constants)
            own, *rest = torch.autograd.grad(value, [rows, *parameters])
            total += value.detach()
            pieces.append(own)
            for gradient, part in zip(gradients, rest, strict=True):
                gradient += part
        ctx.save_for_backward(torch.cat(pieces) if pieces else torch.zeros_like(hidden), *gradients)
        return total

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor) -> Any:
        hidden, *parameters = ctx.saved_tensors
        return None, None, hidden * scale, None, *(gradient * scale for gradient in parameters)
