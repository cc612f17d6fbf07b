"""How the bundled model's temperature changes repetition, head accuracy and tokens per step.

    python benchmarks/temperature.py

For each temperature: the median share of repeated 4-grams of an answer, each head's top-1, and tokens per step of the
grown trees, fitted on the calibrate half and replayed on the evaluate half.
"""

import json
import statistics

from treeopt.decode import Engine, Sampled
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import encode_prompts
from treeopt.measure.generations import Generation
from treeopt.measure.prompts import read_prompts
from treeopt.measure.repetition import repeated_share
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.sources import DEMO
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.replay import replay

TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0)
SIZES = (2, 4, 8, 16, 32, 64)


def main() -> None:
    backbone = Backbone.load()
    heads = load_heads(DEMO / "heads", backbone)
    limit = json.loads((DEMO / "settings.json").read_text())["max_new_tokens"]
    prompts = encode_prompts(backbone.tokenizer, read_prompts(DEMO / "prompts.jsonl").prompts, "none")
    result = {}
    for temperature in TEMPERATURES:
        engine = Engine(backbone, rule=Sampled(temperature))
        answers = engine.decode([p.ids for p in prompts], [p.id for p in prompts], limit)
        generations = [
            Generation(p.id, p.category, 0, list(p.ids), answer.tokens, answer.ended)
            for p, answer in zip(prompts, answers, strict=True)
        ]
        table = calibrate(backbone, heads, generations)
        fitted, judged = table.split("calibrate"), table.split("evaluate")
        growth = grow(Independent(fitted.accuracy()), max(SIZES))
        result[str(temperature)] = {
            "repeated_4grams_median": round(statistics.median(repeated_share(a.tokens) for a in answers), 3),
            "top1": [round(float(value), 3) for value in table.accuracy().values[:, 0]],
            "tokens_per_step": {
                size: round(replay(judged, growth.tree(size)).tokens_per_step, 3) for size in SIZES
            },
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
