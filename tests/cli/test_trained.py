"""The way of a user without heads: to training, and on to prompts that the heads have not seen."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import fail, filled_in, following, prompt_rows, succeed, write_lines

SHORT = ["--num-heads", 2, "--epochs", 2, "--batch-size", 2, "--held-out", 0.3]


@pytest.fixture
def run(tmp_path, generated) -> Path:
    """A run with answers, and no heads."""
    return Path(shutil.copytree(generated, tmp_path / "run"))


@pytest.mark.parametrize("half", ["calibrate", "all"])
def test_heads_judged_on_what_they_were_trained_on_are_a_warning(half, run, tiny, tmp_path):
    model = ["--run", run, "--model", tiny]
    succeed("train", "medusa1", *model, *SHORT, "--split", half)
    named = "these prompts" if half == "all" else "the calibrate half of these prompts"
    assert f"warning: the heads were trained on {named}, so" in succeed("calibrate", *model).stderr
    assert f"warning: the heads were trained on {named}, so" in succeed("report", "--run", run).stdout
    others = write_lines(tmp_path / "others.jsonl", [row | {"id": f"o{row['id']}"} for row in prompt_rows()])
    elsewhere = ["--run", tmp_path / "other", "--model", tiny, "--heads", run / "heads"]
    settings = ["--prompts", others, "--template", "none", "--max-new-tokens", 8]
    assert "were trained on" not in succeed("calibrate", *elsewhere, *settings).stderr


def test_heads_of_medusa2_are_judged_on_other_prompts_too(run, tiny, prompts):
    """Its model answers otherwise than the one that the training began with, but the prompts are the same."""
    model = ["--run", run, "--model", tiny]
    trained = succeed("train", "medusa2", *model, *SHORT, "--lora-rank", 4, "--split", "all")
    assert (
        "warning: the heads were trained on these prompts, so"
        in succeed(*filled_in(following(trained), prompts)).stderr
    )


def test_generate_goes_on_to_train_where_there_are_no_heads(run, tiny):
    model = ["--run", run, "--model", tiny]
    assert following(succeed("generate", *model))[:2] == ["train", "medusa1"]
    assert f"train medusa1 --model {tiny} --run {run}`" in fail("calibrate", *model)
    succeed(*following(succeed("generate", *model)), *SHORT)
    assert following(succeed("generate", *model))[0] == "calibrate"
