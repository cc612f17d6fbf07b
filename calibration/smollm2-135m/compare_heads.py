"""Heads side by side on the same answers: is a text easy, or are the heads good?

    python calibration/smollm2-135m/compare_heads.py MODEL --heads NAME=DIR --judge NAME=FILE [more of either]

Prints a JSON line for each pair: top-1 by head with intervals, over answers of at least 128 tokens.
"""

import argparse
import json
from pathlib import Path

from figures import LEAST, figures

from treeopt.measure.generations import read_generations
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--heads", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("--judge", action="append", required=True, metavar="NAME=FILE")
    options = parser.parse_args()
    backbone = Backbone.load(options.model)
    for judge in options.judge:
        text, _, file = judge.partition("=")
        answers = [a for a in read_generations(Path(file)) if len(a.answer_ids) >= LEAST]
        for named in options.heads:
            name, _, directory = named.partition("=")
            found = figures(backbone, load_heads(directory, backbone), answers)
            print(json.dumps({"text": text, "heads": name, **found}), flush=True)


if __name__ == "__main__":
    main()
