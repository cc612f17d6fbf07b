"""A tiny model on disk with a tokenizer, heads trained by the command line, and a run that has everything."""

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.cli.command_line import prompt_rows, succeed, write_lines
from tests.tiny import random_model

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,:;()[]{}<>=+-*/'\"!?#_"
TOKENS = ["<s>", "</s>", "<pad>", *CHARACTERS]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A directory with a random two-layer Llama and a tokenizer of one id a character."""
    directory = tmp_path_factory.mktemp("models") / "tiny"
    random_model("llama", vocab_size=len(TOKENS)).save_pretrained(directory)
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def prompts(tmp_path_factory) -> Path:
    return write_lines(tmp_path_factory.mktemp("prompts") / "prompts.jsonl", prompt_rows())


@pytest.fixture(scope="session")
def generated(tmp_path_factory, tiny, prompts) -> Path:
    """A run with answers, sampled so that they vary."""
    run = tmp_path_factory.mktemp("generated") / "run"
    arguments = ["--prompts", prompts, "--template", "none", "--temperature", "0.7", "--max-new-tokens", 24]
    succeed("generate", "--run", run, "--model", tiny, *arguments)
    return run


@pytest.fixture(scope="session")
def heads(tmp_path_factory, tiny, generated) -> Path:
    """Heads trained on these answers."""
    output = tmp_path_factory.mktemp("heads") / "heads"
    arguments = ["--num-heads", 3, "--epochs", 30, "--learning-rate", "0.01", "--batch-size", 64]
    succeed("train", "medusa1", "--run", generated, "--model", tiny, "-o", output, *arguments)
    return output


@pytest.fixture(scope="session")
def complete(tmp_path_factory, tiny, heads, generated) -> Path:
    """A run with every artifact, made command by command. Not to be changed: `copied` gives a copy."""
    run = tmp_path_factory.mktemp("complete") / "run"
    shutil.copytree(generated, run)
    model = ["--run", run, "--model", tiny, "--heads", heads]
    succeed("calibrate", *model)
    succeed("grow", "--run", run, "--budget", 16, "--format", "medusa")
    succeed("profile", *model, "--sizes", "2,4,8,16", "--repeats", 3)
    succeed("choose", "--run", run)
    succeed("evaluate", *model, "--tree", run / "growth.json:8")
    return run


@pytest.fixture
def copied(complete, tmp_path) -> Path:
    """A complete run that a test may change."""
    return Path(shutil.copytree(complete, tmp_path / "run"))


@pytest.fixture
def demo(monkeypatch, tmp_path, tiny, heads, prompts) -> Path:
    """The tiny model in the place of the bundled demo, from a directory without runs."""
    directory = tmp_path / "demo"
    shutil.copytree(tiny, directory / "backbone")
    shutil.copytree(heads, directory / "heads")
    shutil.copy(prompts, directory / "prompts.jsonl")
    settings = {"temperature": 0.7, "max_new_tokens": 12, "template": "none"}
    (directory / "settings.json").write_text(json.dumps(settings))
    for name, value in {
        "treeopt.model.sources.DEMO": directory,
        "treeopt.cli.run.DEMO": directory,
        "treeopt.cli.decoding.DEMO_PROMPTS": directory / "prompts.jsonl",
        "treeopt.cli.session.DEMO_PROMPTS": directory / "prompts.jsonl",
        "treeopt.cli.stages.evaluate.DEMO_PROMPTS": directory / "prompts.jsonl",
        "treeopt.cli.stages.passes.DEMO_PROMPTS": directory / "prompts.jsonl",
        "treeopt.cli.decoding.DEMO_SETTINGS": directory / "settings.json",
    }.items():
        monkeypatch.setattr(name, value)
    monkeypatch.chdir(tmp_path)
    return directory
