"""Ctrl-C and broken pipes: nothing that was finished is lost, nothing is half-written."""

import shutil
import subprocess
import sys

import pytest

from tests.cli.command_line import run_cli, succeed
from treeopt.artifact import read_json
from treeopt.decode import Engine
from treeopt.measure import calibrate as calibration
from treeopt.measure import evaluate as evaluation
from treeopt.measure.generations import GenerationsFile, read_generations


def interrupted(*arguments: object) -> str:
    result = run_cli(*arguments)
    assert result.exit_code == 130
    assert result.stdout == ""
    notes = ("generate:", "profile:", "warning:")
    [line] = [line for line in result.stderr.splitlines() if not line.startswith(notes)]
    return line


def after(calls: int, function):
    """The function until it has been called so often, then Ctrl-C."""
    count = 0

    def called(*arguments, **options):
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return called


def test_generate_keeps_finished_answers_and_goes_on(tmp_path, tiny, prompts, generated, monkeypatch):
    arguments = ["generate", "--run", tmp_path, "--model", tiny, "--prompts", prompts, "--template", "none"]
    arguments += ["--temperature", 0.7, "--max-new-tokens", 24, "--batch-size", 4]
    append = GenerationsFile.append
    monkeypatch.setattr(GenerationsFile, "append", after(8, append))
    line = interrupted(*arguments)
    assert "kept" in line and str(tmp_path) in line
    kept = read_generations(tmp_path / "generations.jsonl")
    assert len(kept) == 8
    monkeypatch.setattr(GenerationsFile, "append", after(12, append))  # the other 12 answers, and no more
    succeed(*arguments)
    answers = {answer.id: answer for answer in read_generations(tmp_path / "generations.jsonl")}
    assert answers == {answer.id: answer for answer in read_generations(generated / "generations.jsonl")}


def test_an_interrupted_start_forgets_its_settings(tmp_path, tiny, prompts, monkeypatch):
    arguments = ["generate", "--run", tmp_path, "--model", tiny, "--prompts", prompts, "--template", "none"]
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", after(0, Engine.step))
        interrupted(*arguments, "--max-new-tokens", 3)
    succeed(*arguments, "--max-new-tokens", 2)
    succeed(*arguments, "--max-new-tokens", 2)


def test_calibrate_goes_on_from_what_it_saved(tmp_path, tiny, heads, generated, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(generated, run)
    monkeypatch.setattr("treeopt.measure.states.TOKENS_AT_ONCE", 100)
    monkeypatch.setattr(calibration, "SAVE_EVERY", 1)
    arguments = ["calibrate", "--run", run, "--model", tiny, "--heads", heads]
    score = calibration.score
    monkeypatch.setattr(calibration, "score", after(2, score))
    interrupted(*arguments)
    assert (run / "ranks.partial.safetensors").is_file() and not (run / "ranks.safetensors").exists()
    seen = []

    def counted(*arguments):
        seen.extend(arguments[2])
        return score(*arguments)

    monkeypatch.setattr(calibration, "score", counted)
    succeed(*arguments)
    assert 0 < len(seen) < len(read_generations(run / "generations.jsonl"))
    assert not (run / "ranks.partial.safetensors").exists()


@pytest.mark.parametrize("command", ["profile", "evaluate"])
def test_an_interrupted_measurement_leaves_the_last_one(copied, tiny, heads, command, monkeypatch):
    before = {path: path.read_bytes() for path in copied.iterdir() if path.is_file()}
    monkeypatch.setattr(Engine, "step", after(3, Engine.step))
    interrupted(command, "--run", copied, "--model", tiny, "--heads", heads)
    assert {path: path.read_bytes() for path in copied.iterdir() if path.is_file()} == before


def test_an_interrupted_evaluation_keeps_the_prompts_that_were_finished(copied, tiny, heads, monkeypatch):
    whole = {run["name"]: run for run in read_json(copied / "evaluation.json")["runs"]}
    arguments = ["evaluate", "--run", copied, "--model", tiny, "--heads", heads]
    arguments += ["--tree", copied / "growth.json:8"]
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "_take_turns", after(2, evaluation._take_turns))
        line = interrupted(*arguments)
    asked = len(whole["plain"]["ids"])
    assert f"{copied / 'evaluation.json'} has the 2 of {asked} prompts" in line and "starts over" in line
    content = read_json(copied / "evaluation.json")
    assert content["provenance"]["interrupted"] is True
    for run in content["runs"]:
        assert run["ids"] == whole[run["name"]]["ids"][:2]
        assert run["step_tokens"] == whole[run["name"]]["step_tokens"][:2]
    assert "interrupted" in succeed("report", "--run", copied).stdout
    succeed(*arguments)
    content = read_json(copied / "evaluation.json")
    assert "interrupted" not in content["provenance"] and len(content["runs"][0]["ids"]) == asked


def test_an_interrupted_training_leaves_the_old_heads(copied, tiny, monkeypatch):
    arguments = ["train", "medusa1", "--run", copied, "--model", tiny, "--epochs", 1]
    succeed(*arguments)
    files = {path.name: path.read_bytes() for path in (copied / "heads").iterdir()}
    monkeypatch.setattr("treeopt.train.module.cross_entropy_sum", after(0, None))
    interrupted(*arguments, "--overwrite")
    assert {name: (copied / "heads" / name).read_bytes() for name in files} == files


def test_a_closed_pipe_is_no_error(complete):
    command = f"{sys.executable} -m treeopt inspect {complete / 'latency.json'} --json | head -c 20"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (len(done.stdout), done.stderr) == (20, "")
