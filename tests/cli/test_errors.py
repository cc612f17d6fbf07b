"""Whatever is wrong, it is one line on stderr and a status: 2 for wrong usage, 1 for the rest. Nothing is lost."""

import json
import os
import shutil

import numpy as np
import pytest
import torch

from tests.cli.command_line import fail, run_cli, succeed, write_lines
from tests.tiny import random_model
from treeopt.artifact import read_json, write_json
from treeopt.search.latency import LatencyProfile

MODEL = ["--model", "{tiny}", "--heads", "{heads}"]
RUN = ["--run", "{run}"]

WRONG_USAGE = {
    "no such command": ["grwo"],
    "no such option": ["grow", "--size", 3],
    "budget 0": ["grow", "--budget", 0],
    "budget that is no number": ["grow", "--budget", "many"],
    "temperature below 0": ["generate", "--temperature", -1],
    "temperature nan": ["generate", "--temperature", "nan"],
    "temperature infinite": ["evaluate", "--temperature", "inf"],
    "prompts of two files": ["generate", "--prompts", "a.jsonl", "--prompts", "b.jsonl"],
    "no tokens": ["generate", "--max-new-tokens", 0],
    "unknown template": ["generate", "--template", "alpaca"],
    "unknown dtype": ["calibrate", "--dtype", "int8"],
    "unknown split": ["replay", "--split", "test"],
    "sizes with a zero": ["profile", "--sizes", "4,0"],
    "sizes in words": ["profile", "--sizes", "4,eight"],
    "sizes empty": ["profile", "--sizes", ""],
    "random weights without a shape": ["profile", "--random-weights"],
    "shape without random weights": ["profile", "--config", "config.json"],
    "random weights and a model": ["profile", "--random-weights", "--config", "config.json", "--model", "x"],
    "table and ranks": ["grow", "--accuracy", "a.json", "--ranks", "r.csv"],
    "cumulative without a table": ["grow", "--cumulative"],
    "table and growth": ["choose", "--accuracy", "a.json", "--growth", "g.json"],
    "contiguous without a table": ["choose", "--contiguous"],
    "export to nothing": ["export"],
    "inspect nothing": ["inspect"],
    "no such training": ["train", "medusa7"],
    "learning rate 0": ["train", "medusa1", "--learning-rate", 0],
    "option without its value": ["grow", "--run"],
}


