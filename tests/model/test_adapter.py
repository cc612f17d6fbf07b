"""LoRA adapters: nothing until trained, the same once merged, and read strictly."""

import json
import shutil
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests import tiny
from treeopt.errors import InputError, MismatchError, UnsupportedError
from treeopt.model import packed
from treeopt.model.adapter import attach_lora, merge_adapter, save_adapter
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads, save_heads
from treeopt.model.sources import Loaded, load_source

peft = pytest.importorskip("peft")

MODELS = [
    ("llama", {"tie_word_embeddings": False}),
    ("llama", {"tie_word_embeddings": True}),
    ("qwen2", {"tie_word_embeddings": True}),
    ("gpt2", {"tie_word_embeddings": False}),
    ("gpt2", {"tie_word_embeddings": True}),
]
each_model = pytest.mark.parametrize(
    ("family", "changes"),
    MODELS,
    ids=[f"{name}-{'tied' if c['tie_word_embeddings'] else 'untied'}" for name, c in MODELS],
)
IDS = torch.tensor([[5, 9, 12, 30, 7], [2, 2, 41, 8, 3]])
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
QUERY_A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS).logits


def assert_merged(merged, adapted):
    assert (merged - adapted).abs().max() <= 1e-4 * adapted.abs().max()


@pytest.fixture
def saved(tmp_path) -> Path:
    """An adapter of tiny.random_model() that has changed it."""
    save_adapter(
        tiny.shaken(attach_lora(tiny.random_model(), rank=4)),
        tmp_path / "lora",
        base_model="tiny",
        base_sha256="a",
    )
    return tmp_path / "lora"


def load(directory, model=None, sha256="a"):
    return merge_adapter(Loaded(model or tiny.random_model(), None, "tiny", sha256), directory)


@each_model
def test_a_fresh_adapter_and_one_that_is_off_are_the_base_model(family, changes):
    model = tiny.random_model(family, **changes)
    expected = logits(model)
    wrapped = attach_lora(model)
    assert torch.equal(logits(model), expected) and torch.equal(logits(wrapped), expected)
    tiny.shaken(wrapped)
    assert not torch.allclose(logits(model), expected, atol=0.01)
    with wrapped.disable_adapter():
        assert torch.equal(logits(model), expected)


