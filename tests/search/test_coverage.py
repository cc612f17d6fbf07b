"""Coverage growth against sets of steps counted one by one, and pass tables that are no such tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.artifact import save_arrays
from treeopt.errors import InputError
from treeopt.search.coverage import PassTable, grow_coverage
from treeopt.search.grow import Growth
from treeopt.tree import ROOT, Tree, chain, dense


def table_of(tree, rows, prompt=None, ids=("a",), **provenance):
    """A pass table of rows of 0 and 1 for all nodes but the root."""
    passes = np.array([[1, *row] for row in rows], bool)
    prompt = np.zeros(len(rows), np.int32) if prompt is None else np.array(prompt, np.int32)
    return PassTable(tree, passes, prompt, ids, provenance)


@st.composite
def tables(draw):
    tree = draw(trees(max_depth=3))
    steps = draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    passes = random.random((steps, tree.size)) < random.random(tree.size)
    passes[:, 0] = True
    return PassTable(tree, passes, np.zeros(steps, np.int32), ("a",))


def passing(table, step, path):
    """Whether all nodes of a path pass at a step."""
    column = {node: i for i, node in enumerate(table.tree.nodes)}
    return all(table.passes[step, column[path[:length]]] for length in range(1, len(path) + 1))


def accepted_by_hand(table, nodes):
    """At each step the length of the longest passing path among `nodes`."""
    steps = range(len(table.passes))
    return [max((len(path) for path in nodes if passing(table, step, path)), default=0) for step in steps]


def coverage(table, nodes):
    """E, in steps: over depths, those at which some passing path of `nodes` reaches the depth."""
    depths, steps = {len(path) for path in nodes}, range(len(table.passes))
    return sum(
        any(len(path) == depth and passing(table, step, path) for path in nodes)
        for depth in depths
        for step in steps
    )


def grown_by_hand(table, budget, may=lambda path: True):
    """Nodes in order of joining: every node's path from the tree tried, its gain counted anew each time."""
    inside: list[tuple[int, ...]] = []
    while len(inside) + 1 < budget:
        best = None
        for path in filter(may, table.tree.choices):
            new = [path[:n] for n in range(1, len(path) + 1) if path[:n] not in inside]
            if not new or len(inside) + 1 + len(new) > budget:
                continue
            gain = coverage(table, [*inside, *new]) - coverage(table, inside)
            key = (-gain / len(new), len(new), len(path), path)
            if gain > 0 and (best is None or key < best[0]):
                best = (key, new)
        if best is None:
            break
        inside += best[1]
    return inside


@given(tables(), st.integers(1, 12))
def test_growth_is_the_definition_written_out(table, budget):
    growth = grow_coverage(table, budget)
    inside = grown_by_hand(table, budget)
    assert list(growth.paths[1:]) == inside
    steps = len(table.passes)
    for size in range(1, growth.size + 1):
        expected = coverage(table, inside[: size - 1]) / steps
        assert growth.tokens_per_step[size - 1] == pytest.approx(1 + expected)
        assert table.accepted(growth.tree(size)).mean() == pytest.approx(expected)
    assert (growth.stopped is None) == (growth.size == budget)


@given(tables(), st.integers(1, 12), st.integers(1, 3), st.integers(0, 3))
def test_limits_leave_nodes_out(table, budget, depth, rank):
    growth = grow_coverage(table, budget, max_depth=depth, max_rank=rank)
    expected = grown_by_hand(table, budget, lambda path: len(path) <= depth and max(path) <= rank)
    assert list(growth.paths[1:]) == expected


@given(tables(), st.data())
def test_a_part_of_the_recorded_tree_accepts_its_longest_passing_path(table, data):
    chosen = data.draw(st.lists(st.sampled_from(table.tree.choices or [()])).map(lambda found: found or [()]))
    part = Tree.from_choices([path for path in chosen if path], close=True)
    assert table.accepted(part).tolist() == accepted_by_hand(table, part.choices)


