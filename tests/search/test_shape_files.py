"""Shapes from config.json of several architectures."""

import json

import pytest

from treeopt.errors import InputError, UnsupportedError
from treeopt.search.hardware import SHAPES, Shape
from treeopt.search.shape_files import read_shape

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def config(tmp_path, content, name="config.json"):
    path = tmp_path / "some-model" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_a_known_shape_is_what_its_config_says(tmp_path):
    found = read_shape(config(tmp_path, LLAMA, "smollm2-135m.json"))
    assert found == SHAPES["smollm2-135m"]
    assert read_shape(config(tmp_path, LLAMA)).name == "some-model"


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        (LLAMA | {"head_dim": 128}, Shape("some-model", 30, 576, 1536, 9, 3, 128)),
        (LLAMA | {"num_key_value_heads": None}, Shape("some-model", 30, 576, 1536, 9, 9, 64)),
        ({"model_type": "gemma3", "text_config": LLAMA}, Shape("some-model", 30, 576, 1536, 9, 3, 64)),
        (
            {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": None},
            Shape("some-model", 12, 768, 3072, 12, 12, 64, gated=False),
        ),
        (
            {
                "model_type": "falcon",
                "num_hidden_layers": 32,
                "hidden_size": 4544,
                "num_attention_heads": 71,
                "multi_query": True,
            },
            Shape("some-model", 32, 4544, 18176, 71, 1, 64, gated=False),
        ),
    ],
)
def test_architectures(tmp_path, content, shape):
    assert read_shape(config(tmp_path, content)) == shape


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "hidden_size is None"),
        (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        (LLAMA | {"num_hidden_layers": True}, "num_hidden_layers is True"),
        (LLAMA | {"num_attention_heads": "9"}, "num_attention_heads is '9'"),
        ({**LLAMA, "intermediate_size": None}, "intermediate_size is None"),
        (LLAMA | {"num_attention_heads": 600}, "head_dim is None"),
        (LLAMA | {"num_key_value_heads": 10}, "10 key and value heads for 9 heads"),
        ({"text_config": 3}, "'text_config' is not an object"),
        ([1], "holds a JSON list"),
    ],
)
def test_what_is_no_shape_is_refused(tmp_path, content, says):
    with pytest.raises(InputError, match=says):
        read_shape(config(tmp_path, content))


def test_experts_are_refused_by_name(tmp_path):
    with pytest.raises(UnsupportedError, match="mixture of experts"):
        read_shape(config(tmp_path, LLAMA | {"num_local_experts": 8}))
    assert read_shape(config(tmp_path, LLAMA | {"num_experts": 1})).layers == 30
