"""Replaying 1,000,000 rows: one tree of 64 nodes, and all 64 trees of its growth at once.

    python benchmarks/replay.py [ROWS]

The rows are random, in answers of 128 tokens and 5 heads, with ranks as likely as a trained head has them.
The ratios are to a plain Python loop, timed on the first 2 % of the answers: of rows, and of rows times trees.
"""

import json
import sys
import time

import numpy as np

from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.search.replay import replay, replay_all
from treeopt.tree import Tree

LENGTH, HEADS, WIDTH, NODES = 128, 5, 16, 64


def random_table(rows: int) -> RankTable:
    rng = np.random.default_rng(0)
    answers = rows // LENGTH
    ranks = np.stack(
        [
            np.minimum(rng.geometric(0.5 / (1 + 0.5 * head), answers * LENGTH) - 1, WIDTH)
            for head in range(HEADS)
        ],
        1,
    )
    offset = np.tile(np.arange(LENGTH), answers)
    past = LENGTH - offset[:, None] <= np.arange(1, HEADS + 1)
    return RankTable(
        ranks=np.where(past, UNKNOWN, ranks),
        sequence=np.repeat(np.arange(answers), LENGTH),
        offset=offset,
        ids=tuple(map(str, range(answers))),
        categories=("all",) * answers,
        ended=("limit",) * answers,
        width=WIDTH,
    )


def literal_steps(table: RankTable, tree: Tree) -> int:
    """Steps, token by token over Python lists."""
    nodes, steps = set(tree.nodes), 0
    rows = table.ranks.tolist()
    starts = np.cumsum(table.lengths) - table.lengths
    for start, length in zip(starts.tolist(), table.lengths.tolist(), strict=True):
        position = start
        while position < start + length:
            path: tuple[int, ...] = ()
            for rank in rows[position]:
                if (*path, rank) not in nodes:
                    break
                path = (*path, rank)
            steps += 1
            position += len(path) + 1
    return steps


def timed(job):
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def main() -> None:
    table = random_table(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    growth = grow(Independent(table.accuracy()), NODES)
    trees = [growth.tree(size) for size in range(1, NODES + 1)]
    one_s, one = timed(lambda: replay(table, trees[-1]))
    all_s, everything = timed(lambda: replay_all(table, trees))
    assert everything[-1].steps == one.steps
    part = table.select(range(max(1, len(table.ids) // 50)))
    literal_s, steps = timed(lambda: literal_steps(part, trees[-1]))
    assert steps == replay(part, trees[-1]).steps
    loop_s = literal_s * table.positions / part.positions
    result = {
        "rows": table.positions,
        "nodes": NODES,
        "one_tree_s": round(one_s, 3),
        "all_64_budgets_s": round(all_s, 3),
        "one_tree_against_a_loop": round(loop_s / one_s, 1),
        "all_64_budgets_against_loops": round(loop_s * NODES / all_s, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
