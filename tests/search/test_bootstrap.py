"""Intervals by prompt."""

import numpy as np

from treeopt.search.bootstrap import RESAMPLES, interval, ratio_interval, resampled_ratios, sums_by_prompt


def test_answers_to_one_prompt_are_added_up():
    counts = np.array([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(sums_by_prompt(["b", "a", "b"], counts), [[6, 8], [3, 4]])


def test_ratios_are_of_whole_prompts():
    """The slow twin: draw prompts one by one, add up, divide."""
    above, below = np.array([[1, 0], [5, 2], [0, 7]]), np.array([[2], [9], [8]])
    fast = resampled_ratios(above, below, np.random.default_rng(3))
    times = np.random.default_rng(3).multinomial(3, np.full(3, 1 / 3), size=RESAMPLES)
    for drawn, ratio in zip(times, fast, strict=True):
        prompts = [index for index, count in enumerate(drawn) for _ in range(count)]
        total = sum(below[index, 0] for index in prompts)
        np.testing.assert_allclose(ratio, sum(above[index] for index in prompts) / total)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        easy = rng.beta(4, 4, size=60)  # each prompt has its own rate, mean 0.5
        low, high = ratio_interval(rng.binomial(30, easy), np.full(60, 30), rng)
        covered += bool(low <= 0.5 <= high)
    assert 180 <= covered <= 199


def test_nothing_tried_says_nothing():
    low, high = ratio_interval(np.zeros((4, 2)), np.array([[0, 5]] * 4), np.random.default_rng(0))
    np.testing.assert_array_equal(low, [0, 0])
    np.testing.assert_array_equal(high, [1, 0])


def test_an_interval_leaves_out_what_no_draw_could_tell():
    np.testing.assert_allclose(interval(np.array([*range(1001), np.nan])), (25, 975))
