"""Fixed and rebuilt trees side by side."""

from dataclasses import replace

import numpy as np
import pytest

from tests.strategies import rank_table
from treeopt.errors import InputError
from treeopt.search.compare import compare
from treeopt.search.dynamic import likeliest_paths, replay_dynamic
from treeopt.search.headroom import headroom
from treeopt.search.reliability import cross_calibrated
from treeopt.search.split import folds_by_prompt

FOLDS, SIZES = 3, (3, 8)
WAYS = (
    "independent",
    "rebuilt",
    "rebuilt, threshold",
    "rebuilt, calibrated",
    "rebuilt, threshold, calibrated",
)


@pytest.fixture(scope="module")
def table():
    """Two answers to each of ten prompts; heads know when they are likely to be right, and say too much."""
    rng = np.random.default_rng(4)
    rows, heads, width = 4000, 3, 4
    sure = rng.random((rows, heads, 1)) ** 0.5
    shares = sure * (1 - sure) ** np.arange(width)
    shares = -np.sort(-shares, axis=2)
    ranks = (rng.random((rows, heads, 1)) > 0.8 * np.cumsum(shares, axis=2)).sum(axis=2)
    table = rank_table(ranks, [200] * 20, width=width, ids=[f"p{number // 2}" for number in range(20)])
    return replace(table, probabilities=shares.astype(np.float32))


@pytest.fixture(scope="module")
def lines(table):
    return {(line.name, line.tokens): line for line in headroom(table, SIZES, folds=FOLDS)}


def test_every_way_is_there_at_every_size(lines):
    assert set(lines) == {(name, size) for name in WAYS for size in SIZES}


def test_the_fixed_tree_is_that_of_the_other_comparison(table, lines):
    for line in compare(table, SIZES, folds=FOLDS):
        if line.name == "independent":
            assert lines["independent", line.tokens] == line


def test_rebuilt_trees_are_replayed_on_all_prompts(table, lines):
    fold = folds_by_prompt(table.ids, FOLDS)
    for suffix, given in (("", table.probabilities), (", calibrated", cross_calibrated(table, fold))):
        paths = likeliest_paths(given, table.ranks, max(SIZES) - 1)
        for size in SIZES:
            line = lines[f"rebuilt{suffix}", size]
            replayed = replay_dynamic(table, paths.accepted(size))
            assert line.tokens_per_step == replayed.tokens_per_step
            assert line.nodes == pytest.approx(paths.sizes(size)[replayed.rows].mean())


def test_heads_that_know_when_they_are_right_gain(lines):
    for size in SIZES:
        fixed = lines["independent", size]
        for name in WAYS[1:]:
            line = lines[name, size]
            assert line.difference == pytest.approx(line.tokens_per_step - fixed.tokens_per_step)
            assert line.difference > 0, line
            assert line.nodes == pytest.approx(size, rel=0.02)
        for kind in ("rebuilt", "rebuilt, threshold"):
            too_much, right = lines[kind, size], lines[f"{kind}, calibrated", size]
            assert too_much.predicted > 1.1 * too_much.tokens_per_step
            assert right.predicted == pytest.approx(right.tokens_per_step, rel=0.05)


def test_what_cannot_be_judged_is_refused(table):
    with pytest.raises(
        InputError, match="no probabilities; make them with `treeopt calibrate --probabilities`"
    ):
        headroom(replace(table, probabilities=None), [3])
    with pytest.raises(InputError, match="one prompt"):
        headroom(table.select([0, 1]), [3])
