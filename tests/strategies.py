"""Hypothesis strategies for the project's nouns, small enough for the slow twins."""

import numpy as np
from hypothesis import strategies as st

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.tree import Tree

GRID = 64
"""Accuracies are multiples of 1 / GRID, so that products of a few and their sums are exact in float64."""


@st.composite
def trees(draw, max_depth=4, max_rank=3, max_leaves=8):
    """Any tree, the bare root too: some paths and their ancestors."""
    path = st.lists(st.integers(0, max_rank), min_size=1, max_size=max_depth)
    return Tree.from_choices(draw(st.lists(path, max_size=max_leaves)), close=True)


@st.composite
def accuracy_tables(draw, max_heads=3, max_ranks=4):
    """Any table, with zeros, ties, and accuracies that rise with rank."""
    heads, ranks = draw(st.integers(1, max_heads)), draw(st.integers(1, max_ranks))
    cuts = st.lists(st.integers(0, GRID), min_size=ranks, max_size=ranks).map(sorted)
    return AccuracyTable(np.array([np.diff(draw(cuts), prepend=0) / GRID for _ in range(heads)]))


@st.composite
def rank_tables(draw, max_heads=4, max_width=4, max_answers=5, max_length=12):
    """Any rank table, with misses, empty answers and prompts that have several answers."""
    heads, width = draw(st.integers(1, max_heads)), draw(st.integers(1, max_width))
    lengths = draw(st.lists(st.integers(0, max_length), min_size=1, max_size=max_answers))
    rows = sum(lengths)
    flat = draw(st.lists(st.integers(0, width), min_size=rows * heads, max_size=rows * heads))
    name = st.sampled_from(["a", "b", "c", "d"])
    return rank_table(
        np.array(flat, np.int64).reshape(rows, heads),
        lengths,
        width=width,
        ids=[draw(name) for _ in lengths],
        categories=[draw(name) for _ in lengths],
    )


def rank_table(ranks, lengths, *, width, ids=None, categories=None):
    """A rank table of answers of these lengths; what lies past an answer's end is made unknown."""
    offset = np.concatenate([np.arange(length) for length in [0, *lengths]])
    left = np.repeat(lengths, lengths) - offset
    heads = np.arange(1, ranks.shape[1] + 1)
    return RankTable(
        ranks=np.where(left[:, None] > heads, ranks, UNKNOWN),
        sequence=np.repeat(np.arange(len(lengths)), lengths),
        offset=offset,
        ids=tuple(ids or (f"prompt-{number}" for number in range(len(lengths)))),
        categories=tuple(categories or ("all",) * len(lengths)),
        ended=("eos",) * len(lengths),
        width=width,
        provenance={"model": "none"},
    )
