"""Which drafts are accepted, from the command line: filters that a run keeps, and typical acceptance."""

import json

import pytest

from tests.cli.command_line import fail, succeed
from treeopt.artifact import read_json
from treeopt.cli.acceptance import settled
from treeopt.measure.generations import meta_path, read_generations, read_provenance
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.search.split import half_of
from treeopt.tree import Tree

FILTERS = ["--top-p", 0.9, "--top-k", 12]


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


@pytest.mark.parametrize("command", ["generate", "calibrate", "optimize"])
def test_typical_acceptance_is_refused_where_the_text_must_be_the_models(command, copied, tiny, heads):
    model = ["--run", copied, "--model", tiny] + ([] if command == "generate" else ["--heads", heads])
    line = fail(command, *model, "--acceptance", "typical")
    assert "typical is for evaluate alone" in line and "replay does not apply" in line


def test_typical_acceptance_is_refused_for_answers_made_elsewhere_too(copied, tiny, heads):
    meta_path(copied / "generations.jsonl").unlink()
    line = fail("calibrate", "--run", copied, "--model", tiny, "--heads", heads, "--acceptance", "typical")
    assert "replay does not apply" in line


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
    assert "next: treeopt inspect" in succeed("evaluate", *model, *typical).stdout
