"""Latency, token/s, overhead and speedup: by the paper's definitions, with intervals by prompt."""

import numpy as np
import pytest

from treeopt.decode import Answer
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import Run
from treeopt.measure.speed import speed
from treeopt.search.bootstrap import RESAMPLES
from treeopt.tree import ROOT


def run_of(answers, names="abc", categories="xyx"):
    prompts = [EncodedPrompt(n, c, (1,)) for n, c in zip(names, categories, strict=True)]
    return Run("run", ROOT, prompts, answers)


def answer(steps, seconds):
    return Answer([0] * sum(steps), steps, "limit", seconds)


def measured(run, plain, seed=0):
    found = speed(run, plain, seed)
    assert found is not None
    return found


PLAIN = run_of([answer([1] * 5, 5.0), answer([1] * 4, 6.0), answer([1] * 2, 1.0)])
FAST = run_of([answer([3, 2], 3.0), answer([2, 2], 4.0), answer([2], 2.0)])


def test_figures_are_the_papers():
    found = measured(FAST, PLAIN)
    assert found.latency_ms == pytest.approx(1000 * 9 / 5)
    assert found.tokens_per_s == pytest.approx(11 / 9)
    assert found.overhead == pytest.approx((9 / 5) / (12 / 11))
    assert found.speedup == pytest.approx((11 / 5) / found.overhead)
    assert found.speedup == pytest.approx((11 / 9) / (11 / 12)), "the same text, so the ratio of token/s too"
    own = measured(PLAIN, PLAIN)
    assert (own.overhead, own.speedup, own.speedup_interval) == (1, 1, (1, 1))


def test_a_category_is_judged_on_its_own_prompts():
    part = measured(FAST.of_category("x"), PLAIN.of_category("x"))
    assert part.tokens_per_s == pytest.approx(7 / 5) and part.overhead == pytest.approx((5 / 3) / (6 / 7))
    assert FAST.of_category("y").prompts == [EncodedPrompt("b", "y", (1,))]


def test_intervals_draw_whole_prompts_with_all_their_answers():
    """The slow twin: prompts drawn with replacement, their tokens, steps and seconds added up by both methods."""
    answers = [FAST, PLAIN]
    names = "aba"  # two answers to one prompt
    fast, plain = (run_of(run.answers, names) for run in answers)
    times = np.random.default_rng(7).multinomial(2, [0.5, 0.5], size=RESAMPLES)
    speedups = []
    for a, b in times:
        sums = []
        for run in answers:
            weights = (a, b, a)
            emitted = sum(w * len(x.tokens) for w, x in zip(weights, run.answers, strict=True))
            steps = sum(w * len(x.step_tokens) for w, x in zip(weights, run.answers, strict=True))
            seconds = sum(w * x.seconds for w, x in zip(weights, run.answers, strict=True))
            sums.append((emitted, steps, seconds))
        (emitted, steps, seconds), (_, plain_steps, plain_seconds) = sums
        speedups.append((emitted / steps) / ((seconds / steps) / (plain_seconds / plain_steps)))
    expected = np.quantile(speedups, (0.025, 0.975))
    assert measured(fast, plain, seed=7).speedup_interval == pytest.approx(tuple(expected))


def test_answers_out_of_the_prefill_alone_have_no_time():
    """transformers draws the first token in its prefill: such an answer is left out, and a run of them has no speed."""
    untimed = run_of([answer([1] * 5, 5.0), answer([1], 0.0), answer([1] * 2, 1.0)])
    found = measured(untimed, PLAIN)
    assert found.tokens_per_s == pytest.approx(7 / 6) and found.latency_ms == pytest.approx(1000 * 6 / 7)
    assert speed(untimed.of_category("y"), PLAIN.of_category("y")) is None


def test_the_same_seed_gives_the_same_intervals_and_one_prompt_no_width():
    assert measured(FAST, PLAIN, seed=3) == measured(FAST, PLAIN, seed=3)
    alone = measured(FAST.of_category("y"), PLAIN.of_category("y"))
    assert alone.speedup_interval == pytest.approx((alone.speedup, alone.speedup))
    low, high = measured(FAST, PLAIN).tokens_per_s_interval
    assert low < measured(FAST, PLAIN).tokens_per_s < high
