"""A backbone rounded by bitsandbytes, where that is installed: heads train on it, self-distillation is refused."""

import json

import pytest

pytest.importorskip("bitsandbytes")

from tests import tiny
from tests.cli.command_line import fail, succeed
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model whose sizes bitsandbytes takes, and answers to learn from."""
    directory = tmp_path_factory.mktemp("quantised")
    tiny.random_model(hidden_size=64, intermediate_size=128).save_pretrained(directory / "model")
    rows = [
        {
            "id": f"p{n}",
            "prompt_ids": [n + 2],
            "answer_ids": [(n + i) % 40 + 2 for i in range(20)],
            "ended": "limit",
        }
        for n in range(10)
    ]
    (directory / "generations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


def arguments(run, method, output, *extra):
    common = ["--model", run / "model", "--run", run, "--split", "all", "--epochs", 1, "--num-heads", 2]
    return ["train", method, *common, "-o", output, *extra]


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_heads_are_trained_on_a_quantised_backbone(bits, run, tmp_path):
    succeed(*arguments(run, "medusa1", tmp_path / "heads", "--quantize", bits))
    assert load_heads(tmp_path / "heads", Backbone.load(str(run / "model"))).weight.abs().sum() > 0


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (["--self-distill"], "the teacher would be the rounded model"),
        ([], "bitsandbytes has no gradients for the CPU"),
    ],
)
def test_a_quantised_backbone_is_not_trained_here(extra, reason, run, tmp_path):
    answers = ["--generations", run / "generations.jsonl"]
    quantised = ["--device", "cpu", "--quantize", "4bit"]
    assert reason in fail(*arguments(run, "medusa2", tmp_path / "new", *answers, *quantised, *extra))
