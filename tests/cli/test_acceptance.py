"""Which drafts are accepted, from the command line: filters that a run keeps, and typical acceptance."""

import json

import pytest

from tests.cli.command_line import fail, following, succeed
from treeopt.artifact import read_json
from treeopt.cli.acceptance import settled
from treeopt.measure.generations import meta_path, read_generations, read_provenance
from treeopt.search.coverage import PassTable
from treeopt.search.grow import Growth
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.search.split import half_of
from treeopt.tree import Tree

FILTERS = ["--top-p", 0.9, "--top-k", 12]
COMMANDS_THAT_RUN_A_MODEL = (
    "generate",
    "calibrate",
    "profile",
    "evaluate",
    "train medusa1",
    "train medusa2",
    "optimize",
)


@pytest.mark.parametrize(
    ("typed", "temperature", "expected"),
    [
        ({}, 0.0, ("greedy", 0.0, None, None)),
        ({}, 0.7, ("sampled", 0.7, None, None)),
        ({"acceptance": "greedy"}, 0.7, ("greedy", 0.0, None, None)),
        ({"acceptance": "sampled"}, 0.7, ("sampled", 0.7, None, None)),
        ({"acceptance": "typical"}, 0.7, ("typical", 0.7, 0.09, 0.3)),
        ({"acceptance": "typical", "epsilon": 0.25}, 0.7, ("typical", 0.7, 0.25, 0.5)),
        ({"acceptance": "typical", "epsilon": 0.25, "delta": 2.0}, 0.7, ("typical", 0.7, 0.25, 2.0)),
    ],
)
def test_acceptance_follows_from_what_is_typed_and_the_temperature(typed, temperature, expected):
    found = settled(typed, temperature)
    names = ("acceptance", "temperature", "epsilon", "delta")
    assert tuple(found[name] for name in names) == pytest.approx(expected)
    assert ("top_p" in found) == (expected[0] != "sampled"), "filters are left to sampling"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--acceptance", "greedy", "--temperature", 1], "--acceptance greedy is --temperature 0"),
        (["--acceptance", "sampled", "--temperature", 0], "needs a --temperature above 0"),
        (["--temperature", 0, "--top-p", 0.5], "--top-p is for sampled acceptance, but this is greedy"),
        (["--acceptance", "typical", "--top-k", 5], "--top-k is for sampled acceptance, but this is typical"),
        (["--epsilon", 0.1], "--epsilon is for typical acceptance, but this is sampled"),
        (["--delta", 0.1, "--acceptance", "greedy"], "--delta is for typical acceptance, but this is greedy"),
        (["--top-p", 0], "0<x<=1"),
        (["--top-p", "nan"], "--top-p"),
        (["--acceptance", "typical", "--epsilon", "nan"], "--epsilon"),
        (["--top-k", -1], "x>=0"),
        (["--acceptance", "typical", "--delta", 0], "x>0"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_options_that_do_not_go_together_are_wrong_usage(options, says, complete, tiny, heads):
    model = ["--run", complete, "--model", tiny, "--heads", heads]
    assert says in fail("evaluate", *model, *options, status=2)


@pytest.mark.parametrize("command", COMMANDS_THAT_RUN_A_MODEL)
def test_only_commands_that_accept_drafts_as_asked_have_options_for_it(command):
    text = succeed(*command.split(), "--help").stdout
    has = [option in text for option in ("--acceptance", "--epsilon", "--delta")]
    assert has == [command in ("calibrate", "evaluate")] * 3
    assert ("--temperature" in text) == (command != "profile")


@pytest.mark.parametrize("command", ["generate", "optimize", "train medusa1"])
def test_typical_acceptance_is_no_option_where_the_text_must_be_the_models(command, complete, tiny):
    model = ["--run", complete, "--model", tiny]
    assert "--acceptance" in fail(*command.split(), *model, "--acceptance", "typical", status=2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--acceptance", "typical", "--probabilities"], "--probabilities: is for ranks"),
        (["--acceptance", "typical", "--width", 16], "--width: is for ranks"),
        (["--acceptance", "typical", "--batch-size", 4], "--batch-size: is for ranks"),
        (["--superset", 20], "--superset: is for --acceptance typical"),
    ],
)
def test_what_one_way_to_calibrate_does_not_heed_is_wrong_usage(options, named, complete, tiny, heads):
    model = ["--run", complete, "--model", tiny, "--heads", heads]
    assert named in fail("calibrate", *model, *options, status=2)


