"""The hardware model against published and measured latencies, and the best tree size that it gives for every GPU.

    python benchmarks/roofline.py ACCURACY -o DIR

ACCURACY holds the published head accuracies of Vicuna 7B, 13B and 33B (training metrics of Medusa-1 heads, five ranks;
tokens per step are the product estimate). The model is compared with latencies relative to one token on an A100, Llama
33B: bare, then fitted to batch 1 alone. Rules of the fit that batch 1 cannot settle were settled with batch 4 and 16 in
view, so their errors are those of a model and no blind test. Then with the profile of the bundled model on a CPU, half
of whose sizes are left out of the fit in turn. DIR gets `benchmark_roofline.json` (the last line), `best_sizes.csv` and
`best_sizes.svg`, which draws it for Llama 7B.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeopt.artifact import write_text
from treeopt.cli.stages.grow import from_table
from treeopt.search.hardware import GPUS, SHAPES
from treeopt.search.latency import LatencyProfile
from treeopt.search.roofline import PARTS, Roofline
from treeopt.search.roofline_fit import Points, errors, fit, held_out_sizes
from treeopt.search.shape_files import read_shape
from treeopt.view.plots.settings import draw_settings
from treeopt.view.style import WIDTH_CM, save_figure, styled
from treeopt.view.tables import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
A100, LLAMA = GPUS["a100-80gb-pcie"], SHAPES["llama-33b"]
TOKENS = (16, 32, 48, 64, 80, 112)
PUBLISHED = {  # Cai et al. 2024, Tables 7 and 8, relative to one token; rounded to hundredths
    ("linear", 1): (1.01, 1.02, 1.04, 1.05, 1.07, 1.10),
    ("linear", 4): (1.05, 1.10, 1.87, 1.92, 2.00, 2.88),
    ("linear", 16): (1.90, 2.88, 4.03, 5.68, 6.87, 9.75),
    ("attention", 1): (1.13, 1.17, 1.18, 1.20, 1.38, 1.41),
}
CONTEXT = 1024  # of the attention row: taken from the paper's setting, its table is not at hand
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
SIZES = np.arange(1, 257)


def main() -> None:
    options = parsed()
    models = {
        "bare, without tiles": dict.fromkeys(PARTS, Roofline(A100, tiled=False)),
        "bare": dict.fromkeys(PARTS, Roofline(A100)),
        "fitted to batch 1": {part: fitted(part) for part in PARTS},
    }
    result = {name: published_errors(by_part) for name, by_part in models.items()}
    exposed = {part: round(model.exposed, 3) for part, model in models["fitted to batch 1"].items()}
    best = pd.concat([best_sizes(options.accuracy, name) for name in ("7b", "13b", "33b")])
    write_text(options.output / "best_sizes.csv", best.to_csv(index=False, float_format="%.3f"))
    save_figure(drawn(best[best["shape"] == "llama-7b"]), options.output / "best_sizes.svg")
    result |= {"exposed": exposed, "demo_cpu": measured_errors(), "claims": claims(best)}
    line = json.dumps(result)
    write_text(options.output / "benchmark_roofline.json", line + "\n")
    print(line)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("accuracy", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    return parser.parse_args()


def fitted(part: str) -> Roofline:
    """Fitted to the batch-1 row of one part; the rates come out in an arbitrary unit."""
    tokens, ones = np.array([1, *TOKENS]), np.ones(1 + len(TOKENS), np.int64)
    points = Points(ones, CONTEXT * ones, tokens, np.array([1.0, *PUBLISHED[part, 1]]))
    return fit(A100, LLAMA, points, [part])


def published_errors(models: dict[str, Roofline]) -> dict[str, list[float]]:
    """Relative error of every published cell, in percent, by part and batch."""
    found = {}
    for (part, batch), cells in PUBLISHED.items():
        latency = models[part].latency_ms(LLAMA, batch, CONTEXT, [1, *TOKENS], [part])
        error = 100 * (latency[1:] / latency[0] / np.array(cells) - 1)
        found[f"{part}, batch {batch}"] = error.round(1).tolist()
    rows = [[name, *(f"{error:+.1f}" for error in cells)] for name, cells in found.items()]
    print(table(["error in %", *(f"N = {n}" for n in TOKENS)], rows), end="\n\n")
    return found


def measured_errors() -> dict[str, float]:
    """Percent, on the bundled model's profile: where it was fitted, and on the sizes left out."""
    points = Points.of(LatencyProfile.read(ROOT / "results/reference/cpu/demo/latency.json"))
    shape = read_shape(ROOT / "treeopt/demo/backbone/config.json")
    inside = np.abs(errors(fit(A100, shape, points), shape, points))
    outside = np.abs(held_out_sizes(A100, shape, points))
    return {
        f"{name}_{measure}": round(100 * float(value), 1)
        for name, off in (("fitted", inside), ("held_out_sizes", outside))
        for measure, value in (("median", np.median(off)), ("largest", off.max()))
    }


