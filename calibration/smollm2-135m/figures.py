"""What the recipe's scripts say of heads on answers: top-1 by head with intervals, and how much the text repeats."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from treeopt.measure.calibrate import calibrate
from treeopt.measure.generations import Generation
from treeopt.measure.repetition import repeated_share
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads

LEAST = 128  # tokens of an answer that is judged


def figures(backbone: Backbone, heads: MedusaHeads, answers: Sequence[Generation]) -> dict[str, Any]:
    """Top-1 of each head over its own trials, with 95 % intervals by bootstrap over prompts."""
    table = calibrate(backbone, heads, answers)
    accuracy = table.accuracy()
    assert accuracy.low is not None and accuracy.high is not None
    return {
        "answers": len(answers),
        "tokens": sum(len(answer.answer_ids) for answer in answers),
        "top1": [round(float(value), 4) for value in accuracy.values[:, 0]],
        "interval": [
            [round(float(low), 4), round(float(high), 4)]
            for low, high in zip(accuracy.low[:, 0], accuracy.high[:, 0], strict=True)
        ],
        "repeated_4grams": round(median(repeated_share(answer.answer_ids) for answer in answers), 3),
    }
