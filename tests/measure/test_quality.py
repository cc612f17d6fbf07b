"""Surprise and repetition of a text, against a distribution that is known and a loop over its tokens."""

import pytest
import torch

from tests import tiny
from treeopt.decode import Answer, Engine, Sampled
from treeopt.measure import quality
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.quality import Quality, measure_quality

PROMPTS = [EncodedPrompt("a", "x", (3, 9, 4)), EncodedPrompt("b", "x", (5,))]
ANSWERS = [Answer([7, 8, 9, 7, 8, 9, 7, 8], ended="limit"), Answer([6], ended="limit")]


@pytest.mark.parametrize("rows", [1, 3, 10**6])
def test_surprise_is_that_of_a_loop_over_tokens(rows, monkeypatch):
    model = tiny.backbone()
    monkeypatch.setattr(quality, "LOGITS_AT_ONCE", rows * model.vocabulary)
    nll, entropy, count = 0.0, 0.0, 0
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        for place, token in enumerate(answer.tokens):
            ids = torch.tensor([[*prompt.ids, *answer.tokens[:place]]])
            with torch.inference_mode():
                p = model.model(input_ids=ids).logits[0, -1].double().softmax(-1)
            nll -= float(p[token].log())
            entropy -= float((p * p.log()).sum())
            count += 1
    found = measure_quality(model, PROMPTS, ANSWERS)
    assert (found.nll, found.entropy) == pytest.approx((nll / count, entropy / count), rel=1e-4)
    assert found.repetition == pytest.approx((2 / 5 + 0) / 2) and found.answers == 2


def test_text_drawn_from_the_model_is_as_surprising_as_its_entropy_and_greedy_text_less():
    model = tiny.backbone()
    names = [EncodedPrompt(str(number), "x", (3, 9, 4)) for number in range(200)]
    found = {}
    for rule in (Sampled(1.0), Sampled(0.0)):
        answers = Engine(model, rule=rule).decode([p.ids for p in names], [p.id for p in names], 20)
        found[rule.name] = measure_quality(model, names, answers)
    assert found["sampled"].surprise_gap < 0.1 < found["greedy"].surprise_gap
    assert found["greedy"].nll < found["greedy"].entropy


def test_the_gap_has_no_sign():
    assert Quality(1.0, 3.0, 0.0, 1).surprise_gap == Quality(3.0, 1.0, 0.0, 1).surprise_gap == 2.0
