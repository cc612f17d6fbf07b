"""Teacher forcing: the backbone's hidden states along answers that it has already written, in one pass.

Row o of an n-token answer is the state before `answer[o]`; the truth of head k there is `answer[o + k]`. Calibration
ranks these truths and training learns them.
"""

from collections.abc import Iterator, Sequence

import torch

from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.model.backbone import Backbone
from treeopt.search.ranks import UNKNOWN

__all__ = ["UNKNOWN", "answer_states", "answer_truths", "batches"]

TOKENS_AT_ONCE = 2048  # of one forward pass, padding included


def batches(generations: Sequence[Generation]) -> Iterator[list[Generation]]:
    """Answers of like length together, at most TOKENS_AT_ONCE tokens a batch with their padding."""
    batch: list[Generation] = []
    for generation in sorted(generations, key=_length, reverse=True):
        if batch and (len(batch) + 1) * _length(batch[0]) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(generation)
    if batch:
        yield batch


@torch.inference_mode()
def answer_states(backbone: Backbone, batch: Sequence[Generation]) -> torch.Tensor:
    """Hidden states [P, H] of all answer rows of a batch, answer by answer.

    Sequences are padded at their right end, where causal attention never looks.
    Errors: InputError for an answer longer than the model's context.
    """
    sequences = [generation.prompt_ids + generation.answer_ids[:-1] for generation in batch]
    longest = max(map(len, sequences))
    if longest > backbone.context_limit:
        name = next(g.key for g, s in zip(batch, sequences, strict=True) if len(s) > backbone.context_limit)
        raise InputError(
            f"answer {name}: longer than the {backbone.context_limit} tokens that {backbone.name} takes; remove it"
        )
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in sequences], device=backbone.device)
    hidden = backbone.states(tokens, use_cache=False)
    firsts = [len(generation.prompt_ids) - 1 for generation in batch]
    rows = [
        hidden[b, first : first + len(g.answer_ids)]
        for b, (first, g) in enumerate(zip(firsts, batch, strict=True))
    ]
    return torch.cat(rows)


def answer_truths(batch: Sequence[Generation], heads: int) -> torch.Tensor:
    """Token ids [K, P]: row k - 1 holds each answer shifted by k places, UNKNOWN where it has ended."""
    return torch.cat([_truths(generation.answer_ids, heads) for generation in batch], dim=1)


def _truths(answer: list[int], heads: int) -> torch.Tensor:
    n = len(answer)
    padded = torch.tensor([*answer, *([UNKNOWN] * heads)])
    return torch.stack([padded[k : k + n] for k in range(1, heads + 1)])


def _length(generation: Generation) -> int:
    return len(generation.prompt_ids) + len(generation.answer_ids)
