"""A run that was interrupted, however often and wherever, ends as one that was not: the same records, the same bits."""

import os
import shutil
import signal
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from tests import tiny
from tests.train.samples import RAGGED, ctrl_c, cyclic, fresh, log_of, medusa1, medusa2, ragged, weights_of
from treeopt.errors import InputError, MismatchError
from treeopt.train.callbacks import Interrupts, Tally
from treeopt.train.medusa2 import LoraSettings
from treeopt.train.run import last_checkpoint
from treeopt.train.trainer import HeadTrainer

LONG = {
    "epochs": 21,
    "batch_size": 1,
}  # 6 steps an epoch, 126 in all; a record every 2, a checkpoint every 10
LORA = LoraSettings(rank=2)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def run_medusa1(directory, **changes):
    return weights_of(medusa1(tiny.cycle(), cyclic(8), directory, **(LONG | changes)))


def run_medusa2(directory, lora=LORA, **changes):
    """Of heads and backbone together."""
    model = fresh(attention_dropout=0.1)
    heads, adapter = medusa2(
        model, RAGGED[:4], directory, lora=lora, self_distill=lora is not None, **changes
    )
    assert (adapter is None) == (lora is None)
    return weights_of(heads) | weights_of(model.model)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    return run_medusa1(directory), log_of(directory)


@pytest.mark.parametrize("step", [1, 9, 12, 57, 126])
def test_medusa1_goes_on_as_if_nothing_had_been(step, uninterrupted, tmp_path, monkeypatch):
    """Stopped in the first step, within an epoch and between two records, behind an epoch, and in the last step."""
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", step)
        with pytest.raises(KeyboardInterrupt):
            run_medusa1(tmp_path)
    assert last_checkpoint(tmp_path / "medusa1") == tmp_path / "medusa1" / f"checkpoint-{step}"
    assert log_of(tmp_path)[1][-1]["step"] <= step
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights)
    assert log_of(tmp_path) == log


def test_a_run_may_be_interrupted_again_and_again(uninterrupted, tmp_path, monkeypatch):
    for step in (3, 4, 40, 101):
        with monkeypatch.context() as patch:
            ctrl_c(patch, "medusa1", step)
            with pytest.raises(KeyboardInterrupt):
                run_medusa1(tmp_path)
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights) and log_of(tmp_path) == log


@pytest.mark.parametrize("step", [7, 15])
def test_a_second_ctrl_c_ends_at_once_and_the_last_checkpoint_serves(
    step, uninterrupted, tmp_path, monkeypatch
):
    """Before the first checkpoint too, where all begins again; no record stands twice in the log."""
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", step, times=2)
        with pytest.raises(KeyboardInterrupt):
            run_medusa1(tmp_path)
    assert signal.getsignal(signal.SIGINT) == before
    last = last_checkpoint(tmp_path / "medusa1")
    assert (last is None) if step == 7 else (last is not None and last.name == "checkpoint-10")
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights) and log_of(tmp_path) == log


def test_a_checkpoint_or_a_record_that_was_half_written_is_passed_over(uninterrupted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", 23)
        with pytest.raises(KeyboardInterrupt):
            run_medusa1(tmp_path)
    broken = tmp_path / "medusa1" / "checkpoint-23"
    (broken / Tally.FILE).unlink()
    (broken / "trainer_state.json").unlink()
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"stage": "med')
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights) and log_of(tmp_path) == log


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json", Tally.FILE])
def test_a_checkpoint_that_was_cut_off_is_passed_over(name, uninterrupted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", 23)
        with pytest.raises(KeyboardInterrupt):
            run_medusa1(tmp_path)
    os.truncate(tmp_path / "medusa1" / "checkpoint-23" / name, 20)
    (tmp_path / "medusa1" / "checkpoint-of-mine").mkdir()
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights) and log_of(tmp_path) == log


