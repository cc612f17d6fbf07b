"""Model sources: what loads, and one line for what does not."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import tiny
from treeopt.errors import InputError, TreeoptError, UnsupportedError
from treeopt.model.backbone import Backbone

WEIGHTS = "model.safetensors"


@pytest.fixture
def directory(tmp_path):
    """A model directory called `llama`."""
    tiny.random_model().save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_directory(directory):
    model = Backbone.load(str(directory))
    ids = torch.tensor([[3, 4, 5]])
    with torch.inference_mode():
        assert torch.equal(model.model(input_ids=ids).logits, tiny.backbone().model(input_ids=ids).logits)
    assert model.name == "llama" and model.tokenizer is None and not model.model.training
    assert Backbone.load(str(directory), dtype="bfloat16").dtype_name == "bfloat16"


def test_the_hash_is_of_weights_and_configuration(directory):
    first = Backbone.load(str(directory)).sha256
    assert Backbone.load(str(directory)).sha256 == first
    edit_config(directory, rms_norm_eps=1e-5)
    second = Backbone.load(str(directory)).sha256
    weights = load_file(directory / WEIGHTS)
    weights["model.norm.weight"] += 1
    save_file(weights, directory / WEIGHTS, {"format": "pt"})
    assert len({first, second, Backbone.load(str(directory)).sha256}) == 3


def test_a_head_tied_to_the_embedding_is_not_missing(tmp_path):
    tiny.random_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / WEIGHTS)
    assert Backbone.load(str(tmp_path)).vocabulary == tiny.VOCABULARY


def test_missing_weights_are_refused_and_not_drawn_at_random(directory):
    weights = load_file(directory / WEIGHTS)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, directory / WEIGHTS, {"format": "pt"})
    with pytest.raises(
        InputError, match=r"llama: 1 weights are missing, such as model\.layers\.1\.mlp\.up_proj"
    ):
        Backbone.load(str(directory))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / WEIGHTS).write_bytes(b"garbage" * 9), "cannot be loaded as a causal language model"),
        (lambda d: (d / WEIGHTS).write_bytes((d / WEIGHTS).read_bytes()[:-9]), "cannot be loaded"),
        (lambda d: (d / WEIGHTS).unlink(), "no weights there"),
        (lambda d: (d / "config.json").unlink(), r"config\.json: missing"),
        (lambda d: (d / "config.json").write_text("{"), "cannot be loaded"),
        (lambda d: edit_config(d, model_type="t5"), "cannot be loaded"),
        (lambda d: edit_config(d, model_type="unheard-of"), "cannot be loaded"),
        (lambda d: edit_config(d, hidden_size=64), "cannot be loaded"),
    ],
    ids=["garbage", "cut", "no weights", "no config", "bad config", "t5", "unknown type", "other sizes"],
)
def test_a_directory_with_something_wrong_is_refused_in_one_line(spoil, message, directory):
    spoil(directory)
    with pytest.raises(InputError, match=message) as caught:
        Backbone.load(str(directory))
    assert str(directory) in str(caught.value) and "\n" not in str(caught.value)


def test_code_that_comes_with_a_model_is_neither_run_nor_asked_about(directory, monkeypatch):
    (directory / "custom.py").write_text("raise SystemExit('ran')")
    edit_config(
        directory, model_type="own", auto_map={"AutoConfig": "custom.C", "AutoModelForCausalLM": "custom.M"}
    )
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    with pytest.raises(InputError, match="cannot be loaded"):
        Backbone.load(str(directory))


def test_a_broken_tokenizer_does_not_hinder(directory):
    (directory / "tokenizer.json").write_text("{")
    assert Backbone.load(str(directory)).tokenizer is None


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="absent: neither a local directory nor a model that the hub gave"):
        Backbone.load(str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"absent\.gguf: no such file"):
        Backbone.load(str(tmp_path / "absent.gguf"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"x" * 100, b"no model"])
def test_a_gguf_file_that_is_none(content, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.gguf: cannot be loaded"):
        Backbone.load(str(tmp_path / "bad.gguf"))


def config_file(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


LLAMA = tiny.SHAPE | {"model_type": "llama"}


def test_random_weights_in_a_given_shape(tmp_path):
    path = config_file(tmp_path, LLAMA)
    model = Backbone.load(config=path, dtype="bfloat16", seed=4)
    assert (model.name, model.hidden_size, model.vocabulary) == ("random-llama", tiny.HIDDEN, tiny.VOCABULARY)
    assert model.tokenizer is None and model.dtype == torch.bfloat16
    same, other = (Backbone.load(config=path, dtype="bfloat16", seed=seed) for seed in (4, 5))
    assert torch.equal(same.lm_head.weight, model.lm_head.weight) and same.sha256 == model.sha256
    assert not torch.equal(other.lm_head.weight, model.lm_head.weight) and other.sha256 != model.sha256


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", InputError, "no model configuration"),
        ("[1]", InputError, "no model configuration"),
        ({}, InputError, "model_type"),
        ({"model_type": "unheard-of"}, InputError, "must be a transformers config.json with a model_type"),
        (LLAMA | {"hidden_size": "big"}, InputError, "hidden_size"),
        (LLAMA | {"hidden_size": 33}, TreeoptError, "33"),
        (LLAMA | {"num_attention_heads": 0}, TreeoptError, "zero"),
        (LLAMA | {"vocab_size": -1}, UnsupportedError, "no model can be built of it"),
        (LLAMA | {"num_hidden_layers": 0}, UnsupportedError, "layers"),
        ({"model_type": "t5"}, UnsupportedError, "no model can be built of it"),
        (
            LLAMA | {"model_type": "mistral", "sliding_window": 8},
            UnsupportedError,
            "sliding-window attention",
        ),
    ],
)
def test_a_configuration_that_is_none_is_refused_in_one_line(content, error, message, tmp_path):
    with pytest.raises(error, match=message) as caught:
        Backbone.load(config=config_file(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_configuration_that_is_not_there(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(InputError, match="cannot be read"):
            Backbone.load(config=path)
