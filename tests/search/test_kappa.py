"""Kappas against the likelihood of held-out rows, row by row."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.literal import followers, head_counts, shares
from tests.strategies import rank_table, rank_tables
from treeopt.search.kappa import KAPPAS, fit_kappas, held_out
from treeopt.search.ranks import UNKNOWN
from treeopt.search.split import folds_by_prompt


def literal_log_likelihood(table, weights, folds, depth, kappa):
    """Of each row's rank at `depth` (from 2), given the ones before, from the rows of the other folds."""
    fold = folds_by_prompt(table.ids, folds)[table.sequence]
    total = 0.0
    for row, ranks in enumerate(table.ranks.tolist()):
        *path, rank = ranks[:depth]
        if not weights[row] or rank == UNKNOWN or table.width in path:
            continue
        others = np.where(fold == fold[row], 0, weights)
        accuracy = shares(head_counts(table, depth - 1, others))[rank]
        counts = followers(table, tuple(path), others)
        if accuracy == 0:
            continue
        if kappa == inf:
            estimate = accuracy
        elif kappa == 0 and counts[rank] == 0:
            return -inf
        else:
            estimate = (counts[rank] + kappa * accuracy) / (sum(counts.values()) + kappa)
        total += int(weights[row]) * log(estimate)
    return total


@st.composite
def tables_and_weights(draw):
    table = draw(rank_tables(max_heads=3, max_width=3, max_length=8).filter(lambda table: table.positions))
    times = st.lists(st.integers(0, 2), min_size=table.positions, max_size=table.positions)
    return table, np.array(draw(times))


@given(tables_and_weights(), st.integers(1, 3), st.sampled_from([inf, 1e3, 1.0, 0.1, 0.0]))
def test_the_likelihood_is_that_of_the_rows(pair, folds, kappa):
    table, weights = pair
    for depth, cases in enumerate(held_out(table, weights, folds), start=2):
        wanted = literal_log_likelihood(table, weights, folds, depth, kappa)
        assert cases.log_likelihood(kappa) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@given(tables_and_weights())
def test_there_is_one_kappa_a_depth_and_it_is_the_best(pair):
    table, weights = pair
    kappas = fit_kappas(table, weights)
    assert len(kappas) == table.heads - 1
    for kappa, cases in zip(kappas, held_out(table, weights), strict=True):
        assert cases.log_likelihood(kappa) == max(map(cases.log_likelihood, KAPPAS))


def random_ranks(rng, together):
    """Two heads over 40 prompts of 50 rows; the second repeats the first, or knows nothing of it."""
    first, second = rng.integers(0, 4, (2, 2000))
    return rank_table(np.stack([first, first if together else second], axis=1), [50] * 40, width=4)


def test_heads_that_repeat_each_other_are_hardly_shrunk_and_others_wholly():
    rng = np.random.default_rng(0)
    assert fit_kappas(random_ranks(rng, together=True))[0] < 1
    assert fit_kappas(random_ranks(rng, together=False))[0] > 1e3


def test_one_prompt_is_no_evidence():
    assert fit_kappas(rank_table(np.zeros((9, 3), np.int16), [9], width=2)) == (inf, inf)
