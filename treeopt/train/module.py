"""What is trained: heads on a backbone, as one module, so that gradients, devices and checkpoints just follow."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from treeopt.measure.states import UNKNOWN
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads, rank_of
from treeopt.train.losses import cross_entropy_sum, distillation_sum


class HeadsOnBackbone(nn.Module):
    """K heads on a backbone that is frozen (Medusa-1) or, with `joint`, trained with them (Medusa-2).

    With `teacher`, the backbone learns to stay near the same weights with their adapter off, instead of the answers.
    """

    def __init__(
        self, backbone: Backbone, heads: MedusaHeads, *, joint: bool = False, teacher: bool = False
    ) -> None:
        super().__init__()
        self.model: Any = backbone.model
        self.heads = heads
        self.joint, self.teacher = joint, teacher
        self._backbone = [backbone]  # in a list, as its model is a submodule already

    def forward(
        self,
        truths: torch.Tensor,
        tokens: torch.Tensor | None = None,
        rows: torch.Tensor | None = None,
        states: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Sums over the known truths of a batch (see `train.data`), each [K + 1] with the backbone first.

        `loss`: cross-entropy, or for the backbone in training its distance to the teacher (0 where it is frozen). In
        evaluation mode also `top1` and `top5`: truths among the first and the first five guesses.
        """
        hidden = self._states(tokens, rows) if states is None else states
        learn = self.joint and torch.is_grad_enabled()
        loss, logits = [], []
        with torch.set_grad_enabled(learn):
            if self.joint and self.training and self.teacher:
                assert tokens is not None and rows is not None
                loss.append(self._distance(hidden, tokens, rows))
            elif self.joint or not self.training:
                own = self._backbone[0].logits(hidden)
                loss.append(cross_entropy_sum(own, truths[0]))
                logits.append(own)
            else:
                loss.append(truths.new_zeros((), dtype=torch.float32))
        features = self.heads.features(hidden.to(self.heads.weight.dtype))
        for head, truth in enumerate(truths[1:]):
            guesses = self.heads.logits(features[head], head)
            loss.append(cross_entropy_sum(guesses, truth))
            logits.append(guesses)
        sums = {"loss": torch.stack(loss)}
        return sums if self.training else sums | _hits(logits, truths)

    def train(self, mode: bool = True) -> "HeadsOnBackbone":
        """Training mode, of the backbone only where it is trained: a frozen one has no dropout."""
        super().train(mode)
        self.model.train(mode and self.joint)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """What is trained and nothing else: that is what a checkpoint needs."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}

    def _states(self, tokens: torch.Tensor | None, rows: torch.Tensor | None) -> torch.Tensor:
        """Hidden states [P, H] of the answer rows."""
        assert tokens is not None and rows is not None
        with torch.set_grad_enabled(self.joint and torch.is_grad_enabled()):
            return self._backbone[0].states(tokens, use_cache=False).flatten(0, 1)[rows]

    def _distance(self, hidden: torch.Tensor, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """KL(teacher || student) at the answer rows."""
        backbone = self._backbone[0]
        with torch.no_grad(), _evaluating(self.model), adapter_off(self.model):
            teacher = backbone.logits(backbone.states(tokens, use_cache=False).flatten(0, 1)[rows])
        return distillation_sum(backbone.logits(hidden), teacher)


def _hits(logits: list[torch.Tensor], truths: torch.Tensor) -> dict[str, torch.Tensor]:
    """How many known truths are the first guess, and among the first five."""
    top1, top5 = [], []
    for guesses, truth in zip(logits, truths, strict=True):
        known = truth != UNKNOWN
        ranks = rank_of(guesses[known], truth[known])
        top1.append((ranks < 1).sum())
        top5.append((ranks < 5).sum())
    return {"top1": torch.stack(top1), "top5": torch.stack(top5)}


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while: the teacher has no dropout."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


@contextmanager
def adapter_off(model: nn.Module) -> Iterator[None]:
    """The model's own weights, without the LoRA layers wrapped around them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
