"""Grouped attention: stacking the queries of a group is the same as repeating keys and values."""

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tests import tiny
from treeopt.model.attention import NAME, grouped_attention, stack_mask


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("positions", [1, 5])
def test_it_is_attention_over_repeated_keys(groups, stacked, positions):
    batch, key_heads, past, size = 2, 2, 7, 4
    module = torch.nn.Module().eval()
    module.num_key_value_groups = groups
    generator = torch.Generator().manual_seed(positions)
    query = torch.randn(batch, key_heads * groups, positions, size, generator=generator)
    key, value = torch.randn(2, batch, key_heads, past + positions, size, generator=generator)
    visible = torch.rand(batch, 1, positions, past + positions, generator=generator) < 0.6
    visible[..., 0] = True
    mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    expected, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    given = stack_mask(mask, groups) if stacked else mask
    got, _ = grouped_attention(module, query, key, value, given, scaling=0.3)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_models_that_allow_it_use_it():
    assert tiny.backbone("llama").model.config._attn_implementation == NAME
