"""How fast a method decoded beside plain decoding, as the paper defines it, with intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeopt.measure.evaluate import Run
from treeopt.search.bootstrap import Floats, interval, resampled_ratios, sums_by_prompt

Interval = tuple[float, float]
Ratio = Callable[[Floats, Floats], Any]


@dataclass(frozen=True)
class Speed:
    """A run's latency and what follows from it, each with its 95 % interval by bootstrap over prompts.

    `latency_ms` is the mean of its steps, overhead that over plain decoding's, and speedup = tokens per step /
    overhead (Cai et al. 2024, App. B.1). Prefill is in none of them.
    """

    latency_ms: float
    latency_ms_interval: Interval
    tokens_per_s: float
    tokens_per_s_interval: Interval
    overhead: float
    overhead_interval: Interval
    speedup: float
    speedup_interval: Interval


def speed(run: Run, plain: Run, seed: int = 0) -> Speed | None:
    """Of a run beside plain decoding of the same prompts; None where nothing was timed.

    An answer that came out of the prefill alone has no time, and is left out of latency and token/s.
    """
    emitted, steps, tokens, timed_steps, seconds = _sums_by_prompt(run)
    _, _, _, plain_steps, plain_seconds = _sums_by_prompt(plain)
    if not seconds.any():
        return None

    def measures(ratio: Ratio) -> list[Any]:
        latency, plain_latency = ratio(seconds, timed_steps), ratio(plain_seconds, plain_steps)
        overhead = latency / plain_latency
        return [1000 * latency, ratio(tokens, seconds), overhead, ratio(emitted, steps) / overhead]

    found = measures(lambda above, below: above.sum() / below.sum())
    resampled = measures(
        lambda above, below: resampled_ratios(above, below, np.random.default_rng(seed))  # the same draws
    )
    fields: list[Any] = []
    for value, drawn in zip(found, resampled, strict=True):
        fields += [float(value), interval(drawn)]
    return Speed(*fields)


def _sums_by_prompt(run: Run) -> Floats:
    """[5, prompts]: tokens and steps of all answers; tokens, steps and seconds of those that were timed."""
    counts = []
    for answer in run.answers:
        tokens, steps = len(answer.tokens), len(answer.step_tokens)
        timed = answer.seconds > 0
        counts.append([tokens, steps, timed * tokens, timed * steps, answer.seconds])
    return sums_by_prompt([prompt.id for prompt in run.prompts], np.array(counts, np.float64)).T
