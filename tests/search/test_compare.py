"""The comparison of estimators against its parts, done one at a time."""

import numpy as np
import pytest

from tests.strategies import rank_table
from treeopt.errors import InputError
from treeopt.search.baselines import chain
from treeopt.search.compare import compare
from treeopt.search.estimate import ESTIMATORS
from treeopt.search.grow import grow
from treeopt.search.on_policy import on_policy
from treeopt.search.replay import replay
from treeopt.search.split import folds_by_prompt

FOLDS = 3
SIZES = (2, 6)


@pytest.fixture(scope="module")
def table():
    """Two answers to each of nine prompts, some empty; heads that are right together."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 30, 18)
    easy = rng.random((lengths.sum(), 1)) < 0.5
    ranks = np.minimum(rng.geometric(np.where(easy, 0.8, 0.3), (lengths.sum(), 3)) - 1, 4)
    return rank_table(ranks, lengths.tolist(), width=4, ids=[f"p{number // 2}" for number in range(18)])


@pytest.fixture(scope="module")
def compared(table):
    return {
        (line.name, line.tokens): line for line in compare(table, SIZES, {"chain": chain(3)}, folds=FOLDS)
    }


def test_every_way_is_there_at_every_size(compared):
    ways = [*ESTIMATORS, *(f"{name}, visited rows" for name in ESTIMATORS), "random dense", "best dense"]
    wanted = {(name, size) for name in ways for size in SIZES}
    assert set(compared) == wanted | {("chain", 4), ("independent", 4)}


def test_trees_are_judged_on_the_fold_that_they_were_not_grown_from(table, compared):
    fold = folds_by_prompt(table.ids, FOLDS)
    for name, make in ESTIMATORS.items():
        for size in SIZES:
            for suffix in ("", ", visited rows"):
                steps, predicted = 0, 0.0
                for number in range(FOLDS):
                    fitted = table.select(np.flatnonzero(fold != number).tolist())
                    judged = table.select(np.flatnonzero(fold == number).tolist())
                    growth = on_policy(fitted, make, size) if suffix else grow(make(fitted, None), size)
                    steps += replay(judged, growth.tree(growth.size)).steps
                    predicted += judged.positions / growth.tokens_per_step[-1]
                line = compared[f"{name}{suffix}", size]
                assert line.tokens_per_step == pytest.approx(table.positions / steps)
                assert line.predicted == pytest.approx(table.positions / predicted)


def test_given_trees_are_replayed_on_all_prompts(table, compared):
    line = compared["chain", 4]
    assert line.tokens_per_step == replay(table, chain(3)).tokens_per_step
    assert (line.predicted, line.nodes) == (None, 4)


def test_differences_are_to_independent_with_the_same_draws(compared):
    for (_, size), line in compared.items():
        reference = compared["independent", size]
        assert line.difference == pytest.approx(line.tokens_per_step - reference.tokens_per_step)
        low, high = line.difference_interval
        assert low <= high
        assert line.interval[0] <= line.tokens_per_step <= line.interval[1]
    assert compared["independent", 6].difference_interval == (0.0, 0.0)


def test_one_prompt_is_too_few():
    table = rank_table(np.zeros((6, 2), np.int16), [3, 3], width=2, ids=["p", "p"])
    with pytest.raises(InputError, match="one prompt"):
        compare(table, [3])


def test_a_seed_gives_the_same_comparison(table):
    assert compare(table, [3], folds=2, seed=5) == compare(table, [3], folds=2, seed=5)
