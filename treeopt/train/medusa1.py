"""Medusa-1: heads on a frozen backbone, from its own answers (Cai et al. 2024, section 2.2.1)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import append_line
from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.model.sources import is_quantised
from treeopt.train.data import Answers, Split, prompts_sha256, split_answers
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.processes import is_main_process, part, world_size
from treeopt.train.run import claim, fit
from treeopt.train.states_file import StatesFile, answers_sha256
from treeopt.train.trainer import LoopSettings


@dataclass(frozen=True)
class HeadSettings:
    """What heads to train, and on which share of the prompts to judge them."""

    heads: int = 5
    layers: int = 1
    own_lm_head: bool = False
    held_out: float = 0.05


def train_medusa1(
    backbone: Backbone,
    generations: Sequence[Generation],
    shape: HeadSettings,
    loop: LoopSettings,
    directory: Path,
    *,
    precompute: bool = True,
    overwrite: bool = False,
) -> MedusaHeads:
    """Train heads; the backbone stays as it is, bit for bit.

    `directory` holds the log (`log.jsonl`) and what an interrupted run goes on from. With `precompute`, the backbone's
    hidden states are computed once and kept there; the losses are those of the direct way. Only the backbone's LM
    head need be differentiable (`Backbone.load(differentiate="head")`).

    Errors: InputError when no answer is long enough to teach a head; MismatchError when `directory` has another
    run's checkpoints, which `overwrite` clears away.
    """
    if precompute and world_size() > 1:
        raise InputError("hidden states are computed by one process only; with several, take --no-precompute")
    settings = {"loop": asdict(loop)}
    split = prepare(backbone, generations, shape, loop, directory, settings, overwrite=overwrite)
    heads = new_heads(backbone, shape)
    warm_up(backbone, heads, split, loop, directory, precompute=precompute, stage="medusa1")
    part()
    return finished(heads, backbone)


def require_precision(loop: LoopSettings, backbone: Backbone) -> None:
    """InputError for products that the backbone's device cannot train with."""
    if loop.precision == "float16" and backbone.device.type == "cpu":
        raise InputError("--precision float16 needs a GPU; take bfloat16")


def prepare(
    backbone: Backbone,
    generations: Sequence[Generation],
    shape: HeadSettings,
    loop: LoopSettings,
    directory: Path,
    settings: dict[str, Any],
    *,
    overwrite: bool,
) -> Split:
    """Split the answers, see that `directory` is this run's, and begin its log with the settings and counts."""
    require_precision(loop, backbone)
    split = split_answers(
        generations,
        heads=shape.heads,
        held_out=shape.held_out,
        context_limit=backbone.context_limit,
        seed=loop.seed,
    )
    facts = asdict(shape) | {
        "model": backbone.name,
        "model_sha256": backbone.sha256,
        "dtype": backbone.dtype_name,
        "quantised": is_quantised(backbone.model),
        "answers": len(split.train),
        "held_out_answers": len(split.held_out),
        "skipped_answers": split.skipped,
        "answer_tokens": sum(len(g.answer_ids) for g in split.train),
        "answers_sha256": answers_sha256([*split.train, *split.held_out]),
        "processes": world_size(),
        **settings,
    }
    claim(directory, facts, overwrite=overwrite)
    log = directory / "log.jsonl"
    if is_main_process() and not log.is_file():
        append_line(log, facts | {"prompts_sha256": prompts_sha256(generations)})
    return split


def new_heads(backbone: Backbone, shape: HeadSettings) -> MedusaHeads:
    """Untrained heads in float32 beside the backbone."""
    own = shape.own_lm_head
    return MedusaHeads.untrained(
        shape.heads,
        shape.layers,
        backbone.hidden_size,
        project=None if own else lambda states: backbone.logits(states.to(backbone.dtype)),
        lm_weight=backbone.lm_head.weight.detach().float() if own else None,
    ).to(backbone.device)


def warm_up(
    backbone: Backbone,
    heads: MedusaHeads,
    split: Split,
    loop: LoopSettings,
    directory: Path,
    *,
    precompute: bool,
    stage: str,
) -> None:
    """Train `heads` in place with the backbone frozen."""
    backbone.model.requires_grad_(False)
    states = (
        StatesFile.of(directory / "states.bin", backbone, [*split.train, *split.held_out])
        if precompute
        else None
    )
    fit(
        HeadsOnBackbone(backbone, heads),
        loop,
        directory / stage,
        Answers(split.train, heads.heads, states),
        Answers(split.held_out, heads.heads, states, first=len(split.train)),
        log=directory / "log.jsonl",
        stage=stage,
        device=backbone.device,
    )


def finished(heads: MedusaHeads, backbone: Backbone) -> MedusaHeads:
    """Heads as they are used: in the backbone's dtype, without gradients."""
    return heads.to(backbone.dtype).requires_grad_(False).eval()
