"""transformers' own `generate`, timed token by token: the other plain decoding there is."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

from treeopt.model.backbone import Backbone

Adjust = Callable[[torch.Tensor, int], torch.Tensor]


@torch.inference_mode()
def timed_generate(
    backbone: Backbone, prompt: Sequence[int], max_new_tokens: int, adjust: Adjust | None = None
) -> tuple[list[int], list[float]]:
    """The answer's token ids, and the time in seconds at which each came out.

    Greedy over `adjust(scores [1, V], answer position)`, so position-keyed sampling is had here too.
    """
    model, clock = backbone.model, _Clock()
    ids = torch.tensor([list(prompt)], device=backbone.device)
    processors = LogitsProcessorList([_Adjusted(adjust, len(prompt))] if adjust else [])
    greedy = GenerationConfig(
        max_new_tokens=max_new_tokens, eos_token_id=sorted(backbone.end_tokens) or None, pad_token_id=0
    )
    own, model.generation_config = (
        model.generation_config,
        GenerationConfig(),
    )  # its penalties change the text
    try:
        output: Any = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=greedy,
            logits_processor=processors,
            streamer=clock,
        )
    finally:
        model.generation_config = own
    return output[0, len(prompt) :].tolist(), clock.times


class _Clock(BaseStreamer):
    """Notes when tokens arrive; the first call hands over the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._prompt = True

    def put(self, value: torch.Tensor) -> None:
        """Take a token that was generated."""
        if not self._prompt:
            self.times.append(time.perf_counter())
        self._prompt = False

    def end(self) -> None:
        """Take the end."""


class _Adjusted(LogitsProcessor):
    """`adjust` as transformers wants it."""

    def __init__(self, adjust: Adjust, prompt_length: int) -> None:
        self.adjust, self.prompt_length = adjust, prompt_length

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return self.adjust(scores, input_ids.shape[1] - self.prompt_length)  # type: ignore[return-value]