@each_model
def test_every_linear_layer_and_nothing_else_is_adapted(family, changes):
    model = tiny.random_model(family, **changes)
    matrices = [
        name.removesuffix(".weight")
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if parameter.ndim == 2 and not any(part in name for part in ("embed", "wte", "wpe"))
    ]
    wrapped = attach_lora(model, rank=3)
    adapted = {name.split(".lora_")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert adapted == set(matrices) and "lm_head" in adapted
    assert {p.shape[0 if "lora_A" in n else 1] for n, p in wrapped.named_parameters() if p.requires_grad} == {
        3
    }


def test_training_mode_is_the_models_own():
    for training in (True, False):
        model = tiny.random_model().train(training)
        assert all(layer.training == training for layer in attach_lora(model).modules())


@each_model
def test_merging_gives_what_the_adapter_gives_and_leaves_the_embeddings(family, changes, tmp_path):
    model = tiny.random_model(family, **changes)
    base, embeddings = deepcopy(model), model.get_input_embeddings().weight.clone()
    wrapped = tiny.shaken(attach_lora(model, rank=4))
    adapted = logits(model)
    save_adapter(wrapped, tmp_path / "lora", base_model="tiny", base_sha256="a")
    assert sorted(file.name for file in tmp_path.rglob("*")) == [CONFIG, WEIGHTS, "lora", "treeopt.json"]
    merged = load(tmp_path / "lora", base).model
    assert_merged(logits(merged), adapted)
    assert torch.equal(merged.get_input_embeddings().weight, embeddings)
    assert {name for name, _ in merged.named_parameters()} >= {
        name for name, _ in tiny.random_model(family).named_parameters()
    }
    assert all(parameter.requires_grad for parameter in merged.parameters())
    merged.save_pretrained(tmp_path / "merged")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert torch.equal(logits(again), logits(merged))


@each_model
def test_an_attached_adapter_can_be_merged_where_it_is(family, changes):
    model = tiny.random_model(family, **changes)
    embeddings = model.get_input_embeddings().weight.clone()
    wrapped = tiny.shaken(attach_lora(model, rank=4))
    adapted = logits(model)
    assert_merged(logits(wrapped.merge_and_unload()), adapted)
    assert torch.equal(model.get_input_embeddings().weight, embeddings)


def test_a_merged_model_is_another_model_by_name_and_hash(saved, tmp_path):
    merged = load(saved)
    assert (merged.name, len(merged.sha256)) == ("tiny+lora", 64)
    assert load(saved).sha256 == merged.sha256
    save_adapter(
        tiny.shaken(attach_lora(tiny.random_model(), rank=4), seed=4),
        tmp_path / "other",
        base_model="tiny",
        base_sha256="a",
    )
    (saved / "treeopt.json").unlink()
    assert len({merged.sha256, load(tmp_path / "other").sha256, load(saved, sha256="b").sha256}) == 3


LAYERS = ["q_proj", "v_proj"]
ELSEWHERE = [
    {"target_modules": LAYERS, "r": 2},
    {"target_modules": "all-linear", "use_rslora": True},
    {"target_modules": LAYERS, "use_dora": True},
    {"target_modules": [*LAYERS, "lm_head"]},
    {"target_modules": [*LAYERS, "embed_tokens", "lm_head"]},
    {"target_modules": LAYERS, "modules_to_save": ["lm_head", "embed_tokens"]},
    {"target_modules": LAYERS, "trainable_token_indices": [3, 4]},
    {"target_modules": LAYERS, "rank_pattern": {"q_proj": 3}, "layers_to_transform": [1]},
]


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("settings", ELSEWHERE, ids=str)
@pytest.mark.filterwarnings("ignore")  # peft's, about saving embeddings and tied weights
def test_adapters_made_elsewhere_are_what_peft_makes_of_them(settings, tied, tmp_path):
    model = tiny.random_model("qwen2", tie_word_embeddings=tied)
    base = deepcopy(model)
    wrapped = tiny.shaken(peft.get_peft_model(model, peft.LoraConfig(**settings))).eval()
    adapted = logits(wrapped)
    wrapped.save_pretrained(tmp_path)
    assert_merged(logits(load(tmp_path, base).model), adapted)


def test_old_adapters_in_a_torch_file_are_read(saved):
    expected = logits(load(saved).model)
    torch.save(load_file(saved / WEIGHTS), saved / "adapter_model.bin")
    (saved / WEIGHTS).unlink()
    assert torch.equal(logits(load(saved).model), expected)


def edit(directory, change):
    tensors = load_file(directory / WEIGHTS)
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(QUERY_A), f"missing {QUERY_A}$"),
        (lambda tensors: tensors.update(extra=torch.zeros(1)), "no place for: extra$"),
        (
            lambda tensors: tensors.update({QUERY_A: torch.zeros(5, 32)}),
            r"q_proj.lora_A.weight has shape \(5, 32\)",
        ),
        (lambda tensors: tensors[QUERY_A].fill_(torch.nan), "no finite"),
        (lambda tensors: tensors.clear(), "missing .* and 22 more$"),
    ],
    ids=["missing", "extra", "shape", "nan", "empty"],
)
def test_a_file_that_does_not_fit_is_refused_with_its_keys(saved, change, message):
    edit(saved, change)
    with pytest.raises(InputError, match=message) as caught:
        load(saved)
    assert "\n" not in str(caught.value)


def test_an_adapter_of_another_shape_or_kind_is_refused(saved):
    (saved / "treeopt.json").unlink()
    with pytest.raises(InputError, match=r"keys that .* have no place for: .*layers.1"):
        load(saved, tiny.random_model("llama", num_hidden_layers=1))
    with pytest.raises(InputError, match="has shape"):
        load(saved, tiny.random_model("llama", intermediate_size=40))
    config = json.loads((saved / CONFIG).read_text())
    (saved / CONFIG).write_text(json.dumps(config | {"target_modules": ["nothing"]}))
    with pytest.raises(InputError, match=r"lora: does not fit tiny: .*nothing"):
        load(saved)
    (saved / CONFIG).write_text(json.dumps(config | {"r": -1}))
    with pytest.raises(InputError, match="does not fit tiny"):
        load(saved)
    (saved / CONFIG).write_text(json.dumps(config | {"peft_type": "IA3"}))
    with pytest.raises(UnsupportedError, match="peft_type is IA3"):
        load(saved)