def test_a_parent_that_adds_nothing_may_hide_a_useful_child():
    """[1] passes only where [0] does, but [1, 0] passes at three steps of five, which [0, 0] misses."""
    tree = Tree.from_choices([[0], [1], [0, 0], [1, 0]])
    table = table_of(tree, [[1, 0, 1, 0], *[[1, 1, 0, 1]] * 3, [0, 0, 0, 0]])
    growth = grow_coverage(table, 9)
    assert growth.paths == ((), (0,), (1,), (1, 0), (0, 0))
    assert growth.values == (1.0, 0.8, 0.0, 0.6, 0.2)
    assert growth.stopped == "stopped at 5 of 9 nodes: no other recorded path adds to what passes"
    assert grow_coverage(table, 3).paths == ((), (0,), (0, 0)), "no room for both [1] and [1, 0]"


def test_siblings_are_worth_what_they_add_and_not_how_often_they_pass():
    table = table_of(dense([3]), [[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert grow_coverage(table, 4).paths == ((), (0,), (2,))


def test_growth_of_coverage_survives_its_file(tmp_path):
    """A child may be worth more than its parent, which no other growth allows."""
    tree = Tree.from_choices([[0], [1], [1, 0]])
    growth = grow_coverage(table_of(tree, [[1, 1, 1]]), 4, provenance={"seed": 3})
    assert growth.values == (1.0, 1.0, 0.0, 1.0)
    growth.write(tmp_path / "growth.json")
    assert Growth.read(tmp_path / "growth.json") == growth


def test_tokens_per_step_have_an_interval_by_prompt():
    table = table_of(chain(1), [[1], [1], [0], [0]], prompt=[0, 0, 1, 1], ids=("a", "b"))
    found = table.summary()
    assert (found["tokens_per_step"], found["interval"]) == (1.5, [1.0, 2.0])
    assert (found["prompts"], found["steps"], found["tokens"]) == (2, 4, 2)


def test_a_table_survives_its_file_and_splits_by_prompt(tmp_path):
    table = table_of(chain(2), [[1, 0], [1, 1], [0, 1]], prompt=[0, 1, 1], ids=("a", "b"), seed=3)
    table.save(tmp_path / "passes.safetensors")
    loaded = PassTable.load(tmp_path / "passes.safetensors")
    assert loaded.tree == table.tree and loaded.ids == table.ids and loaded.provenance == {"seed": 3}
    assert (loaded.passes == table.passes).all() and (loaded.prompt == table.prompt).all()
    halves = [loaded.split("calibrate"), loaded.split("evaluate")]
    assert sorted(len(half.passes) for half in halves) == [1, 2]
    with pytest.raises(InputError, match="no step is of the evaluate half"):
        loaded.split("calibrate").split("evaluate")


def test_what_is_no_pass_table_is_refused(tmp_path):
    with pytest.raises(InputError, match="a truth value for each node"):
        table_of(chain(2), [[1]])
    with pytest.raises(InputError, match="at least one step"):
        PassTable(ROOT, np.ones((0, 1), bool), np.zeros(0, np.int32), ("a",))
    with pytest.raises(InputError, match="among 1 ids"):
        table_of(chain(1), [[1]], prompt=[1])
    with pytest.raises(InputError, match="among 1 ids"):
        PassTable(ROOT, np.ones((1, 1), bool), np.zeros((1, 1), np.int32), ("a",))
    with pytest.raises(InputError, match="root is in column 0"):
        PassTable(ROOT, np.zeros((1, 1), bool), np.zeros(1, np.int32), ("a",))
    with pytest.raises(InputError, match=r"\[0, 0\] is no node of the recorded tree"):
        table_of(chain(1), [[1]]).accepted(chain(2))
    with pytest.raises(InputError, match="budget: 0"):
        grow_coverage(table_of(chain(1), [[1]]), 0)
    path = tmp_path / "passes.safetensors"
    save_arrays(path, {"passes": np.ones((1, 1), bool)}, "passes", {"choices": [], "ids": ["a"]})
    with pytest.raises(InputError, match="has no prompt; record it again"):
        PassTable.load(path)
    save_arrays(path, {"passes": np.ones((1, 1), bool)}, "ranks", {})
    with pytest.raises(
        InputError, match="is a ranks file, not a passes file; `treeopt calibrate --acceptance typical`"
    ):
        PassTable.load(path)
