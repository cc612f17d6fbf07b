"""`treeopt optimize` from nothing: wall time, peak memory, and what it found beside what it then measured.

    python benchmarks/optimize.py [--run DIR]

Runs the command in a new run directory and reads its artifacts.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from treeopt.search.latency import LatencyProfile


@click.command()
@click.option("--run", "run", type=click.Path(path_type=Path), help="Keep the artifacts there.")
def main(run: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = run or Path(folder)
        start = time.perf_counter()
        command = [sys.executable, "-m", "treeopt", "optimize", "--fresh", "--run", str(directory)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(json.dumps({"optimize_s": round(seconds, 1), "peak_gb": round(peak, 2)} | figures(directory)))


def figures(directory: Path) -> dict[str, object]:
    """The choice's prediction, the step's parts and the measured token/s of every method."""
    choice = json.loads((directory / "choice.json").read_text())
    evaluation = json.loads((directory / "evaluation.json").read_text())
    profile = LatencyProfile.read(directory / "latency.json")
    runs = {run["name"]: run for run in evaluation["runs"]}
    plain = max(runs["plain"]["tokens_per_s"], runs["hf_generate"]["tokens_per_s"])
    tree = next(run for name, run in runs.items() if name not in ("plain", "hf_generate"))
    setting = choice["batch"], choice["context"], choice["tokens"]
    step, accept = profile.median(*setting), profile.median(*setting, part="accept")
    replayed = 1000 * tree["tokens_per_step"] / step
    return {
        "tokens": choice["tokens"],
        "predicted_tokens_per_s": round(choice["tokens_per_s"], 1),
        "predicted_interval": choice["interval"],
        "replayed_over_latency_tokens_per_s": round(replayed, 1),
        "measured_tokens_per_s": round(tree["tokens_per_s"], 1),
        "replayed_over_measured": round(replayed / tree["tokens_per_s"], 3),
        "plain_tokens_per_s": round(runs["plain"]["tokens_per_s"], 1),
        "hf_generate_tokens_per_s": round(runs["hf_generate"]["tokens_per_s"], 1),
        "speedup_over_fastest_plain": round(tree["tokens_per_s"] / plain, 3),
        "tokens_per_step": round(tree["tokens_per_step"], 3),
        "share_of_step_outside_model_and_heads": round(accept / step, 3),
    }


if __name__ == "__main__":
    main()