def test_passes_are_recorded_and_a_tree_grown_from_them(copied, tiny, heads):
    """From calibrate to evaluate by the commands that each names, and choose without replay."""
    model = ["--run", copied, "--model", tiny, "--heads", heads]
    typical = ["--acceptance", "typical", "--epsilon", 0.01, "--superset", 20]
    seen = succeed("calibrate", *model, *typical)
    table = PassTable.load(copied / "passes.safetensors")
    assert table.tree.size == 20 and {half_of(name) for name in table.ids} == {"calibrate"}
    names = ("acceptance", "temperature", "epsilon", "delta", "max_new_tokens", "split")
    assert [table.provenance[name] for name in names] == ["typical", 0.7, 0.01, 0.1, 24, "calibrate"]
    content = json.loads(succeed("calibrate", *model, *typical, "--json").stdout)
    assert content["steps"] == len(table.passes) and content["tokens"] == 20
    assert "with 20 nodes" in succeed("inspect", copied / "passes.safetensors").stdout
    before = (copied / "growth.json").read_bytes()
    seen = succeed(*following(seen), "--budget", 8)
    assert "8 nodes, coverage" in seen.stdout and (copied / "growth.json").read_bytes() == before
    growth = Growth.read(copied / "growth-typical.json")
    rate = (table.accepted(growth.tree(8)) + 1).mean()
    assert growth.tokens_per_step[-1] == pytest.approx(rate)
    assert growth.provenance["epsilon"] == 0.01 and growth.provenance["budget"] == 8
    evaluated = succeed(*following(seen))
    runs = {run["name"]: run for run in read_json(copied / "evaluation.json")["runs"]}
    assert runs["8"]["choices"] == [list(path) for path in growth.tree(8).choices], evaluated.stdout
    grown = ["--growth", copied / "growth-typical.json"]
    succeed("choose", "--run", copied, *grown)
    choice = read_json(copied / "choice.json")
    assert choice["provenance"]["estimator"] == "coverage" and len(choice["curve"]) > 1
    for point in choice["curve"]:
        assert point["tokens_per_step"] == pytest.approx(growth.tokens_per_step[point["tokens"] - 1])
    line = fail("choose", "--run", copied, *grown, "--ranks", copied / "ranks.safetensors")
    assert "typical acceptance, to which replay does not apply" in line


def test_coverage_grows_under_limits_that_let_it_skip_ranks(copied, tiny, heads):
    model = ["--run", copied, "--model", tiny, "--heads", heads]
    succeed("calibrate", *model, "--acceptance", "typical", "--superset", 20)
    passes = ["--run", copied, "--passes", copied / "passes.safetensors"]
    succeed("grow", *passes, "--max-depth", 2, "--max-rank", 1, "--format", "medusa")
    tree = Growth.read(copied / "growth-typical.json")
    assert max(map(len, tree.paths)) <= 2 and max(max(path, default=0) for path in tree.paths) <= 1
    for option in (["--contiguous"], ["--format", "hydra"]):
        assert "may skip ranks" in fail("grow", *passes, *option, status=2)
    for option in (["--ranks", copied / "ranks.safetensors"], ["--estimator", "joint"], ["--on-policy"]):
        assert "takes none of --ranks" in fail("grow", *passes, *option, status=2)
    assert "no step is of the evaluate half" in fail("grow", *passes, "--split", "evaluate")
    assert "is a ranks file" in fail("grow", "--run", copied, "--passes", copied / "ranks.safetensors")
    line = fail("replay", "--run", copied, "--ranks", copied / "passes.safetensors")
    assert "is a passes file, not a ranks file" in line


