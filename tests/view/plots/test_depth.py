"""Acceptance by depth: the shares as replayed and as values predict them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import rank_table, trees
from tests.view.plots.drawing import drawn
from treeopt.errors import InputError
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.replay import replay
from treeopt.tree import ROOT, Tree
from treeopt.view.plots.depth import depth_info, draw_depth, expected_acceptance


def test_expected_acceptance_by_hand():
    tree = Tree.from_choices([[0], [1], [0, 0], [1, 0]])
    values = {(0,): 0.5, (1,): 0.25, (0, 0): 0.3, (1, 0): 0.15, (5,): 9.0}
    assert expected_acceptance(tree, values) == pytest.approx([0.75, 0.45 / 0.75])
    assert expected_acceptance(ROOT, {}) == []


@given(trees(), st.floats(0, 0.25))
def test_expected_acceptance_accounts_for_all_expected_tokens(tree, share):
    values = {path: share ** len(path) for path in tree.choices}
    reached = np.cumprod(expected_acceptance(tree, values))
    assert reached.sum() == pytest.approx(sum(values.values()), abs=1e-9)


def test_a_replay_and_its_acceptance_give_the_same_info():
    table = rank_table(np.array([[0, 0], [0, 1], [1, 0], [0, 0]]), [2, 2], width=2)
    replayed = replay(table, Tree.from_choices([[0], [0, 0]]))
    info = depth_info([0.5, None], replayed)
    reached, accepted = replayed.accepted_by_depth()
    assert info.iloc[0].tolist() == ["predicted", 1, 0.5]
    assert info[info["source"] == "replayed"]["acceptance"].tolist() == pytest.approx(
        (accepted / reached).tolist()
    )
    assert info.equals(depth_info([0.5], (accepted / reached).tolist()))


def test_depths_that_no_step_reaches_are_left_out():
    info = depth_info(None, [0.5, 0.0, None])
    assert info.to_numpy().tolist() == [["replayed", 1, 0.5], ["replayed", 2, 0.0]]
    with pytest.raises(InputError, match="no step reaches depth 1"):
        depth_info(None, [])


def test_the_drawing_has_a_line_a_source_in_percent():
    growth = grow(Independent.of_ranks(rank_table(np.zeros((9, 2), int), [9], width=2)), 3)
    expected = expected_acceptance(growth.tree(3), dict(zip(growth.paths, growth.values, strict=True)))
    axes = drawn(draw_depth, depth_info(expected, [0.5, 0.25]))
    predicted, replayed = axes.lines
    assert predicted.get_xydata().tolist() == [[1, 100], [2, 100]] and predicted.get_linestyle() == "--"
    assert replayed.get_xydata().tolist() == [[1, 50], [2, 25]] and replayed.get_linestyle() == "-"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["predicted", "replayed"]
    assert "%" in axes.get_ylabel()
