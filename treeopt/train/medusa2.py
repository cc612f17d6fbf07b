"""Medusa-2: heads and backbone together, in two stages (Cai et al. 2024, sections 2.2.2 and 2.3.2)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from treeopt.errors import InputError, UnsupportedError
from treeopt.measure.generations import Generation
from treeopt.model.adapter import attach_lora
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.model.sources import is_quantised
from treeopt.train.data import Answers
from treeopt.train.medusa1 import HeadSettings, finished, new_heads, prepare, warm_up
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.processes import part, world_size
from treeopt.train.run import fit
from treeopt.train.trainer import LoopSettings


@dataclass(frozen=True)
class LoraSettings:
    """The adapter's rank, scale and dropout; the paper's."""

    rank: int = 32
    alpha: int = 16
    dropout: float = 0.05


def train_medusa2(
    backbone: Backbone,
    generations: Sequence[Generation],
    shape: HeadSettings,
    warmup: LoopSettings | None,
    joint: LoopSettings,
    directory: Path,
    *,
    lora: LoraSettings | None,
    self_distill: bool = False,
    precompute: bool = True,
    overwrite: bool = False,
) -> tuple[MedusaHeads, Any]:
    """Warm the heads up with the backbone frozen, then train both; without `warmup`, both from the start.

    L = L_LM + lambda_0 * L_1. With `lora` the backbone learns through an adapter, which is returned as peft's model;
    without, all its weights do, in place, and None is returned. With `self_distill`, L_LM is KL(p_teacher || p), the
    teacher being the same weights with the adapter off.

    `backbone` has to be loaded with `differentiate="everything"`. `directory` as in `train_medusa1`. Errors: those
    of `train_medusa1`; InputError for self-distillation without an adapter; UnsupportedError for a quantised
    backbone where that cannot be right.
    """
    _require_trainable(backbone, lora, self_distill=self_distill)
    if precompute and world_size() > 1:
        raise InputError("hidden states are computed by one process only; with several, take --no-precompute")
    settings = {
        "warmup": asdict(warmup) if warmup else None,
        "joint": asdict(joint),
        "lora": asdict(lora) if lora else None,
        "self_distill": self_distill,
    }
    split = prepare(backbone, generations, shape, joint, directory, settings, overwrite=overwrite)
    heads = new_heads(backbone, shape)
    if warmup is not None:
        warm_up(backbone, heads, split, warmup, directory, precompute=precompute, stage="warmup")
    adapter = None
    if lora is None:
        backbone.model.requires_grad_(True)
    else:
        torch.manual_seed(joint.seed)
        adapter = attach_lora(backbone.model, rank=lora.rank, alpha=lora.alpha, dropout=lora.dropout)
    fit(
        HeadsOnBackbone(backbone, heads, joint=True, teacher=self_distill),
        joint,
        directory / "joint",
        Answers(split.train, shape.heads),
        Answers(split.held_out, shape.heads),
        log=directory / "log.jsonl",
        stage="joint",
        device=backbone.device,
    )
    part()
    backbone.model.requires_grad_(False).eval()
    return finished(heads, backbone), adapter


def _require_trainable(backbone: Backbone, lora: LoraSettings | None, *, self_distill: bool) -> None:
    """Errors for what cannot be right, with the reason."""
    if self_distill and lora is None:
        raise InputError(
            "--self-distill needs an adapter, which is switched off to be the teacher; drop --full"
        )
    quantised = is_quantised(backbone.model)
    if quantised and self_distill:
        raise UnsupportedError(
            f"{backbone.name}: quantised, so the teacher would be the rounded model and the student be drawn to its"
            " errors; self-distil the unquantised model"
        )
    if quantised and backbone.device.type == "cpu":
        raise UnsupportedError(
            f"{backbone.name}: quantised, and bitsandbytes has no gradients for the CPU; train the unquantised model"
        )
    if quantised and lora is None:
        raise UnsupportedError(f"{backbone.name}: quantised weights cannot be trained; drop --full")
