"""Heads on disk: every key accounted for, in both layouts, and nothing else let in."""

import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests import tiny
from treeopt.artifact import sha256_file
from treeopt.errors import InputError, MismatchError
from treeopt.model.checkpoints import load_heads, read_heads_accuracy, save_heads

LAYOUTS = pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])


def write(directory, tensors, config=None):
    """A heads directory as somebody else might have written it."""
    directory.mkdir(exist_ok=True)
    save_file(tensors, directory / "medusa_lm_head.safetensors")
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    return directory


def saved(directory, **options):
    """Heads of the tiny Llama as `save_heads` writes them, and their tensors by name."""
    heads = tiny.heads_for(tiny.backbone(), **options)
    return heads, load_file(save_heads(directory, heads, base_model="tiny"))


@LAYOUTS
@pytest.mark.parametrize("layers", [1, 2])
def test_heads_come_back_as_they_were_saved(own, layers, tmp_path):
    model = tiny.backbone()
    heads, tensors = saved(tmp_path, heads=4, layers=layers, own=own)
    for source in (tmp_path, tmp_path / "medusa_lm_head.safetensors"):
        again = load_heads(source, model)
        assert (again.heads, again.layers) == (4, layers) and (again.lm_weight is not None) == own
        hidden = torch.randn(3, tiny.HIDDEN)
        assert torch.equal(again(hidden), heads(hidden))
        assert again.sha256 == sha256_file(tmp_path / "medusa_lm_head.safetensors")
        assert not any(parameter.requires_grad for parameter in again.parameters())
    expected = {
        f"{h}.{layer}.linear.{part}"
        for h in range(4)
        for layer in range(layers)
        for part in ("weight", "bias")
    }
    assert set(tensors) == expected | ({f"{h}.{layers}.weight" for h in range(4)} if own else set())
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["medusa_num_heads"], config["medusa_num_layers"], config.get("version")) == (
        4,
        layers,
        None if own else "2",
    )


def test_the_layout_on_disk_is_head_then_layer(tmp_path):
    """`{head}.{layer}.linear.weight`, each its own tensor."""
    heads, tensors = saved(tmp_path, heads=2, layers=2)
    for h in range(2):
        for layer in range(2):
            assert torch.equal(tensors[f"{h}.{layer}.linear.weight"], heads.weight[layer, h])
            assert torch.equal(tensors[f"{h}.{layer}.linear.bias"], heads.bias[layer, h])


def test_loaded_heads_share_no_memory_between_layers(tmp_path):
    saved(tmp_path, heads=2, layers=2)
    heads = load_heads(tmp_path, tiny.backbone())
    with torch.no_grad():
        heads.weight[0, 0].zero_()
    assert all(heads.weight[layer, h].abs().sum() > 0 for layer, h in ((0, 1), (1, 0), (1, 1)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_heads_take_the_backbones_type(dtype, tmp_path):
    """Float32 heads beside a half-precision backbone, and half-precision heads beside a float32 one."""
    half = tiny.wrap(tiny.random_model(dtype=dtype))
    heads, _ = saved(tmp_path)
    assert load_heads(tmp_path, half)(torch.zeros(1, tiny.HIDDEN, dtype=dtype)).dtype == dtype
    save_heads(tmp_path, heads, base_model="tiny", dtype=dtype)
    assert load_file(tmp_path / "medusa_lm_head.safetensors")["0.0.linear.weight"].dtype == dtype
    assert load_heads(tmp_path, tiny.backbone()).weight.dtype == torch.float32


@LAYOUTS
def test_every_missing_key_is_listed(own, tmp_path):
    _, tensors = saved(tmp_path, own=own)
    for name in tensors:
        with pytest.raises(InputError, match=f"missing {name}$".replace(".", r"\.")):
            load_heads(
                write(tmp_path, {key: value for key, value in tensors.items() if key != name}),
                tiny.backbone(),
            )


def test_a_configuration_with_more_heads_is_refused_by_keys(tmp_path):
    _, tensors = saved(tmp_path, heads=3)
    write(tmp_path, tensors, {"medusa_num_heads": 4, "medusa_num_layers": 1})
    with pytest.raises(InputError, match=r"missing 3\.0\.linear\.bias, 3\.0\.linear\.weight"):
        load_heads(tmp_path, tiny.backbone())
    write(tmp_path, tensors, {"medusa_num_heads": 3, "medusa_num_layers": 2})
    with pytest.raises(InputError, match=r"missing 0\.1\.linear\.bias, .*"):
        load_heads(tmp_path, tiny.backbone())
    write(tmp_path, tensors, {"medusa_num_heads": 99})
    with pytest.raises(InputError, match=r"says medusa_num_heads 99, but the file has 3 heads, .* 3\.0\."):
        load_heads(tmp_path, tiny.backbone())


def test_a_configuration_with_fewer_heads_is_overruled_by_the_keys(tmp_path):
    _, tensors = saved(tmp_path, heads=5)
    assert load_heads(write(tmp_path, tensors, {"medusa_num_heads": 2}), tiny.backbone()).heads == 5
    (tmp_path / "config.json").unlink()
    assert load_heads(tmp_path, tiny.backbone()).heads == 5


def test_lm_heads_for_some_heads_only_are_refused(tmp_path):
    _, tensors = saved(tmp_path, heads=2)
    lm_head = torch.zeros(tiny.VOCABULARY, tiny.HIDDEN)
    with pytest.raises(InputError, match=r"missing 1\.1\.weight"):
        load_heads(write(tmp_path, tensors | {"0.1.weight": lm_head}), tiny.backbone())


@pytest.mark.parametrize(
    "name", ["medusa_head.0.0.linear.weight", "0.0.norm.weight", "0.7.weight", "lm_head.weight"]
)
def test_unknown_keys_are_listed(name, tmp_path):
    _, tensors = saved(tmp_path)
    with pytest.raises(InputError) as caught:
        load_heads(write(tmp_path, tensors | {name: torch.zeros(2)}), tiny.backbone())
    assert name in str(caught.value) or "missing" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (
            "1.0.linear.weight",
            torch.zeros(32, 31),
            r"1\.0\.linear\.weight has shape \(32, 31\), expected \(32, 32\)",
        ),
        ("2.0.linear.bias", torch.zeros(1), r"2\.0\.linear\.bias has shape \(1,\), expected \(32,\)"),
        ("1.1.weight", torch.zeros(50, 16), r"1\.1\.weight has shape \(50, 16\), expected \(50, 32\)"),
        ("0.0.linear.weight", torch.zeros(()), r"0\.0\.linear\.weight has shape \(\), expected \(1, 1\)"),
        ("0.1.weight", torch.zeros(()), r"0\.1\.weight has shape \(\), expected \(1, 32\)"),
        ("0.0.linear.bias", torch.full((32,), torch.nan), "0.0.linear.bias holds values that are no finite"),
        (
            "0.0.linear.bias",
            torch.zeros(32, dtype=torch.int64),
            "0.0.linear.bias holds values that are no finite",
        ),
    ],
)
def test_wrong_tensors_are_named(name, tensor, message, tmp_path):
    _, tensors = saved(tmp_path, own=True)
    with pytest.raises(InputError, match=message):
        load_heads(write(tmp_path, tensors | {name: tensor}), tiny.backbone())


