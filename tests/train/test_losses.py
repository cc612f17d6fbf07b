"""The objective against its formula, written out."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from treeopt.search.ranks import UNKNOWN
from treeopt.train.losses import medusa1_loss


def reference(logits, truths):
    """Sum over k of 0.8^k times the mean of -log p(truth), over the places whose truth is known."""
    total, each = 0.0, []
    for k, (head, row) in enumerate(zip(logits.tolist(), truths.tolist(), strict=True), start=1):
        losses = []
        for scores, truth in zip(head, row, strict=True):
            if truth != UNKNOWN:
                losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[truth])
        each.append(sum(losses) / len(losses) if losses else 0.0)
        total += 0.8**k * each[-1]
    return total, each


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 5), st.integers(0, 999))
def test_the_loss_is_the_formula(heads, positions, vocabulary, seed):
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(heads, positions, vocabulary, generator=random)
    truths = torch.randint(UNKNOWN, vocabulary, (heads, positions), generator=random)
    total, each = medusa1_loss(logits, truths)
    expected, per_head = reference(logits, truths)
    assert float(total) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert each.tolist() == pytest.approx(per_head, rel=1e-5, abs=1e-6)


def test_a_head_without_any_truth_contributes_nothing():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    truths = torch.tensor([[0, 1, 2], [UNKNOWN] * 3])
    total, each = medusa1_loss(logits, truths)
    total.backward()
    assert torch.isfinite(total) and each[1] == 0
    assert logits.grad is not None and logits.grad[0].abs().sum() > 0 and logits.grad[1].abs().sum() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_summed_in_float32(dtype):
    logits = torch.full((1, 1, 8), 40.0, dtype=dtype)
    total, _ = medusa1_loss(logits, torch.tensor([[3]]))
    assert total.dtype == torch.float32 and float(total) == pytest.approx(0.8 * math.log(8), rel=1e-3)
