"""`treeopt calibrate`: how far down each head's guesses the true token stands, for every token of every answer.

An answer is scored in one teacher-forced pass of the backbone over prompt and answer; heads are then evaluated on
its hidden states in slices of bounded size. Nothing is decoded again and no top-k is needed: a rank is a count. Only
the heads' probabilities, where they are asked for, take one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from treeopt.artifact import provenance
from treeopt.measure.generations import Generation
from treeopt.measure.states import answer_states, answer_truths, batches
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads, rank_of, top_probabilities
from treeopt.search.ranks import UNKNOWN, RankTable

LOGITS_AT_ONCE = 2**20  # numbers: few enough to stay in a processor's cache until they are counted,
ROWS_AT_ONCE = 64  # but never fewer rows than make a matrix product worth while
SAVE_EVERY = 16  # batches between two saves of what is done


class Scored(NamedTuple):
    """One answer's part of the table: ranks int16 [n, K], probabilities float32 [n, K, R] or None."""

    ranks: np.ndarray
    probabilities: np.ndarray | None


def calibrate(
    backbone: Backbone,
    heads: MedusaHeads,
    generations: Sequence[Generation],
    *,
    width: int = 16,
    probabilities: bool = False,
    partial: Path | None = None,
    **facts: Any,
) -> RankTable:
    """Score all answers: the rank table [P, K], one row an answer token, ranks below `width` kept.

    With `probabilities`, the table also has those of each head's `width` first guesses. With `partial`, what is
    done is saved there now and then, taken up by the next call, and deleted at the end.
    """
    origin = provenance(
        model=backbone.name,
        model_sha256=backbone.sha256,
        heads_sha256=heads.sha256,
        dtype=backbone.dtype_name,
        device=str(backbone.device),
        **facts,
    )
    done = _resume(partial, origin, width, probabilities)
    waiting = [generation for generation in generations if generation.key not in done]
    with tqdm(total=len(waiting), desc="calibrate", unit="answer", disable=None) as progress:
        for number, batch in enumerate(batches(waiting), start=1):
            parts = score(backbone, heads, batch, width, probabilities)
            for generation, part in zip(batch, parts, strict=True):
                done[generation.key] = part
            if partial is not None and number % SAVE_EVERY == 0:
                scored = [generation.key for generation in generations if generation.key in done]
                _table(done, generations, width, origin | {"scored": scored}).save(partial)
            progress.update(len(batch))
    table = _table(done, generations, width, origin)
    if partial is not None:
        partial.unlink(missing_ok=True)
    return table


@torch.inference_mode()
def score(
    backbone: Backbone, heads: MedusaHeads, batch: Sequence[Generation], width: int, probabilities: bool
) -> list[Scored]:
    """Ranks of each answer, and probabilities where they are asked for, from one forward pass over the batch."""
    states = answer_states(backbone, batch)
    truths = answer_truths(batch, heads.heads).to(states.device)
    step = max(ROWS_AT_ONCE, LOGITS_AT_ONCE // (heads.heads * backbone.vocabulary))
    ranks, given = [], []
    for low in range(0, len(states), step):
        logits = heads(states[low : low + step])
        ranks.append(rank_of(logits, truths[:, low : low + step].clamp(min=0)))
        if probabilities:
            given.append(top_probabilities(logits, width))
    lengths = [len(generation.answer_ids) for generation in batch]
    kept = torch.cat(ranks, dim=1).clamp(max=width).masked_fill(truths == UNKNOWN, UNKNOWN)
    parts = [part.numpy().astype(np.int16) for part in kept.T.cpu().split(lengths)]
    if not probabilities:
        return [Scored(part, None) for part in parts]
    shares = torch.cat(given, dim=1).transpose(0, 1).cpu().split(lengths)
    return [Scored(part, share.numpy()) for part, share in zip(parts, shares, strict=True)]


def _resume(
    partial: Path | None, origin: dict[str, Any], width: int, probabilities: bool
) -> dict[str, Scored]:
    """What an interrupted run with this model, these heads and these answers has scored; else nothing."""
    if partial is None or not partial.is_file():
        return {}
    table = RankTable.load(partial)
    same = ("model_sha256", "heads_sha256", "generations_sha256", "dtype")
    if table.width != width or any(table.provenance.get(name) != origin.get(name) for name in same):
        return {}
    given = table.probabilities
    if probabilities != (given is not None):
        return {}
    rows = ((key, table.sequence == i) for i, key in enumerate(table.provenance["scored"]))
    return {key: Scored(table.ranks[own], None if given is None else given[own]) for key, own in rows}


def _table(
    done: dict[str, Scored], generations: Sequence[Generation], width: int, origin: dict[str, Any]
) -> RankTable:
    """The rank table of what is done, in the order of the answers."""
    scored = [generation for generation in generations if generation.key in done]
    parts = [done[generation.key].ranks for generation in scored]
    given = [share for generation in scored if (share := done[generation.key].probabilities) is not None]
    return RankTable(
        ranks=np.concatenate(parts),
        sequence=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
        offset=np.concatenate([np.arange(len(part), dtype=np.int32) for part in parts]),
        ids=tuple(generation.id for generation in scored),
        categories=tuple(generation.category for generation in scored),
        ended=tuple(generation.ended for generation in scored),
        width=width,
        provenance=origin,
        probabilities=np.concatenate(given) if given else None,
    )
