"""Draws `learning_curve.jsonl`: top-1 of heads 1 and 2 against training tokens, on seen and on unseen answers.

python calibration/smollm2-135m/plot_curve.py learning_curve.jsonl learning_curve.svg
"""

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

SETS = {
    "train": ("answers trained on", "#000000"),
    "held_out": ("80 held-out prompts", "#0072B2"),
    "mt_bench": ("MT-Bench, first turns", "#D55E00"),
}


def main() -> None:
    text = Path(sys.argv[1]).read_text()
    lines = sorted(map(json.loads, text.splitlines()), key=lambda line: line["tokens"])
    matplotlib.rcParams["svg.hashsalt"] = "treeopt"
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for head, axes in enumerate(figure.subplots(1, 2, sharex=True)):
        for name, (label, colour) in SETS.items():
            tokens = [line["tokens"] / 1000 for line in lines]
            value = [100 * line[name]["top1"][head] for line in lines]
            low, high = zip(
                *([100 * end for end in line[name]["interval"][head]] for line in lines), strict=True
            )
            axes.fill_between(tokens, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(tokens, value, marker="o", color=colour, label=label)
        bar = (40, 20)[head]
        axes.axhline(bar, color="#999999", linestyle=":", linewidth=1)
        axes.annotate(
            f"bar: {bar} %", (tokens[0], bar), xytext=(2, 3), textcoords="offset points", fontsize=8
        )
        axes.set(title=f"head {head + 1}", xlabel="training tokens (thousands)", xscale="log", ylim=(0, None))
        axes.set_xticks(tokens, [f"{count:.0f}" for count in tokens])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("top-1 accuracy (%), with 95 % interval")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(sys.argv[2], metadata={"Date": None} if sys.argv[2].endswith("svg") else None)


if __name__ == "__main__":
    main()
