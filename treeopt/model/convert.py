"""Medusa heads from one layout into another, and what a runtime would miss in a file as it is."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from treeopt.errors import InputError, UnsupportedError
from treeopt.model.checkpoints import StoredHeads, require_counts, require_fit, write_heads
from treeopt.model.layouts import ABSENT, Layout, entry
from treeopt.model.spellings import LMHead

if TYPE_CHECKING:
    from treeopt.model.backbone import Backbone

NEAREST: Mapping[LMHead, tuple[LMHead, ...]] = {
    "own": ("own", "shared"),
    "common": ("common", "own", "shared"),
    "shared": ("shared", "common", "own"),
}
"""What LM heads may become, the best first; heads of their own become shared only where they are the backbone's."""


def lm_head_in(layout: Layout, stored: StoredHeads) -> LMHead:
    """Which LM heads these heads have once they are in `layout`. UnsupportedError when it takes none such."""
    layers = stored.shape.layers
    for kind in NEAREST[stored.shape.lm_head]:
        if kind in layout.takes and (layout.takes[kind] or layers) >= layers:
            break
    else:
        raise UnsupportedError(f"{layout.name}: takes heads of one layer, {stored.file} has {layers}")
    if layout.one_block and not _layers_are_alike(stored):
        raise UnsupportedError(
            f"{layout.name}: applies one layer again and again, but the {layers} of {stored.file} differ"
        )
    return kind


def needs_backbone(layout: Layout, stored: StoredHeads) -> bool:
    """Whether the backbone's LM head is to be written out, or compared with those in the file."""
    before, after = stored.shape.lm_head, lm_head_in(layout, stored)
    return before != after and "shared" in (before, after)


def convert(
    stored: StoredHeads,
    layout: Layout,
    directory: Path,
    *,
    backbone: "Backbone | None" = None,
    base_model: str = "",
    dtype: torch.dtype | None = None,
) -> Path:
    """Write heads in another layout: the same logits, in `dtype` or their own; the path of their file.

    `base_model` names the backbone for a config.json, where the one beside the heads does not.
    Errors: InputError when the backbone, or its name, is needed but not given, or the place cannot be written;
    MismatchError when it is another; UnsupportedError when the layout cannot express the heads.
    """
    require_counts(stored)
    kind, tensors = lm_head_in(layout, stored), dict(stored.tensors)
    known = stored.config.get("base_model_name_or_path")
    base_model = base_model or (known if isinstance(known, str) else "")
    if layout.base_model and not base_model:
        beside = stored.file.with_name("config.json")
        told = f"{beside} does not say" if beside.is_file() else f"no {beside} says"
        raise InputError(f"{told} of which model the heads are; {layout.name} needs its name, --model")
    vocabulary = stored.shape.vocabulary
    if needs_backbone(layout, stored):
        if backbone is None:
            raise InputError(f"{stored.file}: {_wanted(layout, kind)}; name their model with --model")
        require_fit(stored, backbone)
        lm_weight = _lm_weight(backbone).to(tensors["0.0.linear.weight"].dtype)
        names = [f"{h}.{stored.shape.layers}.weight" for h in range(stored.shape.heads)]
        if kind == "shared":
            _require_same(stored, layout, names, lm_weight, backbone.name)
            vocabulary = None
        else:
            tensors |= dict.fromkeys(names, lm_weight)
            vocabulary = len(lm_weight)
    shape = replace(stored.shape, lm_head=kind, vocabulary=vocabulary)
    return write_heads(directory, layout, shape, tensors, base_model=base_model, dtype=dtype)


def lacks(layout: Layout, stored: StoredHeads) -> list[str]:
    """What a runtime would miss in these files as they are; nothing where it reads them right."""
    shape, kind = stored.shape, stored.shape.lm_head
    found = []
    if stored.spelling is not layout.spelling:
        found.append(f"keys like {layout.spelling.example()}")
    if stored.file.name not in layout.files:
        found.append(f"the file name {layout.files[0]}")
    if kind not in layout.takes:
        found.append("the backbone's LM head for all" if "shared" in layout.takes else _in_file(layout))
    elif (layout.takes[kind] or shape.layers) < shape.layers:
        found.append("heads of one layer" + (" or LM heads of their own" if kind == "shared" else ""))
    if layout.one_block and not _layers_are_alike(stored):
        found.append("layers that are alike, as it applies one again and again")
    return found + _lacks_in_config(layout, stored)


def _lacks_in_config(layout: Layout, stored: StoredHeads) -> list[str]:
    wanted: dict[str, Any] = layout.config(stored.shape)
    has = stored.config
    wrong = [name for name, value in wanted.items() if value is not None and has.get(name, ABSENT) != value]
    if layout.base_model and not has.get("base_model_name_or_path"):
        wrong.append("base_model_name_or_path")
    extra = [name for name in layout.forbidden if entry(has, name) is not ABSENT]
    found = [f"config.json with {', '.join(wrong)}"] if wrong else []
    return found + ([f"config.json without {', '.join(extra)}"] if extra else [])


def _in_file(layout: Layout) -> str:
    return "an LM head in the file" if "common" in layout.takes else "an LM head for each head"


def _wanted(layout: Layout, kind: LMHead) -> str:
    if kind == "shared":
        return f"{layout.name} has no LM heads of their own, so they have to be the model's"
    return f"{layout.name} wants {_in_file(layout)}, and these share their model's"


def _layers_are_alike(stored: StoredHeads) -> bool:
    return all(
        torch.equal(stored.tensors[f"{h}.0.linear.{part}"], stored.tensors[f"{h}.{layer}.linear.{part}"])
        for h in range(stored.shape.heads)
        for layer in range(1, stored.shape.layers)
        for part in ("weight", "bias")
    )


def _lm_weight(backbone: "Backbone") -> torch.Tensor:
    """The weight [V, H] of the LM head; UnsupportedError where that is not all there is to it."""
    head = backbone.lm_head
    weight, bias = getattr(head, "weight", None), getattr(head, "bias", None)
    plain = isinstance(weight, torch.Tensor) and weight.shape == (backbone.vocabulary, backbone.hidden_size)
    if weight is None or bias is not None or not plain:
        raise UnsupportedError(
            f"{backbone.name}: its LM head is more than a [V, H] weight, which is all that heads can have"
        )
    return weight.detach().cpu()


def _require_same(
    stored: StoredHeads, layout: Layout, names: list[str], lm_weight: torch.Tensor, model: str
) -> None:
    for name in names:
        if not torch.equal(stored.tensors[name], lm_weight):
            raise UnsupportedError(
                f"{layout.name}: has no LM heads of their own, but {name} of {stored.file} is not the one of {model}"
            )
