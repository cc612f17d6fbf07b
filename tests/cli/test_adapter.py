"""--adapter: a model and an adapter together are a model of their own, for every command that loads one."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.command_line import fail, following, succeed
from tests.tiny import heads_for, shaken
from treeopt.artifact import read_json
from treeopt.measure.generations import read_generations, read_provenance
from treeopt.model.adapter import attach_lora, save_adapter
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import save_heads
from treeopt.model.sources import load_source
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable

pytest.importorskip("peft")


def lora(directory, model, seed=3) -> Path:
    """An adapter of a model's directory, strong enough to change its answers."""
    base = load_source(str(model), device="cpu", dtype=torch.float32)
    adapter = shaken(attach_lora(base.model, rank=4), seed)
    save_adapter(adapter, directory, base_model=str(model), base_sha256=base.sha256)
    return directory


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, tiny) -> Path:
    return lora(tmp_path_factory.mktemp("adapters") / "lora", tiny)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory, tiny) -> Path:
    """Heads for the tiny model."""
    directory = tmp_path_factory.mktemp("untrained") / "heads"
    save_heads(directory, heads_for(Backbone.load(str(tiny))), base_model=str(tiny))
    return directory


@pytest.fixture(scope="module")
def adapted(tmp_path_factory, tiny, adapter, untrained, prompts) -> Path:
    """A run of the adapted model, made command by command, each as the one before names it."""
    run = tmp_path_factory.mktemp("adapted") / "run"
    options = ["--run", run, "--model", tiny, "--heads", untrained, "--adapter", adapter]
    settings = ["--prompts", prompts, "--template", "none", "--max-new-tokens", 12]
    words = following(succeed("generate", *options, *settings))
    assert words[0] == "calibrate" and words[words.index("--adapter") + 1] == str(adapter)
    succeed(*words)
    succeed("grow", "--run", run, "--budget", 8, "--format", "medusa")
    succeed("profile", *options, "--sizes", "2,4", "--repeats", 2)
    succeed("evaluate", *options, "--tree", run / "growth.json:4")
    return run


def test_every_artifact_is_of_model_and_adapter_together(adapted, tiny, adapter):
    answers = adapted / "generations.jsonl"
    origins = [
        read_provenance(answers),
        RankTable.load(adapted / "ranks.safetensors").provenance,
        LatencyProfile.read(adapted / "latency.json").provenance,
        read_json(adapted / "evaluation.json")["provenance"],
    ]
    merged = Backbone.load(str(tiny), adapter=adapter)
    assert {origin["model"] for origin in origins} == {"tiny+lora"}
    assert {origin["model_sha256"] for origin in origins} == {merged.sha256}
    assert merged.sha256 != Backbone.load(str(tiny)).sha256
    assert all(
        run["identical_to_plain"] in (True, None) for run in read_json(adapted / "evaluation.json")["runs"]
    )
    with torch.inference_mode():
        for answer in read_generations(answers)[:3]:
            ids = torch.tensor([[*answer.prompt_ids, *answer.answer_ids]])
            scores = merged.logits(merged.states(ids))[0, len(answer.prompt_ids) - 1 : -1]
            assert scores.argmax(-1).tolist() == answer.answer_ids


def test_artifacts_of_base_and_adapted_model_are_told_apart(adapted, tiny, adapter, untrained, tmp_path):
    run = Path(shutil.copytree(adapted, tmp_path / "run"))
    base = ["--run", run, "--model", tiny, "--heads", untrained]
    assert "generations.jsonl: made with model_sha256" in fail("generate", *base)
    assert "answers of another model than tiny" in fail("generate", *base, "--fresh")
    for command in (["profile", "--sizes", 8], ["evaluate", "--tree", run / "growth.json:4"]):
        assert "model_sha256" in fail(command[0], *base, *command[1:])
    other = lora(tmp_path / "other", tiny, seed=9)
    assert "model_sha256" in fail("calibrate", *base, "--adapter", other)


def test_the_runs_own_adapter_is_used_unless_another_is_named(adapted, tiny, adapter, untrained, tmp_path):
    run = Path(shutil.copytree(adapted, tmp_path / "run"))
    shutil.copytree(adapter, run / "adapter")
    (run / "ranks.safetensors").unlink()
    (run / "latency.json").unlink()
    options = ["--run", run, "--model", tiny, "--heads", untrained]
    assert "--adapter" not in following(succeed("calibrate", *options))
    assert RankTable.load(run / "ranks.safetensors").provenance["model"] == "tiny+adapter"
    assert "no LoRA adapter there" in fail("calibrate", *options, "--adapter", tmp_path)


def test_the_demo_takes_an_adapter_only_when_named(demo, adapter):
    run = demo.parent / "results" / "demo"
    shutil.copytree(adapter, run / "adapter")
    succeed("generate")
    assert read_provenance(run / "generations.jsonl")["model"] == "demo"
    named = demo.parent / "named"
    succeed("generate", "--run", named, "--adapter", run / "adapter")
    assert read_provenance(named / "generations.jsonl")["model"] == "demo+adapter"


def test_what_cannot_be_merged_is_one_line(tiny, adapter, untrained, tmp_path, monkeypatch):
    def failed(directory, *model):
        return fail(
            "generate", "--run", tmp_path / "run", *(model or ["--model", tiny]), "--adapter", directory
        )

    assert "absent: no LoRA adapter there" in failed(tmp_path / "absent")
    assert "heads: no LoRA adapter there" in failed(untrained)
    assert f"an adapter of {tiny} with sha256" in failed(adapter, "--run", tmp_path / "demo")
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "pip install peft" in failed(adapter)
    assert not (tmp_path / "run").exists()


def test_random_weights_take_no_adapter(tiny, adapter):
    shape = ["--random-weights", "--config", tiny / "config.json"]
    assert "--adapter" in fail("profile", *shape, "--adapter", adapter, status=2).splitlines()[-1]
