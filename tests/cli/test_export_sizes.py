"""`treeopt export --sizes`, as a user types it: files by size, and the way of their timings back to `choose`."""

import csv
import json
import shlex

import numpy as np
import pytest

from tests.cli.command_line import fail, following, succeed
from tests.strategies import rank_table
from treeopt.artifact import read_json
from treeopt.export import FORMATS
from treeopt.export.limits import breaches
from treeopt.export.read import read_trees
from treeopt.search.choice import read_choice
from treeopt.search.grow import Growth
from treeopt.search.rank_files import read_ranks
from treeopt.tree import chain

HEADS = 4
TREES = [name for name, format in FORMATS.items() if not format.limits.chain]
LATENCY = "batch,context,tokens,latency_ms\n"


@pytest.fixture
def run(tmp_path):
    """A run with ranks of heads whose third guess is better than their second, and a growth from them."""
    rng = np.random.default_rng(0)
    ranks = rng.choice(16, size=(3_000, HEADS), p=np.array([40, 5, 20, *[2] * 13]) / 91)
    rank_table(ranks, [50] * 60, width=16).save(tmp_path / "run" / "ranks.safetensors")
    succeed("grow", "--run", tmp_path / "run", "--budget", 40)
    return tmp_path / "run"


def sizes_of(run, name, sizes, *more):
    return succeed("export", "--run", run, "--format", name, "--sizes", sizes, *more)


@pytest.mark.parametrize("name", TREES)
def test_a_tree_of_every_size_and_all_of_one_growth(name, run):
    content = json.loads(sizes_of(run, name, "24,3", "--json").stdout)
    assert [entry["tokens"] for entry in content["trees"]] == [3, 24]
    growth = Growth.read(content["growth"])
    for entry in content["trees"]:
        [tree] = read_trees(entry["files"][0]).values()
        assert tree == growth.tree(entry["tokens"])
        assert not any(breaches(tree.choices, FORMATS[name].limits, HEADS))
    own = Growth.read(run / "growth.json")
    beyond = any(breaches(own.tree(24).choices, FORMATS[name].limits, HEADS))
    assert content["regrown"] == beyond == (content["growth"] != str(run / "growth.json"))


def test_both_ways_are_taken(run):
    regrown = {name: "are of" in sizes_of(run, name, "24").stderr for name in TREES}
    assert (regrown["json"], regrown["trtllm"], regrown["hydra"]) == (False, True, True)


@pytest.mark.parametrize("name", ["vllm", "tgi"])
def test_runtimes_without_trees_get_chains(name, run):
    content = json.loads(sizes_of(run, name, "2,4,5", "--json").stdout)
    for entry in content["trees"]:
        assert list(read_trees(entry["files"][0]).values()) == [chain(entry["tokens"] - 1)]
    line = fail("export", "--run", run, "--format", name, "--sizes", "2,6")
    assert line == (
        f"treeopt: --sizes 6: the largest chain of top guesses that {name} can be given has 5 tokens; leave larger"
        " sizes out"
    )


def test_a_runtime_that_drafts_with_all_heads_has_one_size(run):
    assert list(read_trees(sizes_of(run, "mlc", "5").stdout.splitlines()[0]).values()) == [chain(4)]
    for sizes in ("4", "4,5", "6"):
        assert "4 heads" in fail("export", "--run", run, "--format", "mlc", "--sizes", sizes)


@pytest.mark.parametrize("name", ["medusa", "trtllm", "vllm"])
def test_timings_go_back_to_choose_and_its_tree_to_the_runtime(name, run, tmp_path):
    result = sizes_of(run, name, "2,5")
    files = result.stdout.split("\n\n")[0].splitlines()
    stem, _, suffix = FORMATS[name].file_name.partition(".")
    assert {f"{run / stem}_2.{suffix}", f"{run / stem}_5.{suffix}"} <= set(files)
    table = result.stdout[result.stdout.index(LATENCY) :].split("\n\n")[0]
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["tokens"] for row in rows] == ["1", "2", "5"]
    words = following(result)
    assert words[0] == "choose" and words[-4:-2] == ["--latency", "latency.csv"]
    latency = tmp_path / "latency.csv"
    latency.write_text(table + "\n")
    words[words.index("latency.csv")] = str(latency)
    assert f"{latency} line 2: latency_ms is ''" in fail(*words)  # not filled in
    for row, milliseconds in zip(rows, (10, 11, 12), strict=True):
        row["latency_ms"] = str(milliseconds)
    latency.write_text(LATENCY + "".join(",".join(row.values()) + "\n" for row in rows))
    succeed(*words)
    [choice] = read_choice(run / "choice.json")
    exported = succeed("export", "--run", run, "--format", name)
    [tree] = read_trees(exported.stdout.splitlines()[0]).values()
    assert tree == choice.tree
    assert tree.size == 5


