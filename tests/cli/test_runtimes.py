"""`treeopt export` for every runtime, `--fit`, and `treeopt check`, as a user types them."""

import json

import pytest

from tests.cli.command_line import fail, following, run_cli, succeed
from treeopt.artifact import read_json, write_json
from treeopt.cli.growing import Growing
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.fit import fit, growth_limits
from treeopt.errors import UnsupportedError
from treeopt.export import FORMATS
from treeopt.export.limits import breaches
from treeopt.export.read import read_trees
from treeopt.search.rank_files import read_ranks
from treeopt.search.replay import replay
from treeopt.tree import Tree, chain

TREES = [name for name, format in FORMATS.items() if not format.limits.chain]
WIDE = [[0], [2], [1], [2, 0], [2, 1], [11], [0, 0], [2, 1, 0]]


@pytest.fixture
def wide(tmp_path):
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(WIDE))
    return path


def test_the_table_of_formats_has_their_limits():
    listed = succeed("export", "--format", "help").stdout
    for name, format in FORMATS.items():
        limits = next(line for line in listed.splitlines() if line.split()[:1] == [name])
        assert all(cell in limits for cell in format.limits.cells())
        assert f"{name}: {format.description} ({format.versions})" in listed
    formats = json.loads(succeed("export", "--format", "help", "--json").stdout)["formats"]
    assert formats["rtp-llm"]["limits"]["max_depth"] == 3


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_refused_by_its_first_offending_path_or_fitted(name, copied, wide):
    format, asked = FORMATS[name], ["export", "--run", copied, "--format", name, "--tree", wide]
    refused = any(breaches(Tree.from_choices(WIDE).choices, format.limits))
    if refused:
        line = fail(*asked)
        assert line.startswith(f"treeopt: {name}: path [") and line.endswith("or export with --fit")
    result = succeed(*asked, "--fit", "--json")
    content = json.loads(result.stdout)
    [tree] = read_trees(content["files"][0]).values()
    assert [list(path) for path in tree.choices] == content["fitted"]["choices"]
    assert not any(breaches(tree.choices, format.limits, 3))
    judged = read_ranks(copied / "ranks.safetensors").split("evaluate")
    before, after = (replay(judged, shape).tokens_per_step for shape in (Tree.from_choices(WIDE), tree))
    assert content["fitted"]["tokens_per_step"] == after
    assert content["fitted"]["tokens_per_step_lost"] == before - after
    assert (f"{after:.3f}, the tree as it was {before:.3f}" in result.stderr) == refused
    assert (tree != Tree.from_choices(WIDE)) == refused
    assert tree.size <= len(WIDE) + 1


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in TREES])
def test_runtimes_without_trees_get_the_fastest_chain(name, copied, wide):
    content = read_json(copied / "latency.json")
    for sample in content["samples"]:  # steps of 4 tokens are nearly free
        if sample["tokens"] == 4:
            sample["latency_ms"] = 1e-6
    write_json(copied / "latency.json", content, "latency")
    asked = ["export", "--run", copied, "--format", name, "--tree", wide]
    assert f"{name}: path [1] is off the chain" in fail(*asked)
    result = succeed(*asked, "--fit")
    assert "the chain of 4 tokens takes" in result.stderr
    assert list(read_trees(result.stdout.splitlines()[0]).values()) == [chain(3)]


def test_a_chain_needs_latency_and_may_be_none(copied, wide):
    content = read_json(copied / "latency.json")
    for sample in content["samples"]:
        sample["latency_ms"] = 1.0 if sample["tokens"] == 1 else 1000.0
    write_json(copied / "latency.json", content, "latency")
    asked = ["export", "--run", copied, "--format", "vllm", "--tree", wide, "--fit"]
    assert "no chain of top guesses is faster than plain decoding" in fail(*asked)
    (copied / "latency.json").unlink()
    assert "treeopt profile" in fail(*asked)
    (copied / "ranks.safetensors").unlink()
    assert "treeopt calibrate" in fail(*asked)


@pytest.mark.parametrize("name", TREES)
def test_growth_for_a_runtime_keeps_to_its_limits(name, copied):
    succeed("grow", "--run", copied, "--format", name, "--budget", 40)
    growth = copied / "growth.json"
    for size in range(2, 40):
        try:
            [tree] = read_trees(growth, str(size)).values()
        except Exception:
            assert size > 20
            break
        FORMATS[name].check(tree, heads=3)
    for chained in ("vllm", "mlc"):
        succeed("grow", "--run", copied, "--format", chained)
        assert list(read_trees(growth).values()) == [chain(3)]


def test_an_estimator_that_skips_ranks_is_refused_where_none_may_be(copied):
    line = fail("grow", "--run", copied, "--format", "hydra", "--estimator", "joint")
    assert "hydra" in line and "--estimator joint" in line
    with pytest.raises(UnsupportedError, match="trtllm"):
        growth_limits([FORMATS["medusa"], FORMATS["trtllm"]], Growing("shrunk"))
    fitted = fit(
        RunDirectory(copied), Tree.from_choices(WIDE), FORMATS["hydra"], {"estimator": "joint, visited rows"}
    )
    FORMATS["hydra"].check(fitted.tree)


def test_check_says_what_a_runtime_would_do(wide, tmp_path):
    fine = tmp_path / "fine.py"
    fine.write_text("a = [(0,), (1,)]\nb = [(0,), (0, 0)]\n")
    result = succeed("check", fine, "--runtime", "medusa", "--heads", 2)
    assert "a: fine" in result.stdout and "b: fine" in result.stdout
    assert following(result)[:3] == ["export", "--format", "medusa"]
    result = run_cli("check", wide, "--runtime", "medusa", "--heads", 4)
    assert result.exit_code == 1 and result.stderr == ""
    assert "wide: silently wrong" in result.stdout
    assert "path [11] takes guess 1 of head 2 for guess 11 of head 1" in result.stdout
    assert following(result)[-1] == "--fit"
    succeed("check", wide, "--runtime", "medusa", "--heads", 4, "--top-k", 12)
    result = run_cli("check", f"{fine}:b", "--runtime", "medusa", "--heads", 1, "--json")
    [tree] = json.loads(result.stdout)["trees"]
    assert (result.exit_code, tree["name"], tree["outcome"]) == (1, "b", "refused")
    assert tree["findings"][0]["path"] == [0, 0]


def test_check_of_what_is_no_tree_is_one_line(tmp_path, copied):
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    assert "holds no tree" in fail("check", nothing, "--runtime", "medusa", "--heads", 4)
    assert "--runtime nothing: unknown" in fail("check", nothing, "--runtime", "nothing", "--heads", 4)
    assert "--heads" in fail("check", nothing, "--runtime", "medusa", status=2)
    succeed("check", copied / "choice.json", "--runtime", "json", "--heads", 3)