def test_heads_of_another_model_are_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(MismatchError, match="heads of hidden size 32, but cycle has 8"):
        load_heads(tmp_path, tiny.cycle())
    other = tiny.wrap(tiny.random_model(vocab_size=60), "other")
    saved(tmp_path, own=True)
    with pytest.raises(MismatchError, match="LM heads over 50 ids, but other has 60"):
        load_heads(tmp_path, other)


def test_a_pt_file_is_read_with_weights_only(tmp_path):
    heads, tensors = saved(tmp_path / "safe")
    torch.save(tensors, tmp_path / "medusa_lm_head.pt")
    assert torch.equal(load_heads(tmp_path, tiny.backbone()).weight, heads.weight)


class Evil:
    def __reduce__(self):
        return print, ("this must not run",)


def test_pickled_code_is_not_run(tmp_path, capsys, recwarn):
    path = tmp_path / "medusa_lm_head.pt"
    for content in (pickle.dumps(Evil(), protocol=2), pickle.dumps(Evil(), protocol=4), None):
        if content:
            path.write_bytes(content)
        else:
            torch.save({"0.0.linear.weight": Evil()}, path)
        with pytest.raises(InputError, match="not a file of tensors"):
            load_heads(path, tiny.backbone())
    assert "must not run" not in capsys.readouterr().out
    assert not [found for found in recwarn if "pickle" in str(found.message)]


@pytest.mark.parametrize("content", [[torch.zeros(2)], {"a": 1}, {1: torch.zeros(2)}, {}, torch.zeros(2)])
def test_a_pt_file_of_something_else_is_refused(content, tmp_path):
    path = tmp_path / "heads.pt"
    torch.save(content, path)
    with pytest.raises(InputError, match=r"expected a dictionary of tensors|no key like"):
        load_heads(path, tiny.backbone())


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=40), st.text("hello(.]}q\x80\x02KX", max_size=20).map(str.encode)))
def test_garbage_is_refused_in_one_line(tmp_path, content):
    for name in ("heads.pt", "heads.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            load_heads(tmp_path / name, tiny.backbone())
        assert str(caught.value).startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config", ["{", '{"medusa_num_heads": null}', '{"medusa_num_layers": "one"}', b"\xff"]
)
def test_a_bad_configuration_is_named(config, tmp_path):
    saved(tmp_path)
    path = tmp_path / "config.json"
    path.write_bytes(config) if isinstance(config, bytes) else path.write_text(config)
    with pytest.raises(
        InputError, match=r"config\.json: (not JSON|medusa_num_(heads|layers) is .*whole number)"
    ):
        load_heads(tmp_path, tiny.backbone())


def test_no_heads_there(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(
            InputError, match=r"no Medusa heads there \(looked for medusa_lm_head\.safetensors"
        ):
            load_heads(path, tiny.backbone())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*choose another place"):
        save_heads(tmp_path / "file", tiny.heads_for(tiny.backbone()), base_model="tiny")


def test_the_reference_tools_accuracies(tmp_path):
    path = tmp_path / "x_heads_accuracy.pt"
    torch.save([torch.tensor([[1, 0], [0, 1], [0, 0]]), torch.tensor([[True, False]])], path)
    hits = read_heads_accuracy(path)
    assert [h.shape for h in hits] == [(3, 2), (1, 2)] and hits[0].dtype == np.bool_
    assert hits[0].mean(0).tolist() == [1 / 3, 1 / 3]
    for content in ({"a": torch.zeros(2, 2)}, [torch.zeros(2)], [[True]]):
        torch.save(content, path)
        with pytest.raises(InputError, match="expected a list with one"):
            read_heads_accuracy(path)
    with pytest.raises(InputError, match="absent"):
        read_heads_accuracy(tmp_path / "absent.pt")
