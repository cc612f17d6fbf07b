"""Medusa heads on disk, in any layout of `layouts`, read and written strictly.

`config.json` beside the file counts heads and layers, but published ones under-state the heads, so the keys decide.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from treeopt.artifact import load_json, write_text
from treeopt.errors import InputError, MismatchError
from treeopt.model.heads import MedusaHeads
from treeopt.model.layouts import LAYOUTS, Layout, counted
from treeopt.model.spellings import (
    FILE_NAMES,
    LMHead,
    Shape,
    Spelling,
    recognise,
    some_of,
)
from treeopt.model.tensor_files import checked, load_torch, read_tensors, sha256_of, write_tensors

if TYPE_CHECKING:
    from treeopt.model.backbone import Backbone


@dataclass(frozen=True)
class StoredHeads:
    """Heads as a file has them, whatever their layout: `tensors` by their FasterDecoding names, on the CPU.

    An LM head for all heads is the same tensor under the name of each.
    """

    file: Path
    spelling: Spelling
    shape: Shape
    tensors: dict[str, torch.Tensor]
    config: dict[str, Any]

    @property
    def dtypes(self) -> list[str]:
        """The types of its tensors."""
        return sorted({str(tensor.dtype).removeprefix("torch.") for tensor in self.tensors.values()})

    @property
    def bytes(self) -> int:
        """Size of all tensors."""
        return sum(
            tensor.nbytes for tensor in {id(tensor): tensor for tensor in self.tensors.values()}.values()
        )

    def contradictions(self) -> list[str]:
        """Where config.json counts other than the keys do."""
        where, shape = self.file.with_name("config.json"), self.shape
        said = zip(
            ("heads", "layers"),
            (shape.heads, shape.layers),
            counted(where, self.config, self.spelling),
            strict=True,
        )
        return [
            f"{name} is {number} in config.json, but the file has {true} {what}"
            for what, true, numbers in said
            for name, number in numbers.items()
            if number != true
        ]


def read_heads(path: str | Path) -> StoredHeads:
    """Read heads of any layout from a directory or file, strictly.

    Errors: InputError listing the keys that are missing, unknown or of the wrong shape. That config.json counts
    otherwise is not one of them.
    """
    file = find_heads(Path(path))
    found = read_tensors(file)
    spelling, heads, layers, lm_head = recognise(file, found)
    names = spelling.of(heads, layers, lm_head)
    hidden_size = found[names["0.0.linear.weight"]].shape[-1:].numel()
    vocabulary = None
    if lm_head != "shared":
        vocabulary = found[names[f"0.{layers}.weight"]].shape[:1].numel()
    shapes = {".linear.weight": (hidden_size, hidden_size), ".linear.bias": (hidden_size,)}
    tensors = {}
    for name, stored in names.items():
        shape = next(
            (shape for end, shape in shapes.items() if name.endswith(end)), (vocabulary, hidden_size)
        )
        if stored in found:
            tensors[name] = checked(file, found, stored, shape)
        else:  # biases that a spelling may leave out
            tensors[name] = torch.zeros(hidden_size, dtype=found[names["0.0.linear.weight"]].dtype)
    return StoredHeads(
        file, spelling, Shape(heads, layers, hidden_size, vocabulary, lm_head), tensors, read_config(file)
    )


def require_counts(stored: StoredHeads) -> None:
    """InputError, naming keys that are missing, where config.json counts more heads or layers than there are."""
    shape, config = stored.shape, stored.file.with_name("config.json")
    for what, true, numbers in zip(
        ("heads", "layers"),
        (shape.heads, shape.layers),
        counted(config, stored.config, stored.spelling),
        strict=True,
    ):
        for name, number in numbers.items():
            if number > true:
                more = {"heads": shape.heads, "layers": shape.layers} | {what: true + 1}
                wanted = stored.spelling.of(**more, lm_head=shape.lm_head)
                known = stored.spelling.of(shape.heads, shape.layers, shape.lm_head)
                missing = sorted(set(wanted.values()) - set(known.values()))
                raise InputError(
                    f"{stored.file}: incomplete heads; {config.name} says {name} {number}, but the file has {true}"
                    f" {what}, and is missing {some_of(missing)}"
                )


def load_heads(path: str | Path, backbone: "Backbone") -> MedusaHeads:
    """Read heads from a directory or file and put them beside `backbone`, in its dtype and on its device.

    Errors: as `read_heads`, and InputError where config.json counts more heads than there are; MismatchError when
    the heads are for another hidden size or vocabulary.
    """
    stored = read_heads(path)
    require_counts(stored)
    require_fit(stored, backbone)
    shape, tensors = stored.shape, stored.tensors
    weight, bias = (
        torch.stack(
            [
                torch.stack([tensors[f"{h}.{layer}.linear.{part}"] for h in range(shape.heads)])
                for layer in range(shape.layers)
            ]
        )
        for part in ("weight", "bias")
    )
    lm_weight = None
    if shape.lm_head != "shared":
        lm_weight = torch.stack([tensors[f"{h}.{shape.layers}.weight"] for h in range(shape.heads)])
    module = MedusaHeads(weight, bias, lm_weight, project=None if lm_weight is not None else backbone.logits)
    module = module.to(device=backbone.device, dtype=backbone.dtype).requires_grad_(False).eval()
    module.sha256 = sha256_of(stored.file)
    return module


def require_fit(stored: StoredHeads, backbone: "Backbone") -> None:
    """MismatchError when heads are for another hidden size or vocabulary than the backbone's."""
    shape = stored.shape
    if shape.hidden_size != backbone.hidden_size:
        raise MismatchError(
            f"{stored.file}: heads of hidden size {shape.hidden_size}, but {backbone.name} has"
            f" {backbone.hidden_size}"
        )
    if shape.vocabulary not in (None, backbone.vocabulary):
        raise MismatchError(
            f"{stored.file}: LM heads over {shape.vocabulary} ids, but {backbone.name} has {backbone.vocabulary}"
        )


