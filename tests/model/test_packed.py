"""Packed weights give the plain products, and only what gains by it is packed."""

import pytest
import torch
from torch import nn

from treeopt.model import packed
from treeopt.model.packed import PackedLinear, pack


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1,), (64,), (2, 3), (5, 2, 1)])
def test_a_packed_layer_is_the_linear_layer(dtype, bias, shape):
    linear = nn.Linear(40, 24, bias=bias, dtype=dtype)
    rows = torch.randn(*shape, 40, dtype=dtype)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(rows), linear(rows))


def model(dtype=torch.float32):
    return nn.ModuleDict({"large": nn.Linear(512, 512, dtype=dtype), "small": nn.Linear(8, 8, dtype=dtype)})


def test_large_layers_are_packed_and_small_ones_left():
    layers = model()
    pack(layers)
    assert isinstance(layers["large"], PackedLinear) and type(layers["small"]) is nn.Linear


def test_half_precision_that_the_processor_may_lack_and_other_builds_are_left(monkeypatch):
    layers = model(torch.float16)
    pack(layers)
    assert type(layers["large"]) is nn.Linear
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", None)
    layers = model()
    pack(layers)
    assert type(layers["large"]) is nn.Linear


def test_a_backbone_is_packed_unless_it_is_to_be_trained(tmp_path, monkeypatch):
    from tests import tiny
    from treeopt.model.backbone import Backbone

    monkeypatch.setattr(packed, "SMALLEST", 1)
    tiny.random_model().save_pretrained(tmp_path)
    quick, plain = Backbone.load(str(tmp_path)), Backbone.load(str(tmp_path), differentiate="everything")
    assert isinstance(quick.lm_head, PackedLinear) and type(plain.lm_head) is nn.Linear
    half = Backbone.load(str(tmp_path), differentiate="head")
    assert type(half.lm_head) is nn.Linear and any(isinstance(m, PackedLinear) for m in half.model.modules())
    with torch.inference_mode():
        hidden = [model.states(torch.tensor([[5, 9, 12]])) for model in (quick, plain)]
        torch.testing.assert_close(*hidden, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(quick.logits(hidden[0]), plain.logits(hidden[1]), rtol=1e-4, atol=1e-3)
