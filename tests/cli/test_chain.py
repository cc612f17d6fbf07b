"""The whole way through on a tiny model: what each command writes, prints and names as the next one."""

import csv
import json

import click
import numpy as np
import pytest

from tests.cli.command_line import following, prompt_rows, succeed, write_lines
from treeopt.artifact import read_json
from treeopt.cli import main
from treeopt.measure.generations import read_generations
from treeopt.search.choice import read_choice
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.search.split import half_of

EVALUATED = [row["id"] for row in prompt_rows() if half_of(row["id"]) == "evaluate"]
RUN_FIELDS = set(
    "name choices tokens steps step_tokens ids emitted tokens_per_step tokens_per_s overhead speedup"
    " identical_to_plain divergences categories interval acceptance latency_ms latency_ms_interval"
    " tokens_per_s_interval overhead_interval speedup_interval".split()
)


def test_a_run_has_every_artifact_of_one_model(complete):
    ranks = RankTable.load(complete / "ranks.safetensors")
    growth = Growth.read(complete / "growth.json")
    latency = LatencyProfile.read(complete / "latency.json")
    [choice] = read_choice(complete / "choice.json")
    evaluation = read_json(complete / "evaluation.json", "evaluation")
    answers = read_generations(complete / "generations.jsonl")
    assert sorted(ranks.ids) == sorted(answer.id for answer in answers)
    assert growth.size == 16
    assert latency.sizes(*latency.settings()[0]) == [2, 4, 8, 16]
    origins = [
        ranks.provenance,
        growth.provenance,
        latency.provenance,
        choice.provenance,
        evaluation["provenance"],
    ]
    for name in ("model_sha256", "heads_sha256", "dtype"):
        assert len({origin[name] for origin in origins}) == 1
    assert choice.provenance["template"] == "none"
    assert not (complete / "ranks.partial.safetensors").exists()


