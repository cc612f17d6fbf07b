"""Ratios of sums by category of prompts, from anyone's log of answers."""

import numpy as np
import pandas as pd

from treeopt.search.bootstrap import ratio_interval


def ratios_by_category(
    log: pd.DataFrame, above: str, below: str, *, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Sum of column `above` over sum of column `below` for each category, with the ends of its 95 % interval.

    `log` has a row for each answer, with its `question` and `category`; the interval is by bootstrap over questions, to
    each of which there may be several answers. Tokens over steps give tokens per step, tokens over seconds token/s.
    """
    found = {}
    for category, rows in log.groupby("category", sort=False):
        sums = rows.groupby("question")[[above, below]].sum()
        numbers = sums[above].to_numpy(), sums[below].to_numpy()
        low, high = ratio_interval(*numbers, np.random.default_rng(seed))
        found[str(category)] = float(numbers[0].sum() / numbers[1].sum()), float(low), float(high)
    return found