def test_passes_are_recorded_only_for_prompts_and_ranks_that_are_known(copied, tiny, heads):
    model = ["--run", copied, "--model", tiny, "--heads", heads, "--acceptance", "typical"]
    ranks = RankTable.load(copied / "ranks.safetensors")
    ranks.provenance["heads_sha256"] = "other"
    ranks.save(copied / "ranks.safetensors")
    assert "do not belong together: heads_sha256" in fail("calibrate", *model)
    (copied / "ranks.safetensors").unlink()
    assert "`treeopt calibrate` makes this file" in fail("calibrate", *model)
    meta_path(copied / "generations.jsonl").unlink()
    assert "does not say which prompts it is of" in fail("calibrate", *model)


def test_replay_refuses_ranks_of_typical_answers(copied):
    table = RankTable.load(copied / "ranks.safetensors")
    table.provenance["acceptance"] = "typical"
    table.save(copied / "ranks.safetensors")
    assert "typical acceptance" in fail("replay", "--run", copied, "--tree", copied / "growth.json:4")


def test_filters_are_kept_by_the_run_and_replayed_exactly(tmp_path, tiny, heads, prompts):
    run = tmp_path / "run"
    asked = ["--prompts", prompts, "--template", "none", "--temperature", 1.5, "--max-new-tokens", 12]
    model = ["--run", run, "--model", tiny]
    succeed("generate", *model, *asked, *FILTERS)
    made = read_provenance(run / "generations.jsonl")
    assert (made["acceptance"], made["top_p"], made["top_k"]) == ("sampled", 0.9, 12)
    assert "is kept" in succeed("generate", *model).stderr
    assert "made with top_p 0.9, but this is 1.0" in fail("generate", *model, "--top-p", 1)
    succeed("calibrate", *model, "--heads", heads)
    succeed("grow", "--run", run, "--budget", 8)
    succeed("evaluate", *model, "--heads", heads, "--tree", run / "growth.json:8")
    evaluation = read_json(run / "evaluation.json")
    assert (evaluation["provenance"]["top_p"], evaluation["provenance"]["top_k"]) == (0.9, 12)
    assert all(each["identical_to_plain"] for each in evaluation["runs"])
    runs = {each["name"]: each for each in evaluation["runs"]}
    half = RankTable.load(run / "ranks.safetensors").split("evaluate")
    replayed = replay(half, Tree.from_choices(runs["8"]["choices"]))
    assert runs["8"]["step_tokens"] == [list(steps) for steps in replayed.step_tokens]
    answers = [a for a in read_generations(run / "generations.jsonl") if half_of(a.id) == "evaluate"]
    assert runs["plain"]["emitted"] == sum(len(answer.answer_ids) for answer in answers)


def test_answers_of_before_filters_were_made_without(copied, tiny):
    meta = meta_path(copied / "generations.jsonl")
    content = json.loads(meta.read_text())
    for name in ("top_p", "top_k", "acceptance"):
        del content["provenance"][name]
    meta.write_text(json.dumps(content))
    model = ["--run", copied, "--model", tiny]
    assert "is kept" in succeed("generate", *model).stderr
    assert "made with top_k 0, but this is 5" in fail("generate", *model, "--top-k", 5)


def test_evaluate_with_typical_acceptance(copied, tiny, heads):
    model = ["--run", copied, "--model", tiny, "--heads", heads, "--tree", copied / "growth.json:8"]
    typical = ["--acceptance", "typical", "--epsilon", 0.25]
    content = json.loads(succeed("evaluate", *model, *typical, "--json").stdout)
    origin = content["provenance"]
    names = ("acceptance", "temperature", "epsilon", "delta")
    assert [origin[name] for name in names] == ["typical", 0.7, 0.25, 0.5]
    runs = {run["name"]: run for run in content["runs"]}
    assert runs["8"]["identical_to_plain"] is None and runs["8"]["divergences"] is None
    assert runs["8"]["nan_nodes"] == 0 and "nan_nodes" not in runs["plain"]
    assert runs["plain"]["identical_to_plain"] and runs["hf_generate"]["identical_to_plain"]
    assert "next: treeopt report" in succeed("evaluate", *model, *typical).stdout