@pytest.mark.parametrize("arguments", WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage_exits_with_2(arguments):
    line = fail(*arguments, status=2)
    assert line.startswith("treeopt") and "--help)" in line


# in a complete run, {run}: what is typed, and what the line must name
WRONG_INPUT = {
    "model that is nowhere": (["generate", *RUN, "--model", "no/such/model"], "no/such/model"),
    "model that is a file": (["generate", *RUN, "--model", "{run}/choice.json"], "choice.json"),
    "model that is another directory": (["generate", *RUN, "--model", "{heads}"], "no weights there"),
    "model that is empty text": (["generate", *RUN, "--model", ""], "treeopt:"),
    "GGUF that is not there": (["generate", *RUN, "--model", "x.gguf"], "x.gguf"),
    "device that is nowhere": (["generate", *RUN, "--model", "{tiny}", "--device", "abacus"], "abacus"),
    "heads that are nowhere": (
        ["calibrate", *RUN, "--model", "{tiny}", "--heads", "{tiny}"],
        "no Medusa heads",
    ),
    "no heads": (["calibrate", *RUN, "--model", "{tiny}"], "treeopt train medusa1 --model"),
    "no heads to time": (["profile", *RUN, "--model", "{tiny}"], "treeopt train medusa1 --model"),
    "no heads for everything": (["optimize", *RUN, "--model", "{tiny}"], "treeopt train medusa1 --model"),
    "other temperature": (["generate", *RUN, "--model", "{tiny}", "--temperature", 0], "temperature 0.7"),
    "other seed": (["calibrate", *RUN, *MODEL, "--seed", 3], "seed 0"),
    "other length": (["optimize", *RUN, *MODEL, "--max-new-tokens", 5], "max_new_tokens 24"),
    "other prompts": (["generate", *RUN, "--model", "{tiny}", "--prompts", "{other}"], "prompts_sha256"),
    "prompts that are nowhere": (["evaluate", *RUN, *MODEL, "--prompts", "no.jsonl"], "no.jsonl"),
    "chat without a template": (
        ["generate", "--run", "new", "--model", "{tiny}", "--prompts", "{other}"],
        "--template none",
    ),
    "context beyond the model": (["profile", *RUN, *MODEL, "--context", 10**6], "--context 1000000"),
    "half without prompts": (
        ["evaluate", *RUN, *MODEL, "--prompts", "{other}", "--template", "none"],
        "evaluate half",
    ),
    "tree that is nowhere": (["replay", *RUN, "--tree", "no.json"], "no.json"),
    "growth of that size": (["replay", *RUN, "--tree", "{run}/growth.json:999"], "999"),
    "tree deeper than the heads": (["replay", *RUN, "--tree", "{deep}"], "[0, 0, 0, 0]"),
    "tree deeper than the heads, decoded": (["evaluate", *RUN, *MODEL, "--tree", "{deep}"], "[0, 0, 0, 0]"),
    "tree without a parent": (["export", *RUN, "--format", "json", "--tree", "{orphan}"], "[0, 1]"),
    "rank beyond the runtime": (["export", *RUN, "--format", "medusa", "--tree", "{wide}"], "[10]"),
    "no such format": (["export", *RUN, "--format", "sglnag"], "json, hydra, medusa"),
    "no such format to grow for": (["grow", *RUN, "--format", "sglnag"], "json, hydra, medusa"),
    "format that is none for optimize": (["optimize", *RUN, *MODEL, "--format", "x"], "--format x"),
    "output that is a directory": (["grow", *RUN, "-o", "{run}"], "cannot be written"),
    "output of an evaluation": (["evaluate", *RUN, *MODEL, "-o", "{run}"], "cannot be written"),
    "output of a training": (
        ["train", "medusa1", *RUN, "--model", "{tiny}", "-o", "{deep}"],
        "cannot be written",
    ),
    "run that is a file": (["profile", *MODEL, "--run", "{deep}"], "cannot be written"),
    "output below a file": (["choose", *RUN, "-o", "{run}/choice.json/x.json"], "cannot be written"),
    "table that is nowhere": (["grow", "--accuracy", "no.json"], "no.json"),
    "table that is a .pt and is not": (["grow", "--accuracy", "{fake}"], "weights_only"),
    "latency that is another artifact": (
        ["choose", *RUN, "--latency", "{run}/growth.json"],
        "not a latency file",
    ),
    "growth that is another artifact": (
        ["choose", *RUN, "--growth", "{run}/latency.json"],
        "not a growth file",
    ),
    "ranks that are heads": (
        ["grow", *RUN, "--ranks", "{heads}/medusa_lm_head.safetensors"],
        "treeopt calibrate",
    ),
    "inspect a directory": (["inspect", "{run}"], "is a directory"),
    "inspect nothing there": (["inspect", "no.json"], "no.json"),
    "inspect a binary": (["inspect", "{fake}"], "fake.pt"),
    "generations to train on": (
        ["train", "medusa1", *RUN, "--model", "{tiny}", "--generations", "{other}"],
        "line 1",
    ),
}


@pytest.fixture
def files(copied, tiny, heads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {
        "deep": "[[0],[0,0],[0,0,0],[0,0,0,0]]",
        "orphan": "[[0,1]]",
        "wide": json.dumps([[rank] for rank in range(13)]),
    }
    paths = {name: tmp_path / f"{name}.json" for name in contents}
    for name, text in contents.items():
        paths[name].write_text(text)
    paths["fake"] = tmp_path / "fake.pt"
    paths["fake"].write_bytes(bytes(range(256)))
    paths["other"] = write_lines(tmp_path / "other.jsonl", [{"id": "p0", "prompt": "one"}])
    return paths | {"run": copied, "tiny": tiny, "heads": heads}


@pytest.mark.parametrize(("arguments", "named"), WRONG_INPUT.values(), ids=WRONG_INPUT)
def test_wrong_input_exits_with_1_and_changes_nothing(files, arguments, named):
    before = {path: path.read_bytes() for path in files["run"].rglob("*") if path.is_file()}
    line = fail(*(str(word).format(**files) for word in arguments))
    assert line.startswith("treeopt: ") and named in line
    assert "Traceback" not in line and "unexpected" not in line
    after = {path: path.read_bytes() for path in files["run"].rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("command", ["grow", "choose", "replay", "export --format json"])
def test_a_run_without_artifacts_names_the_command_that_makes_them(tmp_path, command):
    assert "`treeopt " in fail(*command.split(), "--run", tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, tiny):
    """A model of the same shape with other weights."""
    directory = tmp_path_factory.mktemp("stranger") / "stranger"
    shutil.copytree(tiny, directory)
    model = random_model("llama", vocab_size=json.loads((tiny / "config.json").read_text())["vocab_size"])
    with torch.no_grad():
        model.lm_head.weight.add_(0.1)
    model.save_pretrained(directory)
    return directory


@pytest.mark.parametrize(
    "command", ["generate", "calibrate", "profile", "evaluate", "optimize", "train medusa1"]
)
def test_another_model_in_a_run_is_refused(copied, stranger, heads, command):
    own = [] if command == "train medusa1" else ["--heads", heads]  # training takes none
    line = fail(*command.split(), "--run", copied, "--model", stranger, *own)
    assert "model_sha256" in line


def test_other_heads_in_a_run_are_refused_where_they_meet_its_ranks(copied, tiny, tmp_path):
    model = ["--run", copied, "--model", tiny]
    succeed("train", "medusa1", *model, "--epochs", 1, "--num-heads", 3)
    for command in ("profile", "evaluate"):
        assert "heads_sha256" in fail(command, *model)
    succeed("calibrate", *model)
    assert "other ranks" in fail("choose", "--run", copied)
    succeed("grow", "--run", copied)
    assert "heads_sha256" in fail("choose", "--run", copied), "latencies are still of the first heads"
    assert "heads_sha256" in fail("replay", "--run", copied), "so is the choice"
    assert "heads_sha256" in fail("evaluate", *model), "and so it is when it would be decoded with"
    succeed("replay", "--run", copied, "--tree", copied / "choice.json")


def test_changed_prompts_are_noticed(copied, tiny, heads, prompts, tmp_path):
    changed = tmp_path / "prompts.jsonl"
    changed.write_text(prompts.read_text())
    arguments = ["--run", tmp_path / "new", "--model", tiny]
    succeed("generate", *arguments, "--prompts", changed, "--template", "none", "--max-new-tokens", 2)
    changed.write_text(prompts.read_text().replace("open", "close"))
    assert "prompts_sha256" in fail("generate", *arguments)
    assert "prompts_sha256" in fail("calibrate", *arguments, "--heads", heads)


def test_another_dtype_is_a_warning(copied, tiny, heads):
    model = ["--run", copied, "--model", tiny, "--heads", heads, "--dtype", "bfloat16"]
    evaluated = succeed("evaluate", *model, "--tree", copied / "growth.json:3", "--no-hf")
    assert "warning: " in evaluated.stderr and "calibrated with dtype float32" in evaluated.stderr
    profiled = succeed("profile", *model, "--repeats", 2)
    assert "calibrated in float32, profiled in bfloat16" in profiled.stderr
    assert "latencies are of bfloat16, ranks of float32" in succeed("choose", "--run", copied).stdout


def test_latencies_of_another_machine_are_not_mixed(copied, tiny, heads):
    content = read_json(copied / "latency.json")
    content["provenance"]["device"] = "cuda:0"
    write_json(copied / "latency.json", content, "latency")
    line = fail("profile", "--run", copied, "--model", tiny, "--heads", heads, "--sizes", "3")
    assert "device" in line
    assert 3 not in LatencyProfile.read(copied / "latency.json").samples["tokens"].to_numpy()


def test_a_bug_is_one_line_too(copied, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("of a kind\nnobody thought of")

    monkeypatch.setattr("treeopt.cli.stages.grow.grow", broken)
    line = fail("grow", "--run", copied)
    assert "unexpected ZeroDivisionError: of a kind nobody thought of" in line
    monkeypatch.setenv("TREEOPT_TRACEBACK", "1")
    assert isinstance(run_cli("grow", "--run", copied).exception, ZeroDivisionError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_one_line(copied):
    copied.chmod(0o500)
    assert "cannot be written" in fail("grow", "--run", copied)


def test_a_tree_of_plain_decoding_has_no_medusa_file(copied, tmp_path):
    bare = tmp_path / "bare.json"
    bare.write_text("[]")
    assert "plain decoding" in fail("export", "--run", copied, "--format", "medusa", "--tree", bare)


def test_hits_of_the_reference_tool_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hits = np.zeros((10, 3), bool)
    hits[:6, 0], hits[6:8, 1] = True, True
    torch.save([torch.from_numpy(hits), torch.from_numpy(hits[:5])], tmp_path / "tiny_heads_accuracy.pt")
    succeed("grow", "--accuracy", "tiny_heads_accuracy.pt", "--budget", 4)
    content = read_json(tmp_path / "results" / "tiny_heads_accuracy" / "growth.json")
    assert content["tokens_per_step"][-1] == pytest.approx(1 + 0.6 + 0.6 + 0.2)
