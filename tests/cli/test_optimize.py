"""`treeopt optimize` with no options: the demo, whose place a tiny model takes."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import fail, succeed
from treeopt.artifact import read_json
from treeopt.export.read import read_trees
from treeopt.measure.generations import read_generations, read_provenance
from treeopt.search.choice import read_choice
from treeopt.search.grow import Growth
from treeopt.search.split import half_of

RUN = Path("results/demo")


@pytest.fixture
def optimized(demo) -> str:
    return succeed("optimize", "--repeats", 2).stdout


def test_it_leaves_every_artifact_and_ends_with_the_answer(optimized):
    made = "generations.jsonl ranks.safetensors accuracy.csv growth.json latency.json choice.json evaluation.json"
    assert all((RUN / name).is_file() for name in made.split())
    [choice] = read_choice(RUN / "choice.json")
    for words in (
        "predicted by the choice",
        "replayed tokens/step",
        "measured",
        "transformers generate",
        "speedup",
    ):
        assert words in optimized
    assert "Decode with the tree" in optimized or "Decode plainly" in optimized
    assert optimized.rstrip().splitlines()[-1] == f"next: treeopt inspect {RUN / 'choice.json'}"
    assert next(iter(read_trees(RUN / "choices.json").values())) == choice.tree
    assert f"report: {RUN / 'report.html'}" in optimized.splitlines()
    sentence = next(line for line in optimized.splitlines() if line.startswith("Decode "))
    assert sentence in (RUN / "report.html").read_text()
    assert {half_of(name) for name in read_json(RUN / "evaluation.json")["runs"][0]["ids"]} == {"evaluate"}
    assert Growth.read(RUN / "growth.json").provenance["max_rank"] == 9, "the limit of the medusa format"


def test_the_demo_has_settings_of_its_own(optimized):
    made = read_provenance(RUN / "generations.jsonl")
    assert (made["temperature"], made["max_new_tokens"], made["template"]) == (0.7, 12, "none")
    assert max(len(answer.answer_ids) for answer in read_generations(RUN / "generations.jsonl")) == 12


def test_a_second_run_keeps_everything(optimized):
    files = {
        path: path.read_bytes() for path in RUN.iterdir() if path.is_file() and path.name != "choice.json"
    }
    again = succeed("optimize", "--repeats", 2)
    for stage in ("generate", "calibrate", "profile", "grow", "evaluate"):
        assert any(line.startswith(f"{stage}: ") and "kept" in line for line in again.stderr.splitlines()), (
            stage
        )
    assert again.stdout == optimized
    changed = {path.name for path, content in files.items() if path.read_bytes() != content}
    assert changed <= {"choices.json.meta.json", "evaluation.json", "report.html"}


def test_what_no_longer_holds_is_made_again(optimized, demo):
    succeed("train", "medusa1", "--epochs", 1, "--num-heads", 2)
    again = succeed("optimize", "--repeats", 2)
    assert "generate: results/demo/generations.jsonl is kept" in again.stderr
    assert "calibrate: " not in again.stderr and "evaluate: " not in again.stderr
    growth = Growth.read(RUN / "growth.json")
    assert growth.tree(growth.size).depth <= 2


def test_the_estimator_reaches_growth_and_choice(demo):
    succeed("optimize", "--repeats", 2, "--estimator", "shrunk", "--on-policy")
    growth = Growth.read(RUN / "growth.json")
    assert growth.estimator.startswith("shrunk (kappa ") and growth.provenance["on_policy"]
    assert read_choice(RUN / "choice.json")[0].provenance["estimator"] == growth.estimator
    again = succeed("optimize", "--repeats", 2)
    assert "grow: " not in again.stderr, "another estimator is another growth"
    assert Growth.read(RUN / "growth.json").estimator == "independent"


def test_other_settings_are_refused_until_it_starts_over(optimized):
    line = fail("optimize", "--temperature", 0)
    assert "made with temperature 0.7" in line and "--fresh" in line
    succeed("optimize", "--temperature", 0, "--repeats", 2, "--fresh")
    assert read_provenance(RUN / "generations.jsonl")["temperature"] == 0
    succeed("optimize", "--repeats", 2)
    assert read_provenance(RUN / "generations.jsonl")["temperature"] == 0, "a run keeps its settings"


def test_json_has_choice_files_figures_and_evaluation(demo):
    content = json.loads(succeed("optimize", "--repeats", 2, "--json").stdout)
    figures = content["tokens_per_s"]
    rates = {run["name"]: run["tokens_per_s"] for run in content["evaluation"]["runs"]}
    assert figures["plain"] == rates["plain"] and figures["hf_generate"] == rates["hf_generate"]
    assert figures["speedup"] == pytest.approx(
        figures["measured"] / max(rates["plain"], rates["hf_generate"])
    )
    assert [Path(file).name for file in content["files"]][:1] == ["choices.json"]


def test_no_tree_is_an_answer(demo, monkeypatch):
    """A machine where verifying more is far slower, as the profiler would see it."""
    from treeopt.measure import profile as room

    def slow(self, size):
        return [{"verify": float(size**2), "heads": 0.1, "accept": 0.1}]

    monkeypatch.setattr(room._Bench, "_stretch", slow)
    result = succeed("optimize", "--repeats", 2)
    assert read_choice(RUN / "choice.json")[0].choices is None
    assert "Decode plainly" in result.stdout
    assert "medusa has no file for plain decoding" in result.stderr
    assert [run["name"] for run in read_json(RUN / "evaluation.json")["runs"]] == ["plain", "hf_generate"]


def test_commands_share_the_demo_by_default(demo):
    assert "next: treeopt calibrate" in succeed("generate").stdout
    assert succeed("calibrate").stdout.endswith("next: treeopt grow\n")
    assert succeed("grow").stdout.endswith("next: treeopt profile\n")
    assert succeed("profile", "--sizes", "4,8", "--repeats", 2).stdout.endswith("next: treeopt choose\n")
    assert succeed("choose").stdout.endswith("next: treeopt export --format json\n")
    assert succeed("export", "--format", "json").stdout.endswith("next: treeopt evaluate\n")
    assert "identical" not in succeed("evaluate").stderr
