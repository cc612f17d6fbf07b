"""Stacked heads, ranks and best ids against loops and full sorts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from tests import tiny
from treeopt.model.heads import MedusaHeads, rank_of, top_ranks


def reference(heads, project, hidden):
    """Cai et al. 2024, section 2.1.1, a head and a position at a time: [K, P, V]."""
    every = []
    for k in range(heads.heads):
        rows = []
        for state in hidden:
            for layer in range(heads.layers):
                update = functional.linear(state, heads.weight[layer, k], heads.bias[layer, k])
                state = state + update * torch.sigmoid(update)
            rows.append(heads.lm_weight[k] @ state if heads.lm_weight is not None else project(state))
        every.append(torch.stack(rows))
    return torch.stack(every)


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("positions", [1, 5])
def test_stacked_heads_are_the_formula(layers, own, positions):
    model = tiny.backbone()
    heads = tiny.heads_for(model, heads=3, layers=layers, own=own)
    hidden = torch.randn(positions, tiny.HIDDEN, generator=torch.Generator().manual_seed(0))
    expected = reference(heads, model.lm_head, hidden)
    assert expected.shape == (3, positions, tiny.VOCABULARY)
    torch.testing.assert_close(heads(hidden), expected, rtol=1e-5, atol=1e-5)


def test_untrained_heads_repeat_the_language_model_head():
    model = tiny.backbone()
    heads = MedusaHeads.untrained(4, 2, tiny.HIDDEN, model.lm_head)
    hidden = torch.randn(3, tiny.HIDDEN)
    assert (heads.heads, heads.layers) == (4, 2)
    torch.testing.assert_close(heads(hidden), model.logits(hidden).expand(4, -1, -1))
    assert not any(name.startswith("_project") for name, _ in heads.named_parameters())


@st.composite
def logits(draw):
    """[rows, V] of small integers, so that many are equal."""
    rows, size = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    flat = draw(st.lists(st.integers(-2, 2), min_size=rows * size, max_size=rows * size))
    return torch.tensor(flat, dtype=torch.float32).reshape(rows, size)


def order(row):
    """Token ids by falling logit, equal ones by rising id."""
    return sorted(range(len(row)), key=lambda token: (-float(row[token]), token))


@given(logits(), st.integers(1, 12))
def test_best_ids_are_those_of_a_full_sort(values, width):
    expected = [order(row)[:width] for row in values]
    assert top_ranks(values, width).tolist() == expected
    assert top_ranks(values[None], width).tolist() == [expected]


@given(logits())
def test_a_rank_is_the_place_in_a_full_sort(values):
    for token in range(values.shape[1]):
        truth = torch.full((len(values),), token)
        expected = [order(row).index(token) for row in values]
        assert rank_of(values, truth).tolist() == expected
        assert rank_of(values[None], truth[None]).tolist() == [expected]


@given(logits())
def test_ranks_and_best_ids_agree(values):
    best = top_ranks(values, values.shape[1])
    for rank in range(values.shape[1]):
        assert rank_of(values, best[:, rank]).tolist() == [rank] * len(values)


def test_logits_that_are_no_numbers_rank_nothing_first():
    broken = torch.full((2, 5), torch.nan)
    broken[1, :4] = torch.tensor([1.0, 3.0, 2.0, 0.0])
    assert rank_of(broken, torch.tensor([2, 4])).tolist() == [5, 5]
    assert rank_of(broken[1:], torch.tensor([1])).tolist() == [1]


def test_two_layers_share_no_memory():
    heads = tiny.heads_for(tiny.backbone(), layers=2)
    with torch.no_grad():
        before = heads.weight[1].clone()
        heads.weight[0].zero_()
    assert torch.equal(heads.weight[1], before) and before.abs().sum() > 0