def test_the_table_has_the_settings_that_the_run_was_timed_at(run):
    rows = [f"{b},{s},{n},{ms}\n" for b, s in ((1, 64), (4, 256)) for n, ms in ((1, 9), (8, 10))]
    (run / "latency.csv").write_text(LATENCY + "".join(rows))
    succeed("choose", "--run", run, "--latency", run / "latency.csv")
    assert json.loads(sizes_of(run, "json", "8", "--json").stdout)["latency_csv"] == (
        f"{LATENCY}1,128,1,\n1,128,8,\n"
    )
    samples = [
        {"batch": b, "context": s, "tokens": n, "latency_ms": 9.0}
        for b, s in ((1, 64), (4, 256))
        for n in (1, 8)
    ]
    (run / "latency.json").write_text(json.dumps({"samples": samples}))
    assert json.loads(sizes_of(run, "json", "8", "--json").stdout)["latency_csv"] == (
        f"{LATENCY}1,64,1,\n1,64,8,\n4,256,1,\n4,256,8,\n"
    )


def test_output_names_the_files_too(run, tmp_path):
    result = sizes_of(run, "trtllm", "4", "-o", tmp_path / "trees" / "mine.yml")
    listed = result.stdout.split("\n\n")[0].splitlines()
    names = ["mine_4.yml", "mine_4.yml.args", "mine_4.yml.llm_api.json"]
    assert listed == [str(tmp_path / "trees" / name) for name in names]
    assert (tmp_path / "trees" / "growth-trtllm.json").is_file()
    assert str(tmp_path / "trees" / "growth-trtllm.json") in shlex.join(following(result))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("0,8", "'0,8' is not a list of whole numbers from 1"),
        ("1,8", "one token is plain decoding"),
        ("eight", "'eight' is not a list"),
        ("4,,8", "'4,,8' is not a list"),
        ("", "'' is not a list"),
        ("8,4,8", "8 is there twice"),
    ],
)
def test_sizes_that_are_none_are_wrong_usage(sizes, said, run):
    assert said in fail("export", "--run", run, "--format", "json", "--sizes", sizes, status=2)


def test_what_the_run_does_not_have_is_one_line_and_writes_nothing(run):
    there = sorted(run.iterdir())
    line = fail("export", "--run", run, "--format", "json", "--sizes", "8,41")
    assert f"--sizes 41: {run / 'growth.json'} has trees up to 40 tokens; grow with --budget 41" in line
    asked = ["export", "--run", run, "--format", "json", "--sizes", "8"]
    assert "--tree" in fail(*asked, "--tree", run / "growth.json:8", status=2)
    assert "8 is there twice" in fail(*asked, "--sizes", "8,9", status=2)
    (run / "ranks.safetensors").unlink()
    line = fail("export", "--run", run, "--format", "trtllm", "--sizes", "4")
    assert "trtllm: path [2] skips rank 1" in line and line.endswith("grow with --format trtllm")
    (run / "growth.json").unlink()
    assert "treeopt grow" in fail(*asked)
    assert set(run.iterdir()) < set(there)


def test_a_growth_that_ends_says_why(run):
    table = run / "table.json"
    table.write_text("[[0.6, 0.2], [0.5, 0.1]]")
    succeed("grow", "--run", run, "--accuracy", table, "--budget", 64)
    growth = read_json(run / "growth.json")
    line = fail("export", "--run", run, "--format", "json", "--sizes", "64")
    assert f"has trees up to {len(growth['nodes']) + 1} tokens; " in line and growth["stopped"] in line


def test_the_run_is_left_as_it_was(run):
    before = (run / "growth.json").read_bytes(), read_ranks(run / "ranks.safetensors").positions
    sizes_of(run, "hydra", "8,16")
    assert before == ((run / "growth.json").read_bytes(), read_ranks(run / "ranks.safetensors").positions)
