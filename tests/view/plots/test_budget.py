"""Tokens per step by size: estimators from their file, dense against sparse from the ablation."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from tests.strategies import rank_table
from tests.view.plots.drawing import drawn
from treeopt.errors import InputError
from treeopt.search.baselines import dense
from treeopt.search.compare import compare
from treeopt.view.plots.budget import (
    COLUMNS,
    TREE_COLUMNS,
    ablation_info,
    budget_info,
    draw_budget,
    draw_dense_sparse,
)
from treeopt.view.style import PALETTE


def line(name, tokens, rate, predicted=None):
    return {
        "name": name,
        "tokens": tokens,
        "tokens_per_step": rate,
        "interval": [rate - 0.1, rate + 0.1],
        "predicted": predicted,
    }


LINES = [
    line("joint", 8, 2.1, 2.3),
    line("joint", 4, 1.9, 2.0),
    line("joint, visited rows", 4, 1.85, 1.8),
    line("joint, visited rows", 8, 2.15, 2.1),
    line("random dense", 4, 1.5),
    line("random dense", 8, 1.6),
    line("mc_sim", 16, 2.2),
    line("other", 17, 2.25),
]
CONTENT = {"comparisons": [{"lines": LINES}, {"lines": LINES[:1]}]}
TREES = pd.DataFrame(
    [("dense", "2x3", 9, 1.7, np.nan), ("dense", "2", 3, 1.4, 100.0), ("sparse", "joint", 4, 1.6, 120.0)],
    columns=list(TREE_COLUMNS),
)


def test_the_info_has_every_line_and_tells_on_policy_ones_apart():
    info = budget_info(CONTENT)
    assert list(info.columns) == list(COLUMNS)
    assert info[["estimator", "on_policy", "tokens", "tokens_per_step"]].to_numpy().tolist() == [
        ["joint", False, 8, 2.1],
        ["joint", False, 4, 1.9],
        ["joint", True, 4, 1.85],
        ["joint", True, 8, 2.15],
        ["random dense", False, 4, 1.5],
        ["random dense", False, 8, 1.6],
        ["mc_sim", False, 16, 2.2],
        ["other", False, 17, 2.25],
    ]
    assert info["low"].tolist() == pytest.approx([entry["interval"][0] for entry in LINES])
    assert info["predicted"].isna().tolist() == [entry["predicted"] is None for entry in LINES]
    assert len(budget_info(CONTENT, comparison=1)) == 1


def test_what_compare_gives_can_be_drawn():
    ranks = np.random.default_rng(0).integers(0, 3, (200, 2))
    table = rank_table(ranks, [50] * 4, width=3)
    lines = [asdict(entry) for entry in compare(table, [2, 4], {"mine": dense([2])}, folds=2)]
    info = budget_info({"comparisons": [{"lines": lines}]})
    assert info["on_policy"].sum() == len([entry for entry in lines if "visited" in entry["name"]]) > 0
    assert drawn(draw_budget, info).lines


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "no comparison 0"),
        ({"comparisons": []}, "no comparison 0"),
        ({"comparisons": [{}]}, "no lines"),
        ({"comparisons": [{"lines": [{"name": "joint"}]}]}, "line 0 has no 'tokens'"),
    ],
)
def test_a_file_of_something_else_is_refused(content, words):
    with pytest.raises(InputError, match=words):
        budget_info(content)


def test_lines_rise_with_n_and_trees_of_one_size_are_crosses():
    axes = drawn(draw_budget, budget_info(CONTENT))
    joint, on_policy, random, given, legend = axes.lines
    assert joint.get_xydata().tolist() == [[4, 1.9], [8, 2.1]] and joint.get_linestyle() == "-"
    assert on_policy.get_xydata().tolist() == [[4, 1.85], [8, 2.15]] and on_policy.get_linestyle() == "--"
    assert joint.get_color() == on_policy.get_color() != random.get_color()
    assert given.get_xydata().tolist() == [[16, 2.2], [17, 2.25]] and given.get_marker() == "x"
    assert not len(legend.get_xdata())
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["joint", "random dense", "given trees", "on-policy"]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((1.8, 2.2))


def test_what_was_predicted_is_dotted():
    info = budget_info(CONTENT)
    dotted = [line for line in drawn(draw_budget, info, predicted=True).lines if line.get_linestyle() == ":"]
    assert dotted[0].get_xydata().tolist() == [[4, 2.0], [8, 2.3]]


@pytest.mark.parametrize("given", [TREES, TREES.to_dict("records")])
def test_the_ablations_table_is_taken_as_frame_or_records(given):
    assert ablation_info(given).equals(TREES)


def test_an_ablation_without_a_column_or_a_tree_is_refused():
    with pytest.raises(InputError, match="tree 0 has no 'tokens_per_s'"):
        ablation_info(TREES.drop(columns="tokens_per_s"))
    with pytest.raises(InputError, match="no trees"):
        ablation_info([])


@pytest.mark.parametrize(
    ("y", "dots", "stars"),
    [
        ("tokens_per_step", [[9, 1.7], [3, 1.4]], [[4, 1.6]]),
        ("tokens_per_s", [[3, 100]], [[4, 120]]),
    ],
)
def test_dense_trees_are_blue_dots_and_sparse_ones_red_stars(y, dots, stars):
    axes = drawn(draw_dense_sparse, ablation_info(TREES), y=y)
    blue, red = axes.lines
    assert (blue.get_xydata().tolist(), blue.get_marker(), to_hex(blue.get_color()).upper()) == (
        dots,
        "o",
        PALETTE[0],
    )
    assert (red.get_xydata().tolist(), red.get_marker(), to_hex(red.get_color()).upper()) == (
        stars,
        "*",
        PALETTE[1],
    )
    assert blue.get_label() == f"dense, random ({len(dots)})"
    assert ("token/s" if y == "tokens_per_s" else "tokens per step") in axes.get_ylabel()


def test_another_y_is_refused():
    with pytest.raises(InputError, match="cannot draw 'speedup'; it is one of tokens_per_step, tokens_per_s"):
        drawn(draw_dense_sparse, ablation_info(TREES), y="speedup")
