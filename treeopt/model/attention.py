"""Attention for trees over grouped keys and values.

transformers repeats keys and values for every query head before a masked product, which copies the whole cache in
every layer of every step. Here the query heads that share a key head are stacked as more queries of it instead.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "treeopt_grouped_sdpa"
SPECIAL = ("softcap", "position_bias", "s_aux")  # what some models add to plain attention


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention, query [B, heads, P, d] over key [B, key heads, S, d]; output [B, P, heads, d].

    The mask has P rows, or already one block of P rows for each query head of a group (`stack_mask`). Without a
    mask, or without groups, this is transformers' own function.
    """
    batch, heads, positions, _ = query.shape
    key_heads = key.shape[1]
    special = any(options.get(name) is not None for name in SPECIAL)
    if attention_mask is None or heads == key_heads or module.training or special:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    groups = heads // key_heads
    if attention_mask.shape[2] == positions:
        attention_mask = stack_mask(attention_mask, groups)
    stacked = query.reshape(batch, key_heads, groups * positions, -1)
    output = functional.scaled_dot_product_attention(stacked, key, value, attention_mask, scale=scaling)
    return output.reshape(batch, heads, positions, -1).transpose(1, 2), None


def stack_mask(mask: torch.Tensor, groups: int) -> torch.Tensor:
    """[B, 1, P, S] -> [B, 1, groups * P, S]."""
    return mask.repeat(1, 1, groups, 1)


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
