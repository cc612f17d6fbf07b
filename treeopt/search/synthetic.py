"""Rank tables that no model made: published accuracies continued to more ranks, and ranks drawn from accuracies."""

import numpy as np

from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.ranks import UNKNOWN, RankTable


def extrapolated(accuracies: AccuracyTable, width: int) -> AccuracyTable:
    """The table continued to `width` ranks, each head along a power law of its own: a^(i) = c (i + 1)^-b.

    c and b are of the least-squares line of log accuracy on log (i + 1), over the head's known guesses but the
    top one, which stands apart from the others. InputError where fewer than two of those are above 0, and where
    a head would sum above 1.
    """
    place = np.log(np.arange(1, max(width, accuracies.width) + 1))  # [ranks] log (i + 1)
    rows = []
    for head, row in enumerate(accuracies.values, start=1):
        known = 1 + np.flatnonzero(row[1:] > 0)
        if len(known) < 2:
            raise InputError(
                f"accuracies: head {head} has {len(known)} guesses above 0 beside its top one; give at least 2"
            )
        slope, start = np.polyfit(place[known], np.log(row[known]), 1)
        rows.append(np.concatenate([row, np.exp(start + slope * place[len(row) :])]))
    return AccuracyTable(np.stack(rows)[:, :width], where="extrapolated accuracies")


def drawn_ranks(accuracies: AccuracyTable, answers: int, length: int, seed: int = 0) -> RankTable:
    """Ranks of `answers` answers of `length` tokens, each head's drawn from its accuracies, all independently.

    This is the world that the product of accuracies describes (Cai et al. 2024, sec. 2.3.3): what is replayed here
    differs from the product's expectation by chance, and by the last steps of an answer, whose guesses lie past
    its end.
    """
    rng = np.random.default_rng(seed)
    rows, heads = answers * length, accuracies.heads
    upto = np.cumsum(accuracies.values, axis=1)  # [K, R]
    draws = rng.random((rows, heads))
    ranks = np.stack(
        [np.searchsorted(upto[head], draws[:, head], side="right") for head in range(heads)], axis=1
    )
    offset = np.tile(np.arange(length), answers)
    known = offset[:, None] + np.arange(1, heads + 1) < length
    return RankTable(
        ranks=np.where(known, ranks, UNKNOWN),
        sequence=np.repeat(np.arange(answers), length),
        offset=offset,
        ids=tuple(f"drawn-{number}" for number in range(answers)),
        categories=("drawn",) * answers,
        ended=("limit",) * answers,
        width=accuracies.width,
    )
