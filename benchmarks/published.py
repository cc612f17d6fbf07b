"""What the notebooks need of others' published measurements, as small CSV files that are read without ../shared.

    python benchmarks/published.py ../shared/data -o results/published

`vicuna_7b_accuracy.csv`: head accuracies of Vicuna-7B v1.3, of exactly each guess, as last logged while its Medusa-1
heads were trained. `vicuna_mt_bench.csv`: real decoding of MT-Bench, greedy, batch 1, with the published trees of 64
tokens, a row for each answer of each run; steps are verifications, one more than the log counted. Both are from
FasterDecoding/Medusa at commit e2a5d20 (Apache-2.0): assets/medusa_acc.csv and llm_judge/data/mt_bench/model_answer.
"""

import argparse
from pathlib import Path

import pandas as pd

from treeopt.artifact import load_json, write_text
from treeopt.search.accuracy_files import read_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    accuracies = read_accuracy(f"{options.data}/published_head_accuracy.json:7b")
    accuracies.write_csv(options.output / "vicuna_7b_accuracy.csv")
    write_text(options.output / "vicuna_mt_bench.csv", decoded(options.data).to_csv(index=False))


def decoded(data: Path) -> pd.DataFrame:
    """A row for each model, run, question and turn."""
    runs = load_json(data / "published_decoding_logs.json")["runs"]
    rows = []
    for name, questions in sorted(runs.items(), key=lambda run: (int(run[0].partition("b")[0]), run[0])):
        model, _, run = name.split()
        for question, (category, *turns) in enumerate(questions, start=1):
            for turn, (tokens, counted, seconds) in enumerate(zip(*turns, strict=True), start=1):
                setting = {"model": f"Vicuna-{model.upper()}", "run": int(run), "question": question}
                counts = {"tokens": tokens, "steps": counted + 1, "seconds": seconds}
                rows.append(setting | {"category": category, "turn": turn} | counts)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
