"""Growth against its slow twins: exhaustive search over trees, and a sort of all paths."""

import heapq
import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import accuracy_tables
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.accuracy_files import read_accuracy
from treeopt.search.estimate import Independent
from treeopt.search.grow import Growth, grow
from treeopt.tree import Tree

PUBLISHED = Path(__file__).parents[2] / ".." / "shared" / "data" / "published_head_accuracy.json"
FULL = [[0.6, 0.2, 0.1], [0.5, 0.2, 0.05], [0.4, 0.1, 0.05]]
SKIPPED = [[0.5, 0.02, 0.2], [0.1, 0, 0]]


def independent(values):
    return Independent(AccuracyTable(np.array(values, float)))


def value(table, path):
    return math.prod(table.values[head, rank] for head, rank in enumerate(path))


def all_paths(table):
    """Every path of the table, by falling value, then depth, then ranks."""
    lengths = range(1, table.heads + 1)
    paths = [path for length in lengths for path in product(range(table.width), repeat=length)]
    return sorted(paths, key=lambda path: (-value(table, path), len(path), path))


def best_of_all_trees(table, size):
    """The most tokens per step of any prefix-closed tree of at most `size` nodes, by trying them all."""
    paths = all_paths(table)
    level = {frozenset([()])}
    best = 1.0
    for _ in range(size - 1):
        level = {tree | {path} for tree in level for path in paths if path not in tree and path[:-1] in tree}
        best = max([best, *(sum(value(table, path) for path in tree) for tree in level)])
    return best


@given(accuracy_tables(max_heads=2, max_ranks=3), st.integers(1, 5))
def test_no_tree_at_all_is_better(table, size):
    growth = grow(Independent(table), size)
    assert growth.tokens_per_step[-1] == best_of_all_trees(table, size)


@given(accuracy_tables(max_heads=3, max_ranks=2))
def test_no_deep_tree_at_all_is_better(table):
    assert grow(Independent(table), 5).tokens_per_step[-1] == best_of_all_trees(table, 5)


@given(accuracy_tables(), st.integers(1, 90), st.integers(1, 4), st.integers(0, 4))
def test_growth_is_the_sorted_list_of_paths(table, budget, max_depth, max_rank):
    growth = grow(Independent(table), budget, max_depth=max_depth, max_rank=max_rank)
    allowed = [path for path in all_paths(table) if len(path) <= max_depth and max(path) <= max_rank]
    wanted = [path for path in allowed if value(table, path) > 0][: budget - 1]
    assert list(growth.paths) == [(), *wanted]
    assert list(growth.values) == [1.0, *(value(table, path) for path in wanted)]
    assert (growth.stopped is None) == (len(wanted) == budget - 1)


@given(accuracy_tables(), st.integers(1, 40), st.integers(1, 40))
def test_growth_nests(table, small, large):
    small, large = sorted((small, large))
    first, second = grow(Independent(table), small), grow(Independent(table), large)
    assert second.paths[: first.size] == first.paths
    assert second.values[: first.size] == first.values
    for size in range(1, second.size + 1):
        assert set(second.tree(size).nodes) == set(second.paths[:size])


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_values_fall_and_gains_shrink_for_any_numbers(seed, budget):
    rng = np.random.default_rng(seed)
    growth = grow(independent(rng.dirichlet(np.ones(6), size=4)[:, :5]), budget)
    assert growth.size == budget
    assert all(earlier >= later > 0 for earlier, later in zip(growth.values, growth.values[1:], strict=False))
    assert Tree.from_choices(growth.paths[1:]).size == budget


@given(accuracy_tables(), st.integers(1, 40))
def test_pooled_accuracies_skip_no_rank(table, budget):
    paths = set(grow(Independent(table.contiguous()), budget).paths)
    assert all((*path[:-1], path[-1] - 1) in paths for path in paths if path and path[-1] > 0)


def test_a_small_table_is_used_up_with_a_notice():
    growth = grow(independent(FULL), 61)
    assert growth.size - 1 == 39
    assert growth.tokens_per_step[-1] == pytest.approx(2.94625)
    assert growth.stopped is not None
    assert "stopped at 40 of 61 nodes" in growth.stopped


def test_a_rank_may_be_skipped():
    growth = grow(independent(SKIPPED), 3)
    assert growth.tree(3).choices == ((0,), (2,))
    assert growth.tokens_per_step[-1] == pytest.approx(1.70)
    assert growth.stopped is None


def test_pooling_first_takes_ranks_in_turn():
    pooled = AccuracyTable(np.array(SKIPPED)).contiguous()
    assert grow(Independent(pooled), 3).tree(3).choices == ((0,), (1,))


def test_no_path_is_deeper_than_the_heads():
    growth = grow(independent(FULL), 100_000, max_depth=9)
    assert max(map(len, growth.paths)) == 3


