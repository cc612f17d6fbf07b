"""Hidden states on disk: those of the backbone, made once, and made anew when they are of something else."""

import errno
import os

import pytest
import torch

from tests.train.samples import RAGGED, fresh
from treeopt.errors import InputError
from treeopt.measure.states import answer_states
from treeopt.train import states_file
from treeopt.train.states_file import StatesFile


@pytest.fixture
def computed(monkeypatch):
    """How many answers the backbone has been run over."""
    count = [0]

    def counted(backbone, batch):
        count[0] += len(batch)
        return answer_states(backbone, batch)

    monkeypatch.setattr(states_file, "answer_states", counted)
    return count


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_those_of_each_answer(dtype, tmp_path, monkeypatch, computed):
    monkeypatch.setattr(
        "treeopt.measure.states.TOKENS_AT_ONCE", 40
    )  # several batches, not in the answers' order
    model = fresh(dtype=dtype)
    for _ in range(2):
        states = StatesFile.of(tmp_path / "new" / "states.bin", model, RAGGED)
        for number, answer in enumerate(RAGGED):
            rows = states.rows(number)
            assert rows.dtype == dtype
            tolerance = 1e-5 if dtype == torch.float32 else 5e-2
            torch.testing.assert_close(rows, answer_states(model, [answer]), rtol=tolerance, atol=tolerance)
        assert computed == [len(RAGGED)], "the second time they are there"


def test_states_of_something_else_are_made_anew(tmp_path, computed):
    path = tmp_path / "states.bin"
    other_model = fresh()
    other_model.sha256 = "other"
    changed = [*RAGGED[1:], RAGGED[0]]
    cases = [
        (fresh(), RAGGED),
        (fresh(dtype=torch.bfloat16), RAGGED),
        (other_model, RAGGED),
        (fresh(), changed),
    ]
    for number, (model, answers) in enumerate(cases, start=1):
        for _ in range(2):
            states = StatesFile.of(path, model, answers)
            torch.testing.assert_close(states.rows(0), answer_states(model, answers)[: len(states.rows(0))])
            assert computed == [number * len(RAGGED)]


def test_states_that_were_interrupted_are_made_anew(tmp_path, monkeypatch, computed):
    def interrupted(backbone, batch):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(states_file, "answer_states", interrupted)
        with pytest.raises(KeyboardInterrupt):
            StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)
    states = StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)
    assert computed == [len(RAGGED)]
    torch.testing.assert_close(states.rows(0), answer_states(fresh(), RAGGED[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["states.bin", "states.json"])
def test_states_that_were_cut_off_are_made_anew(name, tmp_path, computed):
    StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)
    os.truncate(tmp_path / name, 20)
    states = StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)
    assert computed == [2 * len(RAGGED)]
    torch.testing.assert_close(states.rows(0), answer_states(fresh(), RAGGED[:1]), rtol=1e-4, atol=1e-5)


def test_a_full_disk_is_one_error(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(InputError, match=r"states.bin: cannot be written \(No space left on device\)"):
        StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "states.bin").mkdir()
    with pytest.raises(InputError, match=r"states.bin: cannot be written"):
        StatesFile.of(tmp_path / "states.bin", fresh(), RAGGED)
