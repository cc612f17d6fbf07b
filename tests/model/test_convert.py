"""Heads from every layout into every other: the runtimes' own modules score the same, and refusals say why."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import tiny
from tests.model.runtimes import Runtime
from treeopt.errors import InputError, MismatchError, UnsupportedError
from treeopt.model.checkpoints import load_heads, read_heads, save_heads
from treeopt.model.convert import convert, lacks
from treeopt.model.heads import MedusaHeads
from treeopt.model.layouts import LAYOUTS

NAMES = list(LAYOUTS)
HIDDEN = torch.randn(4, tiny.HIDDEN, generator=torch.Generator().manual_seed(5))
ONE_LAYER, ONE_BLOCK, SHARED_ONLY = {"nxd"}, {"medusa", "medusa-v2"}, {"medusa-v2"}
TRAINED_ON = "tiny"


def original(directory, layers=1, *, own=False, alike=False):
    """Heads as treeopt saves them, with layers that differ unless `alike`."""
    heads = tiny.heads_for(tiny.backbone(), layers=layers, own=own)
    if alike:
        weight, bias = heads.weight[:1].repeat(layers, 1, 1, 1), heads.bias[:1].repeat(layers, 1, 1)
        heads = MedusaHeads(weight, bias, heads.lm_weight, None if own else tiny.backbone().lm_head)
    save_heads(directory, heads, base_model=TRAINED_ON)
    return read_heads(directory)


def into(stored, name, directory):
    convert(stored, LAYOUTS[name], directory, backbone=tiny.backbone(), base_model=TRAINED_ON)
    return read_heads(directory)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_every_pair_scores_the_same(source, target, tmp_path):
    """One layer or two, with heads that share the backbone's LM head and with heads that have their own."""
    model, compared = tiny.backbone(), 0
    for layers in (1, 2):
        for own in (False, True):
            pair = {source, target}
            if (layers == 2 and pair & ONE_LAYER) or (own and pair & SHARED_ONLY):
                continue
            place = tmp_path / f"{layers}{own}"
            stored = original(place / "0", layers, own=own, alike=bool(pair & ONE_BLOCK))
            first = into(stored, source, place / "1")
            into(first, target, place / "2")
            before, after = Runtime(place / "1", source, model), Runtime(place / "2", target, model)
            assert torch.equal(before(HIDDEN), after(HIDDEN)), (layers, own)
            loaded = [load_heads(place / str(step), model)(HIDDEN) for step in range(3)]
            assert (
                torch.equal(loaded[0], loaded[2]) or not own
            )  # else by another product, which rounds otherwise
            for logits in loaded:
                torch.testing.assert_close(logits, after(HIDDEN))
            assert lacks(LAYOUTS[target], read_heads(place / "2")) == []
            compared += 1
    assert compared == (
        1 if pair & ONE_LAYER and pair & SHARED_ONLY else 2 if pair & (ONE_LAYER | SHARED_ONLY) else 4
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_conversion_back_is_the_identity(name, tmp_path):
    """Shared LM heads that a layout wants written out become shared again, bit for bit."""
    stored = original(tmp_path / "0")
    again = into(into(stored, name, tmp_path / "1"), "tgi" if name == "tgi" else "medusa-v2", tmp_path / "2")
    assert again.shape == stored.shape
    assert all(torch.equal(again.tensors[key], tensor) for key, tensor in stored.tensors.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_another_type_is_that_of_every_tensor(name, dtype, tmp_path):
    stored = original(tmp_path / "0")
    convert(
        stored, LAYOUTS[name], tmp_path / "1", backbone=tiny.backbone(), dtype=dtype, base_model=TRAINED_ON
    )
    assert read_heads(tmp_path / "1").dtypes == [str(dtype).removeprefix("torch.")]


@pytest.mark.parametrize("name", [name for name in NAMES if "shared" not in LAYOUTS[name].takes])
def test_an_lm_head_that_is_wanted_needs_the_model(name, tmp_path):
    stored = original(tmp_path / "0")
    with pytest.raises(InputError, match=f"{name} wants an LM head .*name their model with --model"):
        convert(stored, LAYOUTS[name], tmp_path / "1", base_model=TRAINED_ON)
    assert not (tmp_path / "1").exists()
    with pytest.raises(MismatchError, match="hidden size 32, but cycle has 8"):
        convert(stored, LAYOUTS[name], tmp_path / "1", backbone=tiny.cycle(), base_model=TRAINED_ON)


def test_lm_heads_of_their_own_are_not_dropped(tmp_path):
    stored = original(tmp_path / "0", own=True)
    with pytest.raises(InputError, match="have to be the model's; name their model"):
        convert(stored, LAYOUTS["medusa-v2"], tmp_path / "1", base_model=TRAINED_ON)
    with pytest.raises(
        UnsupportedError, match=r"no LM heads of their own, but 0\.1\.weight of .* is not the one of llama"
    ):
        convert(stored, LAYOUTS["medusa-v2"], tmp_path / "1", backbone=tiny.backbone(), base_model=TRAINED_ON)


def test_layers_beyond_a_layout_are_refused(tmp_path):
    stored = original(tmp_path / "0", layers=2)
    with pytest.raises(UnsupportedError, match=r"nxd: takes heads of one layer, .* has 2"):
        convert(stored, LAYOUTS["nxd"], tmp_path / "1", backbone=tiny.backbone(), base_model=TRAINED_ON)
    for name in ONE_BLOCK:
        with pytest.raises(UnsupportedError, match=f"{name}: applies one layer again and again, but the 2 "):
            convert(stored, LAYOUTS[name], tmp_path / "1", backbone=tiny.backbone(), base_model=TRAINED_ON)


def test_two_shared_layers_are_written_with_lm_heads_for_tgi(tmp_path):
    written = into(original(tmp_path / "0", layers=2), "tgi", tmp_path / "1")
    assert written.shape.lm_head == "own"
    assert "heads of one layer or LM heads of their own" in lacks(LAYOUTS["tgi"], read_heads(tmp_path / "0"))


def test_a_layout_that_names_the_model_needs_its_name(tmp_path):
    stored = original(tmp_path / "0")
    (tmp_path / "0" / "config.json").unlink()
    bare = read_heads(stored.file)
    with pytest.raises(InputError, match="tgi needs its name, --model"):
        convert(bare, LAYOUTS["tgi"], tmp_path / "1")
    convert(bare, LAYOUTS["tgi"], tmp_path / "1", base_model="org/name")
    assert json.loads((tmp_path / "1" / "config.json").read_text())["base_model_name_or_path"] == "org/name"


def test_an_lm_head_with_a_bias_cannot_be_written_out(tmp_path):
    biased = tiny.wrap(tiny.random_model(), "biased")
    biased.model.lm_head = torch.nn.Linear(tiny.HIDDEN, tiny.VOCABULARY)
    stored = original(tmp_path / "0")
    with pytest.raises(UnsupportedError, match="biased: its LM head is more than a"):
        convert(stored, LAYOUTS["mlc"], tmp_path / "1", backbone=biased, base_model=TRAINED_ON)


def test_values_that_a_type_cannot_hold_are_not_written(tmp_path):
    stored = original(tmp_path / "0")
    stored.tensors["0.0.linear.bias"][0] = 1e6
    with pytest.raises(InputError, match=r"no finite numbers in torch\.float16"):
        convert(stored, LAYOUTS["medusa-v2"], tmp_path / "1", dtype=torch.float16, base_model=TRAINED_ON)
    assert not list((tmp_path / "1").glob("*"))


def test_a_model_with_its_heads_in_several_files_is_read(tmp_path):
    """FasterDecoding 1.0, where the heads are tensors of the model's own checkpoint."""
    stored = into(original(tmp_path / "0", own=True), "mlc", tmp_path / "1")
    tensors = load_file(stored.file) | {
        "model.embed_tokens.weight": torch.zeros(3),
        "lm_head.weight": torch.zeros(2),
    }
    model = tmp_path / "model"
    shards: dict[str, dict[str, torch.Tensor]] = {"a": {}, "b": {}}
    model.mkdir()
    for number, (name, tensor) in enumerate(tensors.items()):
        shards["ab"[number % 2]][name] = tensor
    for shard, content in shards.items():
        save_file(content, model / f"model-{shard}.safetensors")
    index = {name: f"model-{shard}.safetensors" for shard, content in shards.items() for name in content}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    split = read_heads(model)
    assert split.shape == stored.shape
    assert torch.equal(
        load_heads(model, tiny.backbone())(HIDDEN), load_heads(tmp_path / "1", tiny.backbone())(HIDDEN)
    )
    hashed = load_heads(model, tiny.backbone()).sha256
    save_file(shards["b"] | {"more": torch.zeros(1)}, model / "model-b.safetensors")
    assert load_heads(model, tiny.backbone()).sha256 != hashed
    (model / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "../model.safetensors"}})
    )
    with pytest.raises(InputError, match="no weight_map from names of tensors to files beside it"):
        read_heads(model)