def test_accuracies_are_of_the_calibrate_half(complete):
    with open(complete / "accuracy.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    half = RankTable.load(complete / "ranks.safetensors").split("calibrate")
    assert {int(row["trials"]) for row in rows} == set(half.trials().tolist())
    assert float(rows[0]["accuracy"]) == half.accuracy().values[0, 0]


def test_profiled_context_is_what_calibration_saw(complete):
    cached = [
        len(answer.prompt_ids) + offset
        for answer in read_generations(complete / "generations.jsonl")
        for offset in range(len(answer.answer_ids))
    ]
    assert LatencyProfile.read(complete / "latency.json").settings() == [
        (1, round(sum(cached) / len(cached)))
    ]


def test_evaluation_is_real_decoding_of_the_other_half(complete):
    evaluation = read_json(complete / "evaluation.json")
    runs = {run["name"]: run for run in evaluation["runs"]}
    assert set(runs) == {"plain", "8", "hf_generate"}
    assert all(set(run) == RUN_FIELDS and run["ids"] == EVALUATED for run in runs.values())
    assert runs["8"]["identical_to_plain"]
    assert runs["plain"]["tokens_per_step"] == runs["plain"]["overhead"] == runs["plain"]["speedup"] == 1
    assert runs["8"]["speedup"] == pytest.approx(runs["8"]["tokens_per_step"] / runs["8"]["overhead"])
    assert set(runs["8"]["categories"]) == {"words", "sums"}
    half = RankTable.load(complete / "ranks.safetensors").split("evaluate")
    tree = Growth.read(complete / "growth.json").tree(8)
    assert runs["8"]["step_tokens"] == [list(answer) for answer in replay(half, tree).step_tokens]


def test_replay_prints_the_same_shape_without_a_clock(complete):
    content = json.loads(
        succeed("replay", "--run", complete, "--tree", complete / "growth.json:8", "--json").stdout
    )
    evaluated = {run["name"]: run for run in read_json(complete / "evaluation.json")["runs"]}
    [run] = content["runs"]
    assert set(run) == RUN_FIELDS
    assert [run[name] for name in ("tokens_per_s", "overhead", "speedup", "identical_to_plain")] == [None] * 4
    same = ("choices", "steps", "step_tokens", "emitted", "tokens_per_step", "interval", "ids", "acceptance")
    for name in same:
        assert run[name] == evaluated["8"][name]
    tokens = [count for answer in run["step_tokens"] for count in answer]
    assert run["acceptance"][0] == sum(count > 1 for count in tokens) / len(tokens)
    assert len(run["acceptance"]) == max(map(len, run["choices"]))
    assert all(part["acceptance"][0] is not None for part in run["categories"].values())


def test_replay_takes_several_trees_and_the_choice_by_default(complete, tmp_path):
    other = tmp_path / "growth.json"
    other.write_text((complete / "growth.json").read_text())
    trees = ["--tree", complete / "growth.json:4", "--tree", f"{other}:4", "--tree", complete / "choice.json"]
    content = json.loads(succeed("replay", "--run", complete, "--split", "all", *trees, "--json").stdout)
    assert [run["name"] for run in content["runs"]] == ["4", f"{other}:4", "choice"]
    default = json.loads(succeed("replay", "--run", complete, "--split", "all", "--json").stdout)
    assert default["runs"] == content["runs"][2:]


def test_calibrate_reports_heads_and_repetition(copied, tiny, heads):
    result = succeed("calibrate", "--run", copied, "--model", tiny, "--heads", heads)
    assert "warning: few trials for head" in result.stderr
    assert "top-5 (95 %)" in result.stdout and "repeated 4-grams" in result.stdout
    content = json.loads(
        succeed("calibrate", "--run", copied, "--model", tiny, "--heads", heads, "--json").stdout
    )
    half = RankTable.load(copied / "ranks.safetensors").split("calibrate")
    known = half.ranks[half.ranks[:, 1] >= 0, 1]
    head = content["heads"][1]
    assert (head["head"], head["trials"]) == (2, len(known))
    assert head["top5"]["value"] == pytest.approx((known < 5).mean())
    assert head["top5"]["low"] <= head["top5"]["value"] <= head["top5"]["high"]
    assert set(content["repetition"]) == {"words", "sums"}


def test_probabilities_are_kept_where_they_are_asked_for(copied, tiny, heads):
    before = RankTable.load(copied / "ranks.safetensors")
    assert before.probabilities is None
    succeed("calibrate", "--run", copied, "--model", tiny, "--heads", heads, "--probabilities")
    table = RankTable.load(copied / "ranks.safetensors")
    assert table.probabilities is not None
    assert table.probabilities.shape == (table.positions, table.heads, table.width)
    np.testing.assert_array_equal(table.ranks, before.ranks)


def test_a_looping_text_is_called_one(tmp_path, tiny, heads):
    rows = [
        {"id": f"p{i}", "category": "loop", "prompt_ids": [5, 6], "answer_ids": [7, 8] * 10, "ended": "limit"}
        for i in range(8)
    ]
    write_lines(tmp_path / "generations.jsonl", rows)
    result = succeed("calibrate", "--run", tmp_path, "--model", tiny, "--heads", heads)
    assert "was made elsewhere" in result.stderr
    assert "warning: answers repeat themselves in loop" in result.stderr


def test_answers_made_elsewhere_serve_the_whole_chain(tmp_path, tiny, heads, complete):
    (tmp_path / "generations.jsonl").write_text((complete / "generations.jsonl").read_text())
    result = succeed("optimize", "--run", tmp_path, "--model", tiny, "--heads", heads, "--repeats", 2)
    assert "was made elsewhere" in result.stderr
    assert sorted(read_json(tmp_path / "evaluation.json")["runs"][0]["ids"]) == sorted(EVALUATED)


@pytest.mark.parametrize(
    "arguments",
    [
        ["grow", "--budget", 8],
        ["choose"],
        ["replay"],
        ["export", "--format", "json"],
        ["export", "--format", "help"],
        ["export", "--format", "hydra", "--fit"],
        ["inspect", "{run}/choice.json"],
        ["inspect", "{run}/latency.json"],
        ["inspect", "{run}/evaluation.json"],
        ["inspect", "{run}/growth.json:8"],
        ["inspect", "{run}/ranks.safetensors"],
        ["inspect", "{run}/generations.jsonl"],
        ["inspect", "{run}/accuracy.csv"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_json_is_pure_and_text_names_a_command_that_exists(copied, arguments):
    arguments = [str(word).format(run=copied) for word in arguments]
    arguments += ["--run", str(copied)] if arguments[0] != "inspect" else []
    words = following(succeed(*arguments))
    assert main.get_command(click.Context(main), words[0])
    assert str(copied) in " ".join(words)
    json.loads(succeed(*arguments, "--json").stdout)


def test_json_is_the_artifact_itself(copied, tiny, heads):
    model = ["--model", tiny, "--heads", heads]
    assert json.loads(succeed("grow", "--run", copied, "--json").stdout) == read_json(copied / "growth.json")
    assert json.loads(succeed("choose", "--run", copied, "--split", "all", "--json").stdout) == read_json(
        copied / "choice.json"
    )
    profiled = succeed("profile", "--run", copied, *model, "--sizes", "3", "--repeats", 2, "--json")
    assert json.loads(profiled.stdout) == read_json(copied / "latency.json")
    evaluated = succeed(
        "evaluate", "--run", copied, *model, "--tree", copied / "growth.json:3", "--no-hf", "--json"
    )
    assert json.loads(evaluated.stdout) == read_json(copied / "evaluation.json")
    answers = json.loads(succeed("generate", "--run", copied, "--model", tiny, "--json").stdout)
    assert len(answers["generations"]) == 20


def test_the_same_prompts_in_another_place_are_the_same(copied, tiny, prompts, tmp_path):
    moved = tmp_path / "moved.jsonl"
    moved.write_text(prompts.read_text())
    assert "is kept" in succeed("generate", "--run", copied, "--model", tiny, "--prompts", moved).stderr


def test_the_next_command_can_be_typed(copied, tiny, heads, monkeypatch, tmp_path):
    """From calibration on, what each command names is run, up to the export."""
    monkeypatch.chdir(tmp_path)
    words = ["calibrate", "--run", "run", "--model", str(tiny), "--heads", str(heads)]
    seen = []
    for _ in range(4):
        seen.append(words[0])
        words = following(succeed(*words))
    assert seen == ["calibrate", "grow", "choose", "export"]
    assert words[0] == "evaluate" and words[-2:] == ["--run", "run"]
    assert ["--model", str(tiny), "--heads", str(heads)] == words[1:5]
