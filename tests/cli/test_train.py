"""`treeopt train`: from answers to heads and adapters that every other command takes, interrupted or not."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.cli.command_line import fail, filled_in, following, run_cli, succeed, write_lines
from tests.train.samples import ctrl_c, log_of
from treeopt.model.adapter import ORIGIN
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.tensor_files import read_tensors
from treeopt.search.rank_files import read_ranks

SHORT = ["--num-heads", 2, "--epochs", 2, "--batch-size", 2, "--held-out", 0.3]
LORA = ["--lora-rank", 4, "--lora-dropout", 0]


@pytest.fixture
def run(tmp_path, generated) -> Path:
    """A run with answers."""
    return Path(shutil.copytree(generated, tmp_path / "run"))


def tensors(directory):
    return read_tensors(directory / "medusa_lm_head.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_medusa1_from_answers_to_an_evaluation(run, tiny):
    model = ["--run", run, "--model", tiny]
    trained = succeed("train", "medusa1", *model, *SHORT)
    heads = run / "heads"
    assert {path.name for path in heads.iterdir()} == {
        "medusa_lm_head.safetensors",
        "config.json",
        "log.jsonl",
        "training.svg",
    }
    assert "<svg" in (heads / "training.svg").read_text()
    facts, records = log_of(heads)
    assert (facts["heads"], facts["held_out"]) == (2, 0.3) and records[-1]["stage"] == "medusa1"
    assert trained.stdout.startswith(str(heads / "medusa_lm_head.safetensors"))
    assert "held_out_top1" in trained.stdout and "loss of the backbone" not in trained.stdout
    succeed(*following(trained))
    assert read_ranks(run / "ranks.safetensors").heads == 2
    succeed("grow", "--run", run, "--budget", 6)
    assert (
        '"identical_to_plain": true'
        in succeed("evaluate", *model, "--tree", run / "growth.json:6", "--json").stdout
    )


@pytest.mark.parametrize("extra", [["--self-distill"], ["--no-warmup", "--own-lm-head"]])
def test_medusa2_leaves_a_run_whose_heads_and_adapter_are_found(extra, run, tiny, prompts):
    trained = succeed("train", "medusa2", "--run", run, "--model", tiny, *SHORT, *LORA, *extra)
    new = run / "medusa2"
    assert {path.name for path in new.iterdir()} == {"heads", "adapter", "log.jsonl", "training.svg"}
    facts, records = log_of(new)
    assert [record["stage"] for record in records][-1] == "joint"
    assert (records[0]["stage"] == "warmup") == ("--self-distill" in extra) == facts["self_distill"]
    assert "loss of the backbone on held-out answers" in trained.stdout
    words = following(trained)
    assert words[0] == "calibrate" and words[words.index("--run") + 1] == str(new)
    assert words[words.index("--prompts") + 1] == "FILE", "other prompts than those of the training"
    model = ["--run", new, "--model", tiny]
    succeed("calibrate", *model, "--prompts", prompts, "--template", "none", "--max-new-tokens", 12)
    adapted = Backbone.load(str(tiny), adapter=new / "adapter")
    origin = read_ranks(new / "ranks.safetensors").provenance
    assert origin["model_sha256"] == adapted.sha256 != Backbone.load(str(tiny)).sha256
    assert origin["heads_sha256"] == load_heads(new / "heads", adapted).sha256
    succeed("grow", "--run", new, "--budget", 6)
    assert (
        '"identical_to_plain": true'
        in succeed("evaluate", *model, "--tree", new / "growth.json:6", "--json").stdout
    )


def test_the_adapter_knows_its_base(run, tiny):
    succeed("train", "medusa2", "--run", run, "--model", tiny, *SHORT, *LORA, "--epochs", 1)
    origin = json.loads((run / "medusa2" / "adapter" / ORIGIN).read_text())
    assert (origin["base_model"], origin["base_sha256"]) == (str(tiny), Backbone.load(str(tiny)).sha256)


def test_a_fully_trained_backbone_is_a_model_of_its_own(run, tiny, prompts, tmp_path):
    output = tmp_path / "new"
    arguments = ["--run", run, "--model", tiny, *SHORT, "--full", "--epochs", 1, "-o", output]
    trained = succeed("train", "medusa2", *arguments)
    assert {path.name for path in output.iterdir()} == {"heads", "model", "log.jsonl", "training.svg"}
    words = following(trained)
    assert words[words.index("--model") + 1] == str(output / "model")
    model, base = Backbone.load(str(output / "model")), Backbone.load(str(tiny))
    changed = [
        not torch.equal(a, b) for a, b in zip(model.model.parameters(), base.model.parameters(), strict=True)
    ]
    assert all(changed) and model.tokenizer is not None
    succeed(*filled_in(words, prompts), "--template", "none", "--max-new-tokens", 8)
    assert read_ranks(output / "ranks.safetensors").provenance["model_sha256"] == model.sha256


def test_json_is_the_log_and_the_heads_hash(run, tiny):
    content = json.loads(
        succeed("train", "medusa1", "--run", run, "--model", tiny, *SHORT, "--json").stdout,
        parse_constant=pytest.fail,
    )
    facts, records = log_of(run / "heads")
    assert content["log"] == [facts, *records]
    assert content["heads_sha256"] == load_heads(run / "heads", Backbone.load(str(tiny))).sha256


def test_answers_of_several_files_compressed_or_not(run, tiny):
    lines = (run / "generations.jsonl").read_text().splitlines(keepends=True)
    (run / "one.jsonl").write_text("".join(lines[:8]))
    (run / "two.jsonl.gz").write_bytes(gzip.compress("".join(lines[8:]).encode()))
    model = ["--run", run, "--model", tiny, *SHORT, "--split", "all"]
    succeed("train", "medusa1", *model, "--generations", run / "generations.jsonl", "-o", run / "whole")
    files = ["--generations", run / "one.jsonl", "--generations", run / "two.jsonl.gz"]
    succeed("train", "medusa1", *model, *files, "-o", run / "parts")
    facts, _ = log_of(run / "parts")
    assert facts["answers"] + facts["held_out_answers"] + facts["skipped_answers"] == len(lines)
    assert same(tensors(run / "whole"), tensors(run / "parts"))
    (run / "two.meta.json").write_text(json.dumps({"provenance": {"model_sha256": "0" * 64}}))
    line = fail("train", "medusa1", *model, *files, "-o", run / "other")
    assert "two.jsonl.gz" in line and "do not belong together" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [({"answer_ids": [5, 70000]}, "outside the vocabulary"), ({"answer_ids": [5, 6], "ended": "eos"}, "cut")],
)
def test_the_runs_own_answers_are_held_against_the_model(change, message, run, tiny):
    rows = [json.loads(line) for line in (run / "generations.jsonl").read_text().splitlines()]
    rows[3] |= change
    write_lines(run / "generations.jsonl", rows)
    for command in (["generate"], ["train", "medusa1"]):
        line = fail(*command, "--run", run, "--model", tiny)
        assert "generations.jsonl, line 4" in line and message in line


def test_answers_too_short_to_learn_from_are_one_line(tmp_path, tiny):
    rows = [{"id": f"p{n}", "prompt_ids": [5], "answer_ids": [6, 7]} for n in range(3)]
    file = write_lines(tmp_path / "short.jsonl", rows)
    arguments = ["--run", tmp_path / "run", "--model", tiny, "--generations", file, "--split", "all"]
    line = fail("train", "medusa1", *arguments)
    assert "none of 3 answers has the 7 tokens that 5 heads learn from" in line
    rows[0]["answer_ids"] = list(range(6, 26))
    write_lines(file, rows)
    succeed("train", "medusa1", *arguments)
    assert log_of(tmp_path / "run" / "heads")[0]["skipped_answers"] == 2


def interrupted(*arguments, place):
    result = run_cli(*arguments)
    assert (result.exit_code, result.stdout) == (130, ""), (result.stderr, result.exception)
    [line] = result.stderr.splitlines()
    assert "interrupted" in line and "the same command goes on from there" in line
    assert f"checkpoints in {place / 'training'}," in line and (place / "training").is_dir()


@pytest.mark.parametrize(("method", "stages"), [("medusa1", ["medusa1"]), ("medusa2", ["warmup", "joint"])])
def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_goes_on(method, stages, run, tiny, monkeypatch):
    arguments = ["train", method, "--run", run, "--model", tiny, *SHORT]
    arguments += ["--generations", run / "generations.jsonl"]
    expected = succeed(*arguments, "-o", run / "whole", "--json")
    for stage in stages:
        with monkeypatch.context() as patch:
            ctrl_c(patch, stage, 3)
            interrupted(*arguments, "-o", run / "parts", place=run / "parts")
        assert {path.name for path in (run / "parts").iterdir()} == {"training"}
    line = fail(*arguments, "-o", run / "parts", "--learning-rate", 0.5)
    assert "learning_rate" in line and "--overwrite" in line
    found = succeed(*arguments, "-o", run / "parts", "--json")
    one, other = json.loads(expected.stdout), json.loads(found.stdout)
    assert one["log"] == other["log"] and one["heads_sha256"] == other["heads_sha256"]
    assert not (run / "parts" / "training").exists()
    if method == "medusa2":
        adapters = [
            read_tensors(run / name / "adapter" / "adapter_model.safetensors") for name in ("whole", "parts")
        ]
        assert same(*adapters)


def test_ctrl_c_on_a_process(run, tiny):
    """The real thing: a process, and a signal while it trains."""
    arguments = ["train", "medusa1", "--run", run, "--model", tiny, "--epochs", 5000, "--num-heads", 2]
    command = [sys.executable, "-m", "treeopt", *map(str, arguments)]
    log = run / "heads" / "training" / "log.jsonl"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (log.is_file() and log.read_text().count("\n") > 2):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    last = stderr.splitlines()[-1]
    assert (
        "treeopt: interrupted; finished answers and artifacts are kept" in last and "Traceback" not in stderr
    )
    assert list(log.parent.glob("medusa1/checkpoint-*/tally.json"))


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch.distributed with gloo")
def test_two_processes_train_what_one_does(run, tiny):
    arguments = [
        "train",
        "medusa1",
        "--run",
        run,
        "--model",
        tiny,
        *SHORT,
        "--held-out",
        0.2,
        "--device",
        "cpu",
    ]
    arguments += ["--no-precompute", "--generations", run / "generations.jsonl", "--json"]
    alone = succeed(*arguments, "-o", run / "one")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += ["-m", "--", "treeopt", *map(str, arguments), "--batch-size", "1", "-o", str(run / "two")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    one, two = tensors(run / "one"), tensors(run / "two")
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-5, atol=1e-5)
    (facts, *records), (_, *others) = json.loads(alone.stdout)["log"], json.loads(done.stdout)["log"]
    assert facts["answers"] % 2 == 0, "or the last step would have an answer twice"
    for record, other in zip(records, others, strict=True):
        for name in ("train_loss", "held_out_loss"):
            assert other.get(name) == pytest.approx(record.get(name), abs=2e-5)