def test_vllm_heads_without_biases_have_biases_of_zero(tmp_path):
    """`medusa_fc_bias` is false where nobody says otherwise."""
    stored = into(original(tmp_path / "0"), "vllm", tmp_path / "1")
    tensors = {name: tensor for name, tensor in load_file(stored.file).items() if not name.endswith("bias")}
    save_file(tensors, stored.file)
    without = read_heads(tmp_path / "1")
    assert not any(without.tensors[f"{h}.0.linear.bias"].any() for h in range(3))
    heads = load_heads(tmp_path / "1", tiny.backbone())
    expected = HIDDEN + torch.nn.functional.silu(HIDDEN @ stored.tensors["1.0.linear.weight"].T)
    torch.testing.assert_close(heads(HIDDEN)[1], expected @ tiny.backbone().lm_head.weight.T)
    save_file(tensors | {"blocks.0.layers.0.bias": torch.zeros(tiny.HIDDEN)}, stored.file)
    with pytest.raises(InputError, match=r"missing blocks\.1\.layers\.0\.bias, blocks\.2\.layers\.0\.bias"):
        read_heads(tmp_path / "1")


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_accounted_for(name, tmp_path):
    """Each key missing, a key too many, a wrong shape: one line that names the key as the file spells it."""
    file = into(original(tmp_path / "0"), name, tmp_path / "1").file
    read = torch.load if file.suffix == ".pt" else load_file
    write = torch.save if file.suffix == ".pt" else save_file
    tensors = read(file)
    for key in tensors:
        write({other: tensor for other, tensor in tensors.items() if other != key}, file)
        if key == "lm_head.weight":  # heads that share the backbone's, then
            assert read_heads(file).shape.lm_head == "shared"
            continue
        with pytest.raises(InputError) as missing:
            read_heads(file)
        assert str(missing.value).startswith(f"{file}: ") and str(missing.value).endswith(f"missing {key}")
        write(tensors | {key: torch.zeros(3, 2)}, file)
        with pytest.raises(InputError, match="has shape") as shaped:
            read_heads(file)
        assert "\n" not in str(shaped.value)
    extra = LAYOUTS[name].spelling.layer.format(h=0, l=0) + ".scale"
    write(tensors | {extra: torch.zeros(1)}, file)
    with pytest.raises(InputError) as unknown:
        read_heads(file)
    assert str(unknown.value).endswith(f"keys that no Medusa head has: {extra}")


