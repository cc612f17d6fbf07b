"""`treeopt train` keeps off what is not its own to replace, and leaves nothing that no command can load."""

import shutil

import pytest
import torch

from tests.cli.command_line import fail, filled_in, following, run_cli, succeed
from tests.train.samples import log_of
from treeopt.artifact import sha256_file
from treeopt.errors import InputError
from treeopt.model.checkpoints import save_heads
from treeopt.model.heads import MedusaHeads
from treeopt.model.tensor_files import read_tensors
from treeopt.train.trainer import HeadTrainer

QUICK = ["--num-heads", 2, "--epochs", 1, "--lora-rank", 2]


@pytest.fixture
def medusa1(generated, tiny):
    return ["train", "medusa1", "--run", generated, "--model", tiny, "--num-heads", 2, "--epochs", 1]


@pytest.fixture
def medusa2(generated, tiny):
    return ["train", "medusa2", "--run", generated, "--model", tiny, *QUICK]


def test_heads_are_not_put_over_a_models_config(tiny, generated, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    before = (model / "config.json").read_bytes()
    arguments = ["train", "medusa1", "--run", generated, "--model", model, "-o", model]
    for extra in ([], ["--overwrite"]):
        assert "config.json: is not of heads" in fail(*arguments, *extra)
    assert (model / "config.json").read_bytes() == before and not (model / "training").exists()


def test_a_model_is_never_replaced_by_what_is_trained_from_it(tiny, generated, medusa2, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    before = sha256_file(model / "model.safetensors")
    arguments = ["train", "medusa2", "--run", generated, "--model", model, *QUICK, "--full", "-o", tmp_path]
    for extra in ([], ["--overwrite"]):
        assert "model: would be replaced" in fail(*arguments, *extra)
    assert "model: is there already" in fail(*medusa2, "-o", tmp_path)
    assert sha256_file(model / "model.safetensors") == before
    assert "holds the answers of the model as it was" in fail(*medusa2, "-o", generated)


def test_a_directory_called_training_that_is_somebodys_stays(medusa1, tmp_path):
    notes = tmp_path / "training" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    assert "does not tell which training it is of" in fail(*medusa1, "-o", tmp_path)
    assert notes.read_text() == "mine"


def test_no_adapter_on_top_of_an_adapter(medusa2, tiny, prompts, tmp_path):
    succeed(*medusa2, "-o", tmp_path / "one")
    made = ["--run", tmp_path / "one", "--model", tiny]
    assert "no command loads another adapter on top" in fail("train", "medusa2", *made, *QUICK)
    answers = ["--prompts", prompts, "--template", "none", "--max-new-tokens", 8]
    words = following(succeed("train", "medusa2", *made, *QUICK, *answers, "--full", "-o", tmp_path / "two"))
    succeed(*filled_in(words, prompts), "--max-new-tokens", 8)


def test_an_adapter_of_before_is_not_left_beside_a_whole_model(medusa2, prompts, tmp_path):
    succeed(*medusa2, "-o", tmp_path / "out")
    words = following(succeed(*medusa2, "-o", tmp_path / "out", "--full", "--overwrite"))
    succeed(*filled_in(words, prompts), "--max-new-tokens", 8)
    assert not (tmp_path / "out" / "adapter").exists()


def test_heads_to_start_from_are_refused(medusa1, heads):
    assert "No such option" in fail(*medusa1, "--heads", heads, status=2)


@pytest.mark.parametrize("option", ["--held-out", "--lr-warmup", "--ramp", "--lora-dropout"])
def test_shares_are_numbers(option, medusa2):
    assert "give a finite number" in fail(*medusa2, option, "nan", status=2).splitlines()[-1]


def test_heads_beyond_the_number_format_are_not_written(medusa1, generated, tmp_path):
    steep = ["--lr-warmup", 0, "--learning-rate", 1e6, "--batch-size", 64]
    arguments = [*medusa1, *steep, "--generations", generated / "generations.jsonl", "-o", tmp_path / "out"]
    assert "no finite numbers in torch.float16" in fail(*arguments, "--half")
    succeed(*arguments)
    tensors = read_tensors(tmp_path / "out" / "medusa_lm_head.safetensors").values()
    assert max(tensor.abs().max() for tensor in tensors) > torch.finfo(torch.float16).max
    heads = MedusaHeads(torch.full((1, 1, 4, 4), torch.nan), torch.zeros(1, 1, 4), torch.zeros(1, 8, 4))
    with pytest.raises(InputError, match=r"no finite numbers in torch\.float32"):
        save_heads(tmp_path / "nan", heads, base_model="tiny")


def test_a_second_ctrl_c_in_the_last_evaluation_does_not_lose_it(medusa1, tmp_path, monkeypatch):
    arguments = [*medusa1, "--split", "all", "--held-out", 0.3]
    succeed(*arguments, "-o", tmp_path / "whole")
    evaluate = HeadTrainer.evaluate

    def pressed(self, *args, **kwargs):
        if self.state.global_step == self.state.max_steps:
            raise KeyboardInterrupt
        return evaluate(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(HeadTrainer, "evaluate", pressed)
        assert run_cli(*arguments, "-o", tmp_path / "parts").exit_code == 130
    succeed(*arguments, "-o", tmp_path / "parts")
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


def test_an_interrupted_plot_is_drawn_by_the_same_command(medusa1, tmp_path, monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("treeopt.view.training.save_training_plot", pressed)
        assert run_cli(*medusa1, "-o", tmp_path / "out").exit_code == 130
    succeed(*medusa1, "-o", tmp_path / "out")
    names = {"config.json", "log.jsonl", "medusa_lm_head.safetensors", "training.svg"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
