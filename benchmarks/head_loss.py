"""A training step of five heads over a large vocabulary: chunk by chunk against all logits at once. Last line: JSON.

python benchmarks/head_loss.py
"""

import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

from treeopt.train.chunks import chunked_sum
from treeopt.train.losses import cross_entropy_sum

HEADS, POSITIONS, HIDDEN, VOCABULARY = 5, 1024, 576, 49152


def main() -> None:
    torch.manual_seed(0)
    weight = (torch.randn(VOCABULARY, HIDDEN) * 0.05).bfloat16()
    features = torch.randn(HEADS, POSITIONS, HIDDEN)
    truths = torch.randint(0, VOCABULARY, (HEADS, POSITIONS))

    def loss(rows: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return cross_entropy_sum(functional.linear(rows.bfloat16(), weight), truth)

    def whole(hidden: torch.Tensor) -> torch.Tensor:
        logits = functional.linear(hidden.bfloat16(), weight)
        return torch.stack(
            [cross_entropy_sum(head, truth) for head, truth in zip(logits, truths, strict=True)]
        )

    def chunked(hidden: torch.Tensor) -> torch.Tensor:
        parts = [chunked_sum(loss, VOCABULARY, hidden[head], truths[head]) for head in range(HEADS)]
        return torch.stack(parts)

    times: dict[str, list[float]] = {"whole": [], "chunked": []}
    gradients = {}
    for _ in range(6):
        for name, objective in (("whole", whole), ("chunked", chunked)):
            hidden = nn.Parameter(features.clone())
            started = time.perf_counter()
            objective(hidden).sum().backward()
            times[name].append(time.perf_counter() - started)
            gradients[name] = hidden.grad
    whole_s, chunked_s = (statistics.median(taken[1:]) for taken in times.values())
    assert gradients["whole"] is not None and gradients["chunked"] is not None
    difference = float(
        (gradients["whole"] - gradients["chunked"]).abs().max() / gradients["whole"].abs().max()
    )
    print(
        f"{POSITIONS} positions, {HEADS} heads, {VOCABULARY} ids: whole {whole_s:.2f} s, chunked {chunked_s:.2f} s"
    )
    result = {
        "whole_s": whole_s,
        "chunked_s": chunked_s,
        "ratio": whole_s / chunked_s,
        "difference": difference,
    }
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))


if __name__ == "__main__":
    main()
