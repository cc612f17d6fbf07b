"""Position-keyed noise: a function of seed, prompt and position, with the distribution it should have."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests import tiny
from treeopt.decode import Engine, PositionNoise, Sampled


@given(st.integers(0, 2**63), st.text(max_size=8), st.integers(0, 10_000))
def test_the_same_key_gives_the_same_noise(seed, name, position):
    noise = PositionNoise(seed, 16)
    first = noise.row(name, position)
    noise.row(name, position + 1)
    assert np.array_equal(first, PositionNoise(seed, 16).row(name, position))
    assert np.array_equal(noise.rows(name, position, 3)[0], first)
    assert first.dtype == np.float32 and np.isfinite(first).all()


def test_forgetting_rows_changes_nothing():
    noise = PositionNoise(1, 8)
    before = noise.row("a", 0)
    noise.keep = noise.block * 8 * 2
    for block in range(20):
        noise.row("a", block * noise.block)
        assert len(noise._blocks) <= 2
    assert np.array_equal(noise.row("a", 0), before)


def test_what_is_kept_is_bounded_whatever_the_vocabulary():
    noise = PositionNoise(1, 150_000)
    noise.rows("a", 0, 150)
    assert sum(row.size for row in noise._blocks.values()) <= noise.keep


def test_positions_prompts_and_seeds_are_independent():
    size = 20_000
    one = PositionNoise(1, size)
    rows = [
        one.row("a", 0),
        one.row("a", 1),
        one.row("a", 2),
        one.row("b", 0),
        PositionNoise(2, size).row("a", 0),
    ]
    correlation = np.corrcoef(rows)
    assert np.abs(correlation - np.eye(len(rows))).max() < 5 / np.sqrt(size)
    assert len({row.tobytes() for row in rows}) == len(rows)
    assert not np.isin(rows[1][:100], rows[0]).any(), "positions share no part of the stream"


def test_it_is_standard_gumbel():
    sample = np.concatenate([PositionNoise(3, 1000).row("p", position) for position in range(50)])
    assert stats.kstest(sample, "gumbel_r").pvalue > 1e-4


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_drawn_tokens_have_the_distribution_of_softmax(temperature):
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0])
    noise = PositionNoise(7, 5)
    drawn = [
        int(Sampled(temperature).draw(logits, torch.from_numpy(noise.row(f"p{i}", 0)))) for i in range(4000)
    ]
    expected = torch.softmax(logits / temperature, 0).numpy().astype(float) * 4000
    assert stats.chisquare(np.bincount(drawn, minlength=5), expected, sum_check=False).pvalue > 1e-4


def test_first_and_second_tokens_of_the_engine_have_the_distribution_of_softmax():
    """On Cycle: the first token from the prefill, the second from a step, each over 600 prompts."""
    model, names = tiny.cycle(), [f"prompt-{i}" for i in range(600)]
    answers = Engine(model, rule=Sampled(1.0), seed=11).decode([[3]] * len(names), names, 2)
    softmax = torch.softmax(model.logits(model.states(torch.tensor([[3]]))[0, -1]).detach(), 0).numpy()
    firsts = np.bincount([answer.tokens[0] for answer in answers], minlength=7)
    assert stats.chisquare(firsts, softmax.astype(float) * 600, sum_check=False).pvalue > 1e-4
    steps = np.bincount([(answer.tokens[1] - answer.tokens[0] + 3) % 7 for answer in answers], minlength=7)
    assert stats.chisquare(steps, softmax.astype(float) * 600, sum_check=False).pvalue > 1e-4