def test_a_full_disk_is_one_error(uninterrupted, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise SafetensorError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("transformers.Trainer._save_checkpoint", full)
        with pytest.raises(InputError, match=r"checkpoint cannot be written \(No space left on device\)"):
            run_medusa1(tmp_path)
    weights, log = uninterrupted
    assert same(run_medusa1(tmp_path), weights) and log_of(tmp_path) == log


def test_overwrite_clears_a_directory_that_does_not_tell_what_it_is(uninterrupted, tmp_path):
    run_medusa1(tmp_path, learning_rate=0.5)
    os.truncate(tmp_path / "run.json", 0)
    with pytest.raises(InputError, match="not JSON"):
        run_medusa1(tmp_path)
    assert same(run_medusa1(tmp_path, overwrite=True), uninterrupted[0])
    assert log_of(tmp_path) == uninterrupted[1]


@pytest.mark.parametrize("lora", [LORA, None])
def test_both_stages_of_medusa2_go_on(lora, tmp_path, monkeypatch):
    whole = run_medusa2(tmp_path / "whole", lora, epochs=4)
    for stage, step in {"warmup": 3, "joint": 5}.items():
        with monkeypatch.context() as patch:
            ctrl_c(patch, stage, step)
            with pytest.raises(KeyboardInterrupt):
                run_medusa2(tmp_path / "parts", lora, epochs=4)
        assert log_of(tmp_path / "parts")[1][-1]["stage"] == stage
    assert same(run_medusa2(tmp_path / "parts", lora, epochs=4), whole)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")
    assert [r["stage"] for r in log_of(tmp_path / "parts")[1]] == ["warmup"] * 13 + ["joint"] * 13


def test_a_stage_that_is_done_is_not_done_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        ctrl_c(patch, "joint", 1)
        with pytest.raises(KeyboardInterrupt):
            run_medusa2(tmp_path)
    steps = []
    training_step = HeadTrainer.training_step

    def counted(self, *args, **kwargs):
        steps.append(self._module.joint)
        return training_step(self, *args, **kwargs)

    monkeypatch.setattr(HeadTrainer, "training_step", counted)
    run_medusa2(tmp_path)
    assert steps == [True]


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "heads": ({"shape": {"heads": 3}}, "heads 2, but this has 3"),
    "held_out": ({"shape": {"held_out": 0.5}}, "held_out 0.25, but this has 0.5"),
    "loop": ({"learning_rate": 0.5}, "loop learning_rate 0.001, but this has 0.5"),
    "answers": ({"answers": ragged([(2, 9)] * 8)}, "answer"),
    "model_sha256": ({"model": "other"}, "model_sha256 tiny, but this has other"),
    "dtype": ({"model": torch.bfloat16}, "dtype float32, but this has bfloat16"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_settings_are_refused_by_name_and_overwrite_clears_them(name, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", 2)
        with pytest.raises(KeyboardInterrupt):
            medusa1(fresh(), RAGGED, tmp_path)
    changes, message = CHANGES[name]
    changes = dict(changes)
    answers, kind = changes.pop("answers", RAGGED), changes.pop("model", None)
    model = fresh(dtype=kind if kind != "other" else None)
    model.sha256 = "other" if kind == "other" else model.sha256
    with pytest.raises(MismatchError, match="an unfinished run with") as caught:
        medusa1(model, answers, tmp_path, **changes)
    assert message in str(caught.value) and "--overwrite" in str(caught.value)
    heads = medusa1(model, answers, tmp_path, overwrite=True, **changes)
    assert same(weights_of(heads), weights_of(medusa1(model, answers, tmp_path / "new", **changes)))
    assert log_of(tmp_path)[1] == log_of(tmp_path / "new")[1]


def test_overwrite_goes_on_with_the_same_run(tmp_path, monkeypatch, uninterrupted):
    with monkeypatch.context() as patch:
        ctrl_c(patch, "medusa1", 10)
        with pytest.raises(KeyboardInterrupt):
            run_medusa1(tmp_path)
    states = (tmp_path / "states.bin").stat().st_mtime_ns
    assert same(run_medusa1(tmp_path, overwrite=True), uninterrupted[0])
    assert (tmp_path / "states.bin").stat().st_mtime_ns == states


def test_few_checkpoints_are_kept(uninterrupted, tmp_path):
    run_medusa1(tmp_path)
    kept = {path.name for path in (tmp_path / "medusa1").iterdir()}
    assert kept == {"checkpoint-120", "checkpoint-126"}
    shutil.rmtree(tmp_path / "medusa1" / "checkpoint-126")
    assert same(run_medusa1(tmp_path), uninterrupted[0]) and log_of(tmp_path) == uninterrupted[1]


def test_ctrl_c_stays_pythons_in_another_thread(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    before = signal.getsignal(signal.SIGINT)

    def entered():
        with Interrupts():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(entered).result() == before
