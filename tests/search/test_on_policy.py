"""Growth from visited rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import rank_table, rank_tables
from treeopt.errors import InputError
from treeopt.search.estimate import ESTIMATORS, Independent
from treeopt.search.grow import grow
from treeopt.search.on_policy import ROUNDS, on_policy
from treeopt.search.replay import replay

MAKERS = st.sampled_from(list(ESTIMATORS.values()))


def literal_on_policy(table, make, budget):
    """Trees of all rounds, from tables that hold the visited rows alone, and the best of them."""
    weights = None
    rounds: list = []
    for _ in range(ROUNDS + 1):
        growth = grow(make(table, weights), budget)
        tree = growth.tree(growth.size)
        rounds.append((replay(table, tree).tokens_per_step, len(rounds), growth))
        if len(rounds) > 1 and tree == rounds[-2][2].tree(rounds[-2][2].size):
            break
        weights = np.zeros(table.positions, np.int64)
        start = 0
        for tokens in sum(replay(table, tree).step_tokens, ()):
            weights[start] += 1
            start += tokens
    return max(rounds, key=lambda entry: entry[:2])


@given(rank_tables(max_heads=3, max_width=3).filter(lambda table: table.positions), MAKERS, st.integers(1, 9))
def test_the_best_round_by_replay_is_kept(table, make, budget):
    growth = on_policy(table, make, budget)
    rate, turn, wanted = literal_on_policy(table, make, budget)
    assert (growth.paths, growth.values) == (wanted.paths, wanted.values)
    assert growth.estimator == f"{wanted.estimator}{', visited rows' if turn else ''}"
    plain = grow(make(table, None), budget)
    assert rate >= replay(table, plain.tree(plain.size)).tokens_per_step


def test_guesses_that_a_step_leaps_over_do_not_count():
    """Guess 0 is right more often, but at rows in pairs, of which a step leaps over one; 2 is a miss."""
    pattern = [0, 0, 2, 0, 0, 2, 1, 2, 1, 2, 1, 2]
    table = rank_table(np.array(pattern * 10)[:, None], [120], width=2)
    plain, visited = grow(Independent.of_ranks(table), 2), on_policy(table, Independent.of_ranks, 2)
    assert plain.paths[1] == (0,)
    assert visited.paths[1] == (1,)
    assert visited.estimator == "independent, visited rows"
    assert replay(table, plain.tree(2)).steps == 100
    assert replay(table, visited.tree(2)).steps == 90


def test_limits_and_provenance_are_those_of_growth():
    rng = np.random.default_rng(0)
    table = rank_table(rng.integers(0, 4, (300, 4)), [60] * 5, width=4)
    for make in ESTIMATORS.values():
        growth = on_policy(table, make, 20, max_depth=2, max_rank=1, provenance={"seed": 3})
        assert max(map(len, growth.paths)) == 2
        assert max(max(path) for path in growth.paths[1:]) == 1
        assert growth.provenance == {"seed": 3}
        assert growth.stopped is not None


def test_a_budget_below_one_is_refused():
    with pytest.raises(InputError, match="budget: 0"):
        on_policy(rank_table(np.zeros((3, 2), np.int16), [3], width=2), Independent.of_ranks, 0)
