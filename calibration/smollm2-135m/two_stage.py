"""What `two_stage.sh` came to: a JSON line for each variant in its output directory.

    python calibration/smollm2-135m/two_stage.py OUT

The loss of the backbone (nats), its top-1 and that of each head on ten held-out answers of the original model, before
and after; then, on the variant's own answers to the evaluate half of the 80 held-out prompts, tokens per step of its
own tree of 16 nodes by replay, top-1 by head, and the median share of repeated 4-grams.
"""

import json
import sys
from pathlib import Path
from statistics import median

from treeopt.measure.generations import read_generations
from treeopt.measure.repetition import repeated_share
from treeopt.search.rank_files import read_ranks

VARIANTS = ("medusa1", "direct", "two_stage", "gentle")


def main() -> None:
    for name in VARIANTS:
        run = Path(sys.argv[1]) / name
        log = next(path for path in (run / "log.jsonl", run / "heads" / "log.jsonl") if path.is_file())
        judged = [r for r in map(json.loads, log.read_text().splitlines()) if "held_out_lm_loss" in r]
        judged_ranks = read_ranks(run / "ranks.safetensors").split("evaluate")
        answers = read_generations(run / "generations.jsonl", split="evaluate")
        replayed = json.loads((run / "replay.json").read_text())["runs"][0]
        line = {
            "variant": name,
            "lm_loss": [judged[0]["held_out_lm_loss"], judged[-1]["held_out_lm_loss"]],
            "lm_top1": [judged[0]["held_out_lm_top1"], judged[-1]["held_out_lm_top1"]],
            "original_text_top1": judged[-1]["held_out_top1"],
            "tokens": replayed["tokens"],
            "tokens_per_step": round(replayed["tokens_per_step"], 4),
            "top1": [round(float(value), 4) for value in judged_ranks.accuracy().values[:, 0]],
            "repeated_4grams": round(median(repeated_share(answer.answer_ids) for answer in answers), 3),
            "answers": len(answers),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