def test_keys_of_two_layouts_in_one_file_are_refused(tmp_path):
    stored = original(tmp_path / "0")
    tensors = load_file(stored.file)
    save_file(tensors | {"medusa_head.0.0.linear.weight": torch.zeros(2)}, stored.file)
    with pytest.raises(
        InputError, match=r"keys of 2 layouts, 0\.0\.linear\.weight or medusa_head\.0\.0\.linear"
    ):
        read_heads(stored.file)


@pytest.mark.parametrize("name", [name for name in NAMES if LAYOUTS[name].counts[0]])
def test_counts_that_contradict_the_keys_are_told(name, tmp_path):
    """Fewer heads than there are is told; more are missing keys wherever the heads are to be used."""
    into(original(tmp_path / "0"), name, tmp_path / "1")
    config = tmp_path / "1" / "config.json"
    content, (where, _) = json.loads(config.read_text()), LAYOUTS[name].counts
    owner = content["medusa"] if "." in where else content
    for number, missing in ((2, False), (4, True), (10**9, True)):
        owner[where.split(".")[-1]] = number
        config.write_text(json.dumps(content))
        stored = read_heads(tmp_path / "1")
        assert stored.contradictions() == [f"{where} is {number} in config.json, but the file has 3 heads"]
        assert any("config.json with" in lack for lack in lacks(LAYOUTS[name], stored))
        if missing:
            with pytest.raises(InputError, match="missing "):
                load_heads(tmp_path / "1", tiny.backbone())
        else:
            assert load_heads(tmp_path / "1", tiny.backbone()).heads == 3
    owner[where.split(".")[-1]] = "3"
    config.write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"config\.json: {where} is '3'; it is a whole number"):
        load_heads(tmp_path / "1", tiny.backbone())


def test_what_lacks_is_what_the_runtime_stumbles_over(tmp_path):
    """Everything that keeps a runtime's own module from loading is told, and nothing of what it loads."""
    for own in (False, True):
        stored = original(tmp_path / str(own), own=own)
        for name, layout in LAYOUTS.items():
            if lacks(layout, stored):
                with pytest.raises((AssertionError, KeyError, OSError, RuntimeError)):
                    Runtime(stored.file.parent, name, tiny.backbone())
            else:
                Runtime(stored.file.parent, name, tiny.backbone())


@pytest.mark.parametrize(("name", "key"), [("tgi", "architectures"), ("vllm", "num_attention_heads")])
def test_what_a_config_must_not_have_is_told(name, key, tmp_path):
    stored = into(original(tmp_path / "0"), name, tmp_path / "1")
    spoiled = replace(stored, config=stored.config | {key: 4})
    assert lacks(LAYOUTS[name], spoiled) == [f"config.json without {key}"]
