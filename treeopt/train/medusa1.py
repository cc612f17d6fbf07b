"""`treeopt train medusa1`: heads on a frozen backbone, from its own answers (Cai et al. 2024, section 2.2.1).

The backbone's hidden states are computed once and kept in memory; training then runs the heads alone.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.measure.states import UNKNOWN, answer_states, answer_truths, batches
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads, rank_of
from treeopt.train.losses import medusa1_loss


@dataclass(frozen=True)
class Medusa1Settings:
    """What a run of Medusa-1 needs besides its data. `batch_size` counts positions, `held_out` a share of prompts."""

    heads: int = 5
    layers: int = 1
    epochs: int = 4
    learning_rate: float = 1e-3
    batch_size: int = 1024
    warmup: float = 0.05
    held_out: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Examples:
    """Hidden states [P, H] of answer rows and the truths [K, P] that heads learn there."""

    states: torch.Tensor
    truths: torch.Tensor


def train_medusa1(
    backbone: Backbone, generations: Sequence[Generation], settings: Medusa1Settings, log: Path | None = None
) -> MedusaHeads:
    """Train heads with a shared LM head; the backbone stays as it is, bit for bit.

    AdamW, cosine schedule after a linear warm-up. With `log`, a JSON line of settings and one an epoch: loss and
    top-1 of each head on training batches, loss, top-1 and top-5 on the held-out prompts.
    Errors: InputError when no answer is long enough to teach a head.
    """
    torch.manual_seed(settings.seed)
    usable = [generation for generation in generations if len(generation.answer_ids) > 1]
    held = int(len(usable) * settings.held_out)
    order = torch.randperm(len(usable)).tolist()
    if len(usable) - held < 1:
        raise InputError(
            "no answer has two tokens or more, so there is nothing for a head to learn; generate more"
        )
    test = collect(backbone, [usable[i] for i in order[:held]], settings.heads) if held else None
    train = collect(backbone, [usable[i] for i in order[held:]], settings.heads)
    backbone.model.requires_grad_(False)
    heads = MedusaHeads.untrained(
        settings.heads,
        settings.layers,
        backbone.hidden_size,
        lambda states: backbone.logits(states.to(backbone.dtype)),
    ).to(backbone.device)
    positions = len(train.states)
    steps = settings.epochs * math.ceil(positions / settings.batch_size)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: cosine(step, steps, settings.warmup))
    _write(
        log,
        asdict(settings)
        | {
            "model": backbone.name,
            "model_sha256": backbone.sha256,
            "answers": len(usable) - held,
            "held_out_answers": held,
            "skipped_answers": len(generations) - len(usable),
            "positions": positions,
            "steps": steps,
        },
    )
    with tqdm(total=steps, desc="train medusa1", unit="step", disable=None) as progress:
        for epoch in range(1, settings.epochs + 1):
            losses = []
            for rows in torch.randperm(positions, device=backbone.device).split(settings.batch_size):
                loss, per_head = medusa1_loss(heads(train.states[rows].float()), train.truths[:, rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(per_head)
                progress.update()
            record = {"epoch": epoch, "train_loss": _rounded(torch.stack(losses).mean(0))}
            if test is not None:
                record |= held_out_figures(heads, test, settings.batch_size)
            _write(log, record)
    return heads.to(backbone.dtype).requires_grad_(False).eval()


def collect(backbone: Backbone, generations: Sequence[Generation], heads: int) -> Examples:
    """Hidden states and truths of all answer rows that have at least one truth."""
    parts = [
        (answer_states(backbone, batch), answer_truths(batch, heads).to(backbone.device))
        for batch in tqdm(list(batches(generations)), desc="hidden states", unit="batch", disable=None)
    ]
    states, truths = torch.cat([s for s, _ in parts]), torch.cat([t for _, t in parts], dim=1)
    known = truths[0] != UNKNOWN  # head 1 is the last to run out of truths
    return Examples(states[known], truths[:, known])


@torch.inference_mode()
def held_out_figures(
    heads: MedusaHeads, examples: Examples, batch_size: int
) -> dict[str, list[float | None]]:
    """Loss, top-1 and top-5 accuracy of each head, each over its own known truths; None for a head without any."""
    trials = (examples.truths != UNKNOWN).sum(1)
    loss, top1, top5 = (torch.zeros(len(trials), device=trials.device) for _ in range(3))
    for rows in torch.arange(len(examples.states), device=trials.device).split(batch_size):
        logits, truths = heads(examples.states[rows].float()), examples.truths[:, rows]
        known = truths != UNKNOWN
        loss += medusa1_loss(logits, truths)[1] * known.sum(1)
        ranks = rank_of(logits, truths.clamp(min=0))
        top1 += ((ranks < 1) & known).sum(1)
        top5 += ((ranks < 5) & known).sum(1)
    figures = {"loss": loss, "top1": top1, "top5": top5}
    return {f"held_out_{name}": _rounded(total / trials) for name, total in figures.items()}


def cosine(step: int, steps: int, warmup: float) -> float:
    """Share of the peak learning rate: linear up over the `warmup` share of all steps, then a half cosine down."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def _rounded(values: torch.Tensor) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 5) for value in values.tolist()]


def _write(log: Path | None, record: dict[str, object]) -> None:
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(json.dumps(record) + "\n")
