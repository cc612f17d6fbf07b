"""What can be said about a text without a judge: how surprising the backbone finds it, and how much it repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import torch

from treeopt.decode import Answer
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generations import Generation
from treeopt.measure.repetition import repeated_share
from treeopt.measure.states import answer_states, batches
from treeopt.model.backbone import Backbone

LOGITS_AT_ONCE = 2**22  # numbers


@dataclass(frozen=True)
class Quality:
    """Means over all tokens of the answers, under the backbone at temperature 1, in nats; and repetition.

    nll: -log p of the tokens. entropy: of the distributions that they were taken from. A text drawn from the backbone
    itself has the two equal on average; greedy text has less nll than entropy. repetition: mean share of an answer's
    4-grams that occurred in it before.
    """

    nll: float
    entropy: float
    repetition: float
    answers: int

    @property
    def surprise_gap(self) -> float:
        """|nll - entropy|, in nats: 0 for text that is as surprising as the backbone's own."""
        return abs(self.nll - self.entropy)


def measure_quality(
    backbone: Backbone, prompts: Sequence[EncodedPrompt], answers: Sequence[Answer]
) -> Quality:
    """Quality of one answer to each prompt, by teacher forcing."""
    generations = [
        Generation(prompt.id, prompt.category, 0, list(prompt.ids), answer.tokens, answer.ended)
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    sums = torch.stack([_surprise(backbone, batch) for batch in batches(generations)]).sum(0)
    nll, entropy = (sums / sum(len(answer.tokens) for answer in answers)).tolist()
    repetition = mean(repeated_share(answer.tokens) for answer in answers)
    return Quality(nll, entropy, repetition, len(answers))


@torch.inference_mode()
def _surprise(backbone: Backbone, batch: Sequence[Generation]) -> torch.Tensor:
    """float64 [2]: -log p and entropy, added up over the batch's answer tokens."""
    states = answer_states(backbone, batch)
    truths = torch.tensor([token for generation in batch for token in generation.answer_ids])
    sums = torch.zeros(2, dtype=torch.float64)
    step = max(1, LOGITS_AT_ONCE // backbone.vocabulary)
    for low in range(0, len(states), step):
        log_p = backbone.logits(states[low : low + step]).float().log_softmax(-1)
        own = log_p.gather(-1, truths[low : low + step, None].to(log_p.device))
        entropy = torch.special.entr(log_p.exp()).sum(-1)
        sums += torch.stack([-own.double().sum(), entropy.double().sum()]).cpu()
    return sums
