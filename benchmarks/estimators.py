"""Estimators and trees that know no accuracies, side by side at equal N: replayed on held-out prompts.

    python benchmarks/estimators.py RANKS... [--trees FILE[:NAME]] [--sizes 4,8,16] [--folds 5] [-o FILE]

For each rank table: tokens per step by replay of each estimator's tree, grown in folds by prompt, with and without
visited rows; of random dense trees, of the best dense tree by replay of the fitted prompts, and of published trees.
Intervals are by bootstrap over prompts, the important one on the difference to `independent`. FILE gets it all as JSON.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from treeopt.artifact import format_json, sha256_file, write_text
from treeopt.cli.stages.grow import derived
from treeopt.export.read import read_trees
from treeopt.search.accuracy_files import split_name
from treeopt.search.compare import Compared, compare
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable
from treeopt.tree import Tree
from treeopt.view.tables import table as aligned

SIZES = (4, 8, 16, 32, 64, 128, 256)


def main() -> None:
    options = parsed()
    comparisons = []
    for path in options.ranks:
        table = read_ranks(path).split(options.split)
        trees = {name: tree for source in options.trees for name, tree in fitting(source, table).items()}
        lines = compare(table, options.sizes, trees, folds=options.folds, seed=options.seed)
        print(f"{path}: {table.positions} rows, {len(set(table.ids))} prompts\n\n{text(lines)}\n")
        facts = {"ranks_sha256": sha256_file(path), "positions": table.positions, "folds": options.folds}
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


def text(lines: list[Compared]) -> str:
    """One line for each size and way: the predicted beside the replayed, and the difference to independent."""
    rows = []
    for line in sorted(lines, key=lambda line: line.tokens):
        low, high = line.difference_interval
        rows.append([str(line.tokens), line.name, f"{line.nodes:.0f}", line.predicted, line.tokens_per_step])
        rows[-1] += [f"{line.difference:+.4f}", f"{low:+.4f} to {high:+.4f}"]
    return aligned(["N", "way", "nodes", "predicted", "replayed", "difference", "95 %"], rows)


if __name__ == "__main__":
    main()
