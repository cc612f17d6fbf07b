"""What is trained: heads on a backbone, as one module, so that gradients, devices and checkpoints just follow."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from treeopt.measure.states import UNKNOWN
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads, rank_of
from treeopt.train.chunks import chunked_sum, chunks
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
        self._cast: torch.Tensor | None = None
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
        features = self.heads.features(hidden.to(self.heads.weight.dtype))
        self._cast = self._cast_lm_head()
        if not self.training:
            return self._judged(hidden, features, truths)
        own = truths.new_zeros((), dtype=torch.float32)
        if self.joint and self.teacher:
            assert tokens is not None and rows is not None
            own = self._distance(hidden, tokens, rows)
        elif self.joint:
            own = self._cross_entropy(0, hidden, truths[0])
        heads = [
            self._cross_entropy(head, features[head - 1], truths[head]) for head in range(1, len(truths))
        ]
        return {"loss": torch.stack([own, *heads])}

    def train(self, mode: bool = True) -> "HeadsOnBackbone":
        """Training mode, of the backbone only where it is trained: a frozen one has no dropout."""
        super().train(mode)
        self.model.train(mode and self.joint)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """What is trained and nothing else: that is what a checkpoint needs."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Take up what is trained; what is frozen is not missed."""
        found = super().load_state_dict(state_dict, strict=False)
        found.missing_keys[:] = [name for name in found.missing_keys if name in self.state_dict()]
        return found

    def _states(self, tokens: torch.Tensor | None, rows: torch.Tensor | None) -> torch.Tensor:
        """Hidden states [P, H] of the answer rows."""
        assert tokens is not None and rows is not None
        with torch.set_grad_enabled(self.joint and torch.is_grad_enabled()):
            return self._backbone[0].states(tokens, use_cache=False).flatten(0, 1)[rows]

    def _cast_lm_head(self) -> torch.Tensor | None:
        """A frozen LM head in autocast's number format, which autocast itself would cast again for every chunk."""
        lm_head, kind = self._backbone[0].lm_head, self._backbone[0].device.type
        if (
            type(lm_head) is nn.Linear
            and not lm_head.weight.requires_grad
            and torch.is_autocast_enabled(kind)
        ):
            return lm_head.weight.to(torch.get_autocast_dtype(kind))
        return None

    def _projection(self, head: int) -> tuple[Callable[[torch.Tensor], torch.Tensor], list[torch.Tensor]]:
        """[P, H] -> [P, V] of a head, or of the backbone for 0; and what of it is trained."""
        backbone, cast = self._backbone[0], self._cast
        if head > 0 and self.heads.lm_weight is not None:
            weight = self.heads.lm_weight[head - 1]
            return partial(nn.functional.linear, weight=weight), [weight]
        if cast is not None:
            return partial(nn.functional.linear, weight=cast, bias=backbone.lm_head.bias), []
        trained = [p for p in backbone.lm_head.parameters() if p.requires_grad]
        return lambda rows: backbone.logits(rows.to(backbone.dtype)), trained

    def _cross_entropy(self, head: int, features: torch.Tensor, truths: torch.Tensor) -> torch.Tensor:
        """Sum over the known truths [P]."""
        known = truths != UNKNOWN
        project, trained = self._projection(head)
        return chunked_sum(
            lambda rows, truth: cross_entropy_sum(project(rows), truth),
            self._backbone[0].vocabulary,
            features[known],
            truths[known],
            parameters=trained,
        )

    def _distance(self, hidden: torch.Tensor, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """KL(teacher || student) at the answer rows."""
        backbone = self._backbone[0]
        project, trained = self._projection(0)
        with self._as_teacher():
            taught = backbone.states(tokens, use_cache=False).flatten(0, 1)[rows]

        def loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
            with self._as_teacher():
                logits = backbone.logits(teacher)
            return distillation_sum(project(student), logits)

        return chunked_sum(loss, backbone.vocabulary, hidden, taught, parameters=trained)

    @contextmanager
    def _as_teacher(self) -> Iterator[None]:
        """The backbone as it was before: adapter off, no dropout, no gradients."""
        before = self.model.training
        self.model.eval()
        try:
            with torch.no_grad(), adapter_off(self.model):
                yield
        finally:
            self.model.train(before)

    def _judged(
        self, hidden: torch.Tensor, features: torch.Tensor, truths: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Cross-entropy, and how many known truths are the first guess, and among the first five."""
        sums = {name: torch.zeros(len(truths), device=truths.device) for name in ("loss", "top1", "top5")}
        for head, truth in enumerate(truths):
            known = truth != UNKNOWN
            rows = hidden if head == 0 else features[head - 1]
            project, _ = self._projection(head)
            for piece, right in chunks(self._backbone[0].vocabulary, rows[known], truth[known]):
                logits = project(piece)
                ranks = rank_of(logits, right)
                sums["loss"][head] += cross_entropy_sum(logits, right)
                sums["top1"][head] += (ranks < 1).sum()
                sums["top5"][head] += (ranks < 5).sum()
        return sums


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
