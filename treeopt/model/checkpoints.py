"""Medusa heads on disk, in the two layouts of the reference implementation, read strictly.

Own LM heads ("v0.1"): `{h}.{l}.linear.weight`, `{h}.{l}.linear.bias` and `{h}.{L}.weight` for head h, layers l < L.
Shared LM head ("version": "2"): the same without `{h}.{L}.weight`. `config.json` beside the file tells
`medusa_num_heads` and `medusa_num_layers`, but published ones under-state the heads, so the keys decide.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from treeopt.artifact import sha256_file
from treeopt.errors import InputError, MismatchError
from treeopt.model.heads import MedusaHeads

if TYPE_CHECKING:
    from treeopt.model.backbone import Backbone

FILE_NAMES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
KEY = re.compile(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)")


def load_heads(path: str | Path, backbone: "Backbone") -> MedusaHeads:
    """Read heads from a directory or file and put them beside `backbone`, in its dtype and on its device.

    Errors: InputError listing the keys that are missing, unknown or of the wrong shape; MismatchError when the
    heads are for another hidden size or vocabulary.
    """
    file = find_heads(Path(path))
    tensors = read_tensors(file)
    config = read_config(file)
    heads, layers = _extent(file, tensors)
    _require_keys(file, tensors, config, heads, layers)
    hidden_size = tensors["0.0.linear.weight"].shape[-1:].numel()
    if hidden_size != backbone.hidden_size:
        raise MismatchError(
            f"{file}: heads of hidden size {hidden_size}, but {backbone.name} has {backbone.hidden_size}"
        )
    weight = _stack(file, tensors, "{h}.{l}.linear.weight", heads, layers, (hidden_size, hidden_size))
    bias = _stack(file, tensors, "{h}.{l}.linear.bias", heads, layers, (hidden_size,))
    lm_weight = None
    if f"0.{layers}.weight" in tensors:
        vocabulary = tensors[f"0.{layers}.weight"].shape[:1].numel()
        if vocabulary != backbone.vocabulary:
            raise MismatchError(
                f"{file}: LM heads over {vocabulary} ids, but {backbone.name} has {backbone.vocabulary}"
            )
        names = [f"{h}.{layers}.weight" for h in range(heads)]
        lm_weight = torch.stack([checked(file, tensors, name, (vocabulary, hidden_size)) for name in names])
    module = MedusaHeads(weight, bias, lm_weight, project=None if lm_weight is not None else backbone.logits)
    module = module.to(device=backbone.device, dtype=backbone.dtype).requires_grad_(False).eval()
    module.sha256 = sha256_file(file)
    return module


def save_heads(
    directory: str | Path, heads: MedusaHeads, *, base_model: str, dtype: torch.dtype | None = None
) -> Path:
    """Write `medusa_lm_head.safetensors` and `config.json`, shared layout or own as the heads are; the file's path.

    Errors: InputError when the place cannot be written, or a value is no finite number in `dtype`.
    """
    directory = Path(directory)
    tensors = {}
    for h in range(heads.heads):
        for layer in range(heads.layers):
            tensors[f"{h}.{layer}.linear.weight"] = heads.weight[layer, h]
            tensors[f"{h}.{layer}.linear.bias"] = heads.bias[layer, h]
        if heads.lm_weight is not None:
            tensors[f"{h}.{heads.layers}.weight"] = heads.lm_weight[h]
    tensors = {name: value.detach().to("cpu", dtype).contiguous().clone() for name, value in tensors.items()}
    file = directory / FILE_NAMES[0]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise InputError(
            f"{file}: not written, as values are no finite numbers in {dtype or heads.weight.dtype}"
        )
    temporary = file.with_suffix(".tmp")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        save_file(tensors, temporary)
        temporary.replace(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{file}: cannot be written ({error}); choose another place") from error
    config: dict[str, Any] = {
        "medusa_num_heads": heads.heads,
        "medusa_num_layers": heads.layers,
        "base_model_name_or_path": base_model,
    }
    if heads.lm_weight is None:
        config["version"] = "2"
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return file


def read_heads_accuracy(path: str | Path) -> list[np.ndarray]:
    """The reference tool's `*_heads_accuracy.pt`: for each head, booleans [trials, ranks], was it the i-th guess."""
    content = _torch_load(Path(path))
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
    raise InputError(f"{path}: no Medusa heads there (looked for {' and '.join(FILE_NAMES)})")


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file by name, on the CPU."""
    if file.suffix in (".pt", ".bin"):
        content = _torch_load(file)
        if not isinstance(content, dict) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
        ):
            raise InputError(f"{file}: expected a dictionary of tensors by name")
        return content
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from error


def read_config(file: Path) -> dict[str, Any]:
    """The `config.json` beside a heads file, or nothing."""
    config = file.parent / "config.json"
    if not config.is_file():
        return {}
    try:
        content = json.loads(config.read_text())
    except ValueError as error:
        raise InputError(f"{config}: not JSON ({error})") from error
    content = content if isinstance(content, dict) else {}
    for name in ("medusa_num_heads", "medusa_num_layers"):
        if type(content.get(name, 0)) is not int:
            raise InputError(f"{config}: {name} is {content[name]!r}; it is a whole number")
    return content


def _torch_load(file: Path) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except Exception as error:  # garbage makes the unpickler fail in any way
        raise InputError(f"{file}: not a file of tensors (read with weights_only)") from error


def _extent(file: Path, tensors: dict[str, torch.Tensor]) -> tuple[int, int]:
    """Number of heads and of residual layers, by the keys alone."""
    found = [match for name in tensors if (match := KEY.fullmatch(name))]
    linear = [match for match in found if match[3].startswith("linear")]
    if not linear:
        raise InputError(f"{file}: no key like 0.0.linear.weight; keys: {some_of(tensors)}")
    heads, layers = 1 + max(int(m[1]) for m in found), 1 + max(int(m[2]) for m in linear)
    if heads * layers > len(tensors):  # each head and layer has keys of its own
        raise InputError(
            f"{file}: keys name {heads} heads of {layers} layers, but it has {len(tensors)} tensors"
        )
    return heads, layers


def _require_keys(
    file: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any], heads: int, layers: int
) -> None:
    """Every key that the extent asks for is there, and no other; LM heads for all heads or for none."""
    heads = max(heads, config.get("medusa_num_heads", 0))
    layers = max(layers, config.get("medusa_num_layers", 0))
    wanted = {
        f"{h}.{layer}.linear.{part}"
        for h in range(heads)
        for layer in range(layers)
        for part in ("weight", "bias")
    }
    if any(match and match[3] == "weight" for match in map(KEY.fullmatch, tensors)):
        wanted |= {f"{h}.{layers}.weight" for h in range(heads)}
    if missing := wanted - set(tensors):
        raise InputError(
            f"{file}: incomplete heads; {heads} heads of {layers} layers by keys and config.json, but missing "
            f"{some_of(missing)}"
        )
    if unknown := set(tensors) - wanted:
        raise InputError(f"{file}: keys that no Medusa head has: {some_of(unknown)}")


def _stack(
    file: Path,
    tensors: dict[str, torch.Tensor],
    pattern: str,
    heads: int,
    layers: int,
    shape: tuple[int, ...],
) -> torch.Tensor:
    """[layers, heads, *shape]."""
    names = [[pattern.format(h=h, l=layer) for h in range(heads)] for layer in range(layers)]
    return torch.stack([torch.stack([checked(file, tensors, name, shape) for name in row]) for row in names])


def checked(file: Path, tensors: dict[str, torch.Tensor], name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor of that name; InputError where it has another shape or holds what is no finite number."""
    tensor = tensors[name]
    if tuple(tensor.shape) != shape:
        raise InputError(f"{file}: {name} has shape {tuple(tensor.shape)}, expected {shape}")
    if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
        raise InputError(f"{file}: {name} holds values that are no finite floating-point numbers")
    return tensor


def some_of(names: Any) -> str:
    """Up to eight names, sorted, and how many more."""
    names = sorted(names)
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