def test_equal_values_go_by_depth_then_path():
    growth = grow(independent([[0.5, 0.5], [1.0, 0.0]]), 5)
    assert growth.paths == ((), (0,), (1,), (0, 0), (1, 0))


def test_heads_that_are_never_right_leave_the_bare_root():
    growth = grow(independent([[0.0, 0.0]]), 4)
    assert growth.paths == ((),)
    assert growth.stopped is not None


class Counted(list):
    """A list that counts how often it is read."""

    reads = 0

    def __getitem__(self, place):
        Counted.reads += 1
        return super().__getitem__(place)


def test_the_work_does_not_grow_with_the_ranks(monkeypatch):
    pushes = []
    push = heapq.heappush

    def counted_push(heap, entry):
        pushes.append(entry)
        push(heap, entry)

    monkeypatch.setattr(heapq, "heappush", counted_push)
    for ranks in (20, 2000):
        estimator = independent(np.full((4, ranks), 1 / ranks))
        estimator._guesses = [tuple(map(Counted, guesses)) for guesses in estimator._guesses]
        pushes.clear()
        Counted.reads = 0
        assert grow(estimator, 500).size == 500
        assert len(pushes) <= 2 * 500
        assert Counted.reads <= 3 * 2 * 500


def test_65_536_nodes():
    growth = grow(independent(np.random.default_rng(0).dirichlet(np.ones(17), size=5)[:, :16]), 65_536)
    assert growth.size == len(set(growth.paths)) == 65_536
    assert growth.tree(65_536).depth == 5


@given(accuracy_tables(), st.integers(1, 40))
def test_file_round_trip_and_same_bytes(tmp_path_factory, table, budget):
    folder = tmp_path_factory.mktemp("growth")
    growth = grow(Independent(table), budget, provenance={"seed": 0})
    for name in ("one.json", "two.json"):
        grow(Independent(table), budget, provenance={"seed": 0}).write(folder / name)
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()
    assert Growth.read(folder / "one.json") == growth


def test_field_names_of_the_file(tmp_path):
    grow(independent(SKIPPED), 3).write(tmp_path / "growth.json")
    content = json.loads((tmp_path / "growth.json").read_text())
    assert content["nodes"] == [
        {"path": [0], "value": 0.5},
        {"path": [2], "value": 0.2},
    ]
    assert content["tokens_per_step"] == pytest.approx([1.0, 1.5, 1.7])
    assert content["estimator"] == "independent"


def test_a_file_without_the_root_is_read(tmp_path):
    path = tmp_path / "growth.json"
    path.write_text('{"nodes": [{"path": [0], "value": 0.5}], "estimator": "mine"}')
    assert Growth.read(path) == Growth(((), (0,)), (1.0, 0.5), "mine")


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([{"path": [0, 0], "value": 0.5}], r"\[0, 0\] has no parent"),
        ([{"path": [0], "value": 0.5}, {"path": [0, 0], "value": 0.6}], r"node \[0, 0\] is out of place"),
        ([{"path": [0], "value": 0.5}, {"path": [0], "value": 0.5}], r"node \[0\] is out of place"),
        ([{"path": [0], "value": 1.5}], r"node \[0\] is out of place"),
        ([{"path": [0, 0], "value": 0.5}, {"path": [0], "value": 0.5}], r"node \[0, 0\] is out of place"),
        ([{"path": [0.5], "value": 0.5}], r"entry 0 is \[0.5\]"),
        ([{"path": [0]}], "a node is no path with a value"),
        ([[0]], "a node is no path with a value"),
        (3, "a node is no path with a value"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, nodes, complaint):
    path = tmp_path / "growth.json"
    path.write_text(json.dumps({"nodes": nodes, "estimator": "mine"}))
    with pytest.raises(InputError, match=rf"^[^\n]*growth\.json: {complaint}[^\n]*$"):
        Growth.read(path)


@pytest.mark.parametrize(
    ("budget", "limits", "complaint"),
    [(0, {}, "budget: 0"), (4, {"max_depth": 0}, "max depth: 0"), (4, {"max_rank": -1}, "max rank: -1")],
)
def test_limits_without_a_tree_are_refused(budget, limits, complaint):
    with pytest.raises(InputError, match=complaint):
        grow(independent(FULL), budget, **limits)


@pytest.mark.parametrize("size", [0, 41])
def test_sizes_that_were_not_grown_are_refused(size):
    with pytest.raises(InputError, match=f"no tree of {size} nodes, 40 were grown"):
        grow(independent(FULL), 61).tree(size)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published accuracies are not here")
@pytest.mark.parametrize("name", ["7b", "13b", "33b"])
def test_published_accuracies_grow_the_best_tree(name):
    table = read_accuracy(f"{PUBLISHED}:{name}")
    growth = grow(Independent(table), 64)
    best = sorted((value(table, path) for path in all_paths(table)), reverse=True)[:63]
    assert growth.tokens_per_step[-1] == pytest.approx(1 + sum(best))
    assert growth.tree(64).size == 64
