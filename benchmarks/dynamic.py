"""What trees rebuilt at every step would gain, from the heads' probabilities, against one fixed tree: by replay.

    python benchmarks/dynamic.py RANKS... [--sizes 4,8,16] [--folds 5] [-o FILE]

RANKS are rank tables with probabilities (`treeopt calibrate --probabilities`). For each: tokens per step of the fixed
`independent` tree, of the N - 1 likeliest paths of every row, and of all paths above a threshold that makes trees of N
nodes on average; probabilities as the heads give them and calibrated, in folds by prompt. Differences are to the fixed
tree, with intervals by bootstrap over prompts. The last line is the gain in per cent, as JSON; FILE gets everything.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from treeopt.artifact import format_json, sha256_file, write_text
from treeopt.cli.stages.grow import derived
from treeopt.search.compare import INDEPENDENT, Compared
from treeopt.search.headroom import headroom
from treeopt.search.rank_files import read_ranks
from treeopt.view.comparison import compared_table

PATHS = {"asked": None, "prompt_file": None}  # of the machine that made the ranks: left out
SIZES = (4, 8, 16, 32, 64)


def main() -> None:
    options = parsed()
    comparisons, gains = [], {}
    for path in options.ranks:
        table = read_ranks(path)
        lines = headroom(table, options.sizes, folds=options.folds, seed=options.seed)
        print(f"{path}: {table.positions} rows, {len(set(table.ids))} prompts\n\n{compared_table(lines)}\n")
        facts = {"positions": table.positions, "folds": options.folds, "bootstrap_seed": options.seed}
        made = derived(table.provenance, ranks_sha256=sha256_file(path), **PATHS, **facts)
        comparisons.append(
            {"ranks": str(path), "lines": [asdict(line) for line in lines], "provenance": made}
        )
        gains[str(path)] = gained(lines)
    if options.output:
        write_text(options.output, format_json({"comparisons": comparisons}))
    print(json.dumps(gains))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ranks", nargs="+", type=Path)
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in text.split(",")], default=SIZES)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def gained(lines: list[Compared]) -> dict[str, dict[int, float]]:
    """Per cent of tokens per step above the fixed tree, by way and N."""
    fixed = {line.tokens: line.tokens_per_step for line in lines if line.name == INDEPENDENT}
    gains: dict[str, dict[int, float]] = {}
    for line in lines:
        if line.name != INDEPENDENT:
            gain = 100 * (line.tokens_per_step / fixed[line.tokens] - 1)
            gains.setdefault(line.name, {})[line.tokens] = round(gain, 2)
    return gains


if __name__ == "__main__":
    main()
