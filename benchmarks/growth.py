"""Growing trees of 64, 4,096 and 65,536 nodes from a table of 5 heads and 16 ranks.

python benchmarks/growth.py
"""

import json
import statistics
import time

import numpy as np

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.estimate import Independent
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
    print(json.dumps(result))


if __name__ == "__main__":
    main()
