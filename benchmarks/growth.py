"""Growing trees of 64, 4,096 and 65,536 nodes from a table of 5 heads and 16 ranks.

    python benchmarks/growth.py

Then of 4,096 nodes from ranks of 500,000 rows, by each estimator: the fit, and the growth after it.
"""

import json
import statistics
import time

import numpy as np
from replay import random_table

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.estimate import ESTIMATORS, Independent
from treeopt.search.grow import grow

BUDGETS = {64: 51, 4096: 11, 65536: 5}  # nodes: repeats


def main() -> None:
    rng = np.random.default_rng(0)
    values = np.sort(rng.dirichlet(np.full(17, 0.3), size=5), axis=1)[:, :0:-1]
    estimator = Independent(AccuracyTable(values))
    result = {}
    for budget, repeats in BUDGETS.items():
        samples = []
        for _ in range(repeats):
            start = time.perf_counter()
            grown = grow(estimator, budget)
            samples.append(time.perf_counter() - start)
            assert len(grown.paths) == budget
        result[f"grow_{budget}_ms"] = round(1000 * statistics.median(samples), 3)
    print(json.dumps(result | by_estimator()))


def by_estimator() -> dict[str, float]:
    """Milliseconds of fitting each estimator to 500,000 rows, and of growing 4,096 nodes from it."""
    table, result = random_table(500_000), {}
    for name, make in ESTIMATORS.items():
        start = time.perf_counter()
        estimator = make(table, None)
        fitted = time.perf_counter()
        assert grow(estimator, 4096).size == 4096
        result[f"{name}_fit_500000_rows_ms"] = round(1000 * (fitted - start), 1)
        result[f"{name}_grow_4096_ms"] = round(1000 * (time.perf_counter() - fitted), 1)
    return result


if __name__ == "__main__":
    main()
