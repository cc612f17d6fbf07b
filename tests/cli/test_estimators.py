"""--estimator and --on-policy: what they grow, what they say of it, and what knows only accuracies."""

import json

import numpy as np
import pytest

from tests.cli.command_line import fail, succeed
from tests.strategies import rank_table
from treeopt.artifact import read_json
from treeopt.cli.growing import ESTIMATORS as NAMES
from treeopt.search.choice import read_choice
from treeopt.search.estimate import ESTIMATORS, Independent, Joint, Shrunk
from treeopt.search.grow import Growth, grow
from treeopt.search.on_policy import on_policy


@pytest.fixture
def table():
    """Twenty prompts; where the first guess is right, the others mostly are too."""
    rng = np.random.default_rng(2)
    easy = rng.random((1000, 1)) < 0.4
    ranks = np.minimum(rng.geometric(np.where(easy, 0.9, 0.25), (1000, 3)) - 1, 6)
    return rank_table(ranks, [50] * 20, width=6)


@pytest.fixture
def run(tmp_path, table):
    table.save(tmp_path / "run" / "ranks.safetensors")
    return tmp_path / "run"


@pytest.fixture
def accuracy(tmp_path):
    path = tmp_path / "accuracy.json"
    path.write_text("[[0.6, 0.2], [0.5, 0.1]]")
    return path


def same(growth, other):
    return (growth.paths, growth.values) == (other.paths, other.values)


def test_the_command_knows_every_estimator():
    assert list(ESTIMATORS) == list(NAMES)


def test_growth_is_of_the_estimator_that_was_asked_for(run, table):
    half = table.split("calibrate")
    for name, estimator in (("joint", Joint(half)), ("shrunk", Shrunk(half))):
        text = succeed("grow", "--run", run, "--budget", 20, "--estimator", name).stdout
        growth = Growth.read(run / "growth.json")
        assert same(growth, grow(estimator, 20))
        assert growth.estimator == estimator.name
        assert growth.provenance["estimator"] == name and not growth.provenance["on_policy"]
        assert f"20 nodes, {estimator.name}" in text
    assert "kappa" in read_json(run / "growth.json")["estimator"]


def test_independent_is_the_default(run, table):
    succeed("grow", "--run", run, "--budget", 20)
    growth = Growth.read(run / "growth.json")
    assert same(growth, grow(Independent(table.split("calibrate").accuracy()), 20))
    assert growth.estimator == "independent"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_on_policy_grows_from_visited_rows(run, table, name):
    content = json.loads(
        succeed("grow", "--run", run, "--budget", 20, "--on-policy", "--estimator", name, "--json").stdout
    )
    wanted = on_policy(table.split("calibrate"), ESTIMATORS[name], 20)
    growth = Growth.read(run / "growth.json")
    assert same(growth, wanted)
    assert content["estimator"] == wanted.estimator
    assert content["provenance"]["on_policy"]


def test_limits_hold_for_every_estimator(run):
    for name in ESTIMATORS:
        for more in ([], ["--on-policy"]):
            limits = ["--max-depth", 2, "--max-rank", 1, "--budget", 99]
            succeed("grow", "--run", run, "--estimator", name, *more, *limits)
            growth = Growth.read(run / "growth.json")
            assert growth.size == 7
            assert growth.tree(7).depth == 2 and growth.tree(7).max_rank == 1


def test_a_choice_says_what_its_tree_was_grown_by(run, tmp_path):
    latency = tmp_path / "latency.csv"
    latency.write_text("batch,context,tokens,latency_ms\n1,128,1,10\n1,128,4,11\n1,128,8,12\n")
    succeed("grow", "--run", run, "--estimator", "shrunk", "--on-policy")
    succeed("choose", "--run", run, "--latency", latency)
    assert read_choice(run / "choice.json")[0].tokens > 1
    provenance = read_json(run / "choice.json")["provenance"]
    assert provenance["estimator"] == Growth.read(run / "growth.json").estimator
    assert provenance["estimator"].startswith("shrunk (kappa ")
    assert provenance["on_policy"]


@pytest.mark.parametrize(
    "more", [["--estimator", "joint"], ["--estimator", "shrunk"], ["--on-policy"]], ids=" ".join
)
def test_a_table_of_accuracies_knows_only_independent(accuracy, tmp_path, more, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = fail("grow", "--accuracy", accuracy, *more, status=2)
    assert "--estimator independent" in line and "ranks" in line
    assert not (tmp_path / "results").exists()
    succeed("grow", "--accuracy", accuracy, "--estimator", "independent")


def test_only_accuracies_are_pooled(run, table):
    assert "--contiguous" in fail("grow", "--run", run, "--contiguous", "--estimator", "joint", status=2)
    succeed("grow", "--run", run, "--contiguous", "--on-policy", "--budget", 12)
    paths = set(Growth.read(run / "growth.json").paths)
    assert all((*path[:-1], path[-1] - 1) in paths for path in paths if path and path[-1] > 0)