def test_what_is_no_adapter_is_refused(saved, tmp_path):
    for directory in (tmp_path / "absent", tmp_path, saved / WEIGHTS):
        with pytest.raises(InputError, match="no LoRA adapter there"):
            load(directory)
    (saved / WEIGHTS).write_bytes(b"garbage")
    with pytest.raises(InputError, match="not a safetensors file"):
        load(saved)
    (saved / CONFIG).write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load(saved)


def test_an_adapter_of_other_weights_is_refused_by_name(saved):
    with pytest.raises(MismatchError, match="lora: an adapter of tiny with sha256 a, but tiny has b"):
        load(saved, sha256="b")


def test_a_quantised_model_is_refused_with_the_reason(saved):
    model = tiny.random_model()
    model.register_buffer("qweight", torch.zeros(1, dtype=torch.int32))
    with pytest.raises(UnsupportedError, match=r"quantised, and merging .* would round the adapter away"):
        load(saved, model)


def test_without_peft_the_extra_is_named(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    for use in (lambda: load(saved), lambda: attach_lora(tiny.random_model())):
        with pytest.raises(InputError, match="pip install peft"):
            use()


def test_saving_replaces_an_adapter_and_a_failed_write_leaves_it(saved, monkeypatch):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    wrapped = tiny.shaken(attach_lora(tiny.random_model(), rank=4), seed=5)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("treeopt.model.adapter.write_json", full)
        with pytest.raises(InputError, match=r"cannot be written .*No space left"):
            save_adapter(wrapped, saved, base_model="tiny", base_sha256="a")
        with pytest.raises(InputError, match="cannot be written"):
            save_adapter(wrapped, saved.parent / "new", base_model="tiny", base_sha256="a")
    assert list(saved.parent.iterdir()) == [saved]
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    save_adapter(wrapped, saved, base_model="tiny", base_sha256="a")
    assert_merged(logits(load(saved).model), logits(wrapped))
    with pytest.raises(InputError, match="cannot be written"):
        save_adapter(wrapped, saved / CONFIG, base_model="tiny", base_sha256="a")


def test_a_backbone_is_loaded_with_its_adapter_before_it_is_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "SMALLEST", 1)
    tiny.random_model().save_pretrained(tmp_path / "tiny")
    base = load_source(str(tmp_path / "tiny"), device="cpu", dtype=torch.float32)
    wrapped = tiny.shaken(attach_lora(base.model, rank=4))
    save_adapter(wrapped, tmp_path / "lora", base_model=str(tmp_path / "tiny"), base_sha256=base.sha256)
    backbone = Backbone.load(str(tmp_path / "tiny"), adapter=tmp_path / "lora")
    assert backbone.name == "tiny+lora" and backbone.sha256 not in ("", base.sha256)
    assert_merged(backbone.logits(backbone.states(IDS)), logits(wrapped))
    half = Backbone.load(str(tmp_path / "tiny"), adapter=tmp_path / "lora", dtype="bfloat16")
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    shutil.rmtree(tmp_path / "lora")
    with pytest.raises(InputError, match="no LoRA adapter there"):
        Backbone.load(str(tmp_path / "tiny"), adapter=tmp_path / "lora")


def test_heads_that_share_the_lm_head_see_its_adapter(tmp_path):
    backbone = tiny.wrap(tiny.random_model())
    save_heads(tmp_path, tiny.heads_for(backbone), base_model="tiny")
    heads = load_heads(tmp_path, backbone)
    hidden = torch.randn(3, tiny.HIDDEN)
    before = heads(hidden)
    tiny.shaken(attach_lora(backbone.model))
    features = heads.features(hidden)
    assert torch.equal(heads(hidden), backbone.lm_head(features))
    assert not torch.allclose(heads(hidden), before, atol=0.01)