def save_heads(
    directory: str | Path, heads: MedusaHeads, *, base_model: str, dtype: torch.dtype | None = None
) -> Path:
    """Write `medusa_lm_head.safetensors` and `config.json`, shared layout or own as the heads are; the file's path.

    Errors: InputError when the place cannot be written, or a value is no finite number in `dtype`.
    """
    tensors = {}
    for h in range(heads.heads):
        for layer in range(heads.layers):
            tensors[f"{h}.{layer}.linear.weight"] = heads.weight[layer, h]
            tensors[f"{h}.{layer}.linear.bias"] = heads.bias[layer, h]
        if heads.lm_weight is not None:
            tensors[f"{h}.{heads.layers}.weight"] = heads.lm_weight[h]
    lm_head: LMHead = "shared" if heads.lm_weight is None else "own"
    vocabulary = None if heads.lm_weight is None else heads.lm_weight.shape[1]
    shape = Shape(heads.heads, heads.layers, heads.weight.shape[-1], vocabulary, lm_head)
    return write_heads(Path(directory), LAYOUTS["tgi"], shape, tensors, base_model=base_model, dtype=dtype)


def write_heads(
    directory: Path,
    layout: Layout,
    shape: Shape,
    tensors: dict[str, torch.Tensor],
    *,
    base_model: str,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write `tensors`, by their FasterDecoding names, in a layout that takes such heads; the path of their file.

    Each tensor gets memory of its own. Errors: InputError as for `save_heads`.
    """
    file = directory / layout.files[0]
    names = layout.spelling.of(shape.heads, shape.layers, shape.lm_head)
    renamed = {stored: tensors[name] for name, stored in names.items()}
    renamed = {name: value.detach().to("cpu", dtype).contiguous().clone() for name, value in renamed.items()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in renamed.values()):
        kind = dtype or next(iter(tensors.values())).dtype
        raise InputError(f"{file}: not written, as values are no finite numbers in {kind}")
    write_tensors(file, renamed)
    config = layout.config(shape)
    if layout.base_model:
        config["base_model_name_or_path"] = base_model
        config |= {"version": "2"} if shape.lm_head == "shared" else {}
    if config:
        write_text(directory / "config.json", json.dumps(config, indent=2) + "\n")
    return file


def read_heads_accuracy(path: str | Path) -> list[np.ndarray]:
    """The reference tool's `*_heads_accuracy.pt`: for each head, booleans [trials, ranks], was it the i-th guess."""
    content = load_torch(Path(path))
    if not isinstance(content, list) or not all(isinstance(t, torch.Tensor) and t.ndim == 2 for t in content):
        raise InputError(f"{path}: expected a list with one [trials, ranks] tensor a head")
    return [tensor.bool().numpy() for tensor in content]


def find_heads(path: Path) -> Path:
    """The heads' file: `path` itself, or the one of the known names in that directory."""
    if path.is_file():
        return path
    for name in FILE_NAMES:
        if (path / name).is_file():
            return path / name
    raise InputError(f"{path}: no Medusa heads there (looked for {', '.join(FILE_NAMES)})")


def read_config(file: Path) -> dict[str, Any]:
    """The `config.json` beside a heads file, or nothing."""
    config = file.parent / "config.json"
    content = load_json(config) if config.is_file() else {}
    return content if isinstance(content, dict) else {}
