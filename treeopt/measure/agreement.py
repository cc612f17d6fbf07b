"""The root test: decoding with any tree gives plain decoding's text, token for token.

Batched, teacher-forced and thin matrix products round differently, so a divergence is excused where the two best
scores lie within 1e-4 of each other in float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from treeopt.decode import GREEDY, PositionNoise, Sampled
from treeopt.measure.encode import EncodedPrompt
from treeopt.model.backbone import Backbone

EXCUSED_MARGIN = 1e-4


@dataclass(frozen=True)
class Divergence:
    """Where an answer first differs from plain decoding's, and how far apart the two best scores lie there.

    `id` is the prompt's, with the turn for follow-ups.
    """

    id: str
    position: int
    margin: float

    @property
    def excused(self) -> bool:
        """Whether rounding alone explains it: the two best scores were within EXCUSED_MARGIN."""
        return self.margin <= EXCUSED_MARGIN


def first_divergence(
    backbone: Backbone,
    prompt: EncodedPrompt,
    plain: Sequence[int],
    other: Sequence[int],
    rule: Sampled = GREEDY,
    noise: PositionNoise | None = None,
) -> Divergence | None:
    """None where the answers agree; else the first position that differs and the margin of plain decoding there.

    The margin is how far apart the two best scores lie, or how near the filters are to keeping other tokens.
    """
    if list(plain) == list(other):
        return None
    pairs = zip(plain, other, strict=False)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(plain), len(other)))
    with torch.inference_mode():
        ids = torch.tensor([[*prompt.ids, *plain[:position]]], device=backbone.device)
        logits = backbone.logits(backbone.states(ids, use_cache=False)[0, -1]).float()
        row = None if noise is None else torch.from_numpy(noise.row(prompt.key, position)).to(logits.device)
        best = rule.scores(logits, row).topk(2).values
        margin = min(float(best[0] - best[1]), rule.edge(logits))
    return Divergence(prompt.key, position, margin)