def best_sizes(accuracy: Path, name: str) -> pd.DataFrame:
    """Best N and its speedup at every GPU, batch and context, by the bare model; and the speedup at N = 64."""
    rates, shape = (
        np.array(from_table(f"{accuracy}:{name}", len(SIZES)).tokens_per_step),
        SHAPES[f"llama-{name}"],
    )
    rows = []
    for gpu in GPUS.values():
        for batch in BATCHES:
            for context in CONTEXTS:
                latency = Roofline(gpu).latency_ms(shape, batch, context, SIZES)
                speedup = rates * latency[0] / latency
                best = int(speedup.argmax())
                row = {"gpu": gpu.name, "shape": shape.name, "batch": batch, "context": context}
                row |= {"tokens": int(SIZES[best]), "tokens_per_step": rates[best]}
                row |= {"overhead": latency[best] / latency[0], "speedup": speedup[best]}
                row |= {"speedup_at_64": speedup[63], "plain_ms": latency[0]}
                rows.append(row | {"fits": shape.footprint_gb(batch, context) <= gpu.memory_gb})
    return pd.DataFrame(rows)


def drawn(best: pd.DataFrame) -> "Figure":
    """Best N and its speedup by batch and context, a row for each GPU."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(WIDTH_CM / 2.54, 30 / 2.54), layout="constrained")
        rows = figure.subplots(len(GPUS), 2)
        for (gpu, table), axes in zip(best.groupby("gpu", sort=False), rows, strict=True):
            for panel, (value, name) in zip(
                axes, {"tokens": "best N", "speedup": "speedup"}.items(), strict=True
            ):
                draw_settings(panel, table, value)
                panel.set_title(f"{gpu}: {name}, simulated", loc="left")
    return figure


def claims(best: pd.DataFrame) -> dict[str, dict[str, dict[str, object]]]:
    """What the paper finds, by shape and GPU: best N at batch 1; speedups by batch; best N at batch 4 by sequence."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for (shape, gpu), rows in best.groupby(["shape", "gpu"], sort=False):
        at_1024 = rows[rows["context"] == 1024].set_index("batch")
        at_4 = rows[(rows["batch"] == 4) & (rows["context"] <= 8192)]
        found.setdefault(str(shape), {})[str(gpu)] = {
            "best_tokens_batch_1": int(at_1024.loc[1, "tokens"]),
            "speedup_batch_1_32_64_128": at_1024.loc[[1, 32, 64, 128], "speedup"].round(2).tolist(),
            "speedup_at_64_batch_1_32_64_128": at_1024.loc[[1, 32, 64, 128], "speedup_at_64"]
            .round(2)
            .tolist(),
            "best_tokens_batch_4_context_128_to_8192": at_4["tokens"].tolist(),
        }
    return found


if __name__ == "__main__":
    main()
