"""Estimators and trees that know no accuracies, side by side at equal N: replayed on held-out prompts.

    python benchmarks/estimators.py RANKS... [--trees FILE[:NAME]] [--sizes 4,8,16] [--folds 5] [-o FILE]

For each rank table: tokens per step by replay of each estimator's tree, grown in folds by prompt, with and without
visited rows; of random dense trees, of the best dense tree by replay of the fitted prompts, and of published trees.
Intervals are by bootstrap over prompts, the important one on the difference to `independent`. The last line says, as
JSON, at which sizes an estimator is significantly better or worse than that, each size by itself. FILE gets it all.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from treeopt.artifact import format_json, sha256_file, write_text
from treeopt.cli.stages.grow import derived
from treeopt.export.read import read_trees
from treeopt.search.accuracy_files import split_name
from treeopt.search.compare import INDEPENDENT, Compared, compare
from treeopt.search.estimate import ESTIMATORS
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable
from treeopt.tree import Tree
from treeopt.view.comparison import compared_table

PATHS = {"asked": None, "prompt_file": None}  # of the machine that made the ranks: left out
SIZES = (4, 8, 16, 32, 64, 128, 256)


def main() -> None:
    options = parsed()
    comparisons, verdicts = [], {}
    for path in options.ranks:
        table = read_ranks(path).split(options.split)
        trees = {name: tree for source in options.trees for name, tree in fitting(source, table).items()}
        lines = compare(table, options.sizes, trees, folds=options.folds, seed=options.seed)
        print(f"{path}: {table.positions} rows, {len(set(table.ids))} prompts\n\n{compared_table(lines)}\n")
        verdicts[str(path)] = significant(lines)
        facts = PATHS | {
            "ranks_sha256": sha256_file(path),
            "positions": table.positions,
            "folds": options.folds,
        }
        comparisons.append(
            {
                "ranks": str(path),
                "lines": [asdict(line) for line in lines],
                "provenance": derived(
                    table.provenance, **facts, split=options.split, bootstrap_seed=options.seed
                ),
            }
        )
    if options.output:
        write_text(options.output, format_json({"comparisons": comparisons}))
    print(json.dumps({"folds": options.folds, "significant": verdicts}))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ranks", nargs="+", type=Path)
    parser.add_argument("--trees", action="append", default=[], metavar="FILE[:NAME]")
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in text.split(",")], default=SIZES)
    parser.add_argument("--split", default="all", choices=["calibrate", "evaluate", "all"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def fitting(source: str, table: RankTable) -> dict[str, Tree]:
    """The trees of a file, cut to the heads that there are; those of higher ranks are left out and named."""
    trees = {}
    for name, tree in read_trees(*split_name(source)).items():
        cut = tree.up_to_depth(table.heads)
        if cut.max_rank < table.width:
            trees[name if cut == tree else f"{name}, {table.heads} heads"] = cut
        else:
            print(f"{name} is left out: it needs rank {cut.max_rank}, the table has {table.width}")
    return trees


def significant(lines: list[Compared]) -> dict[str, dict[str, list[int]]]:
    """Each estimator's sizes at which the interval of its difference to `independent` lies above 0, and below."""
    verdict: dict[str, dict[str, list[int]]] = {}
    for line in lines:
        low, high = line.difference_interval
        if line.name.startswith(tuple(ESTIMATORS)) and line.name != INDEPENDENT:
            sizes = verdict.setdefault(line.name, {"better": [], "worse": []})
            sizes["better"] += [line.tokens] * (low > 0)
            sizes["worse"] += [line.tokens] * (high < 0)
    return verdict


if __name__ == "__main__":
    main()
