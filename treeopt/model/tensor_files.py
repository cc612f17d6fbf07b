"""Files of tensors by name: safetensors, several of them under an index, and torch's own, never with code in them."""

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from treeopt.artifact import load_json, sha256_bytes, sha256_file
from treeopt.errors import InputError
from treeopt.model.spellings import SPELLINGS

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file by name, on the CPU; of an index of several files, those whose names may be of heads."""
    if file.suffix in (".pt", ".bin"):
        content = load_torch(file)
        if not isinstance(content, dict) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
        ):
            raise InputError(f"{file}: expected a dictionary of tensors by name")
        return content
    if file.suffix == ".json":
        shards = {shard: read_tensors(shard) for shard in shards_of(file)}
        prefixes = tuple(spelling.prefix for spelling in SPELLINGS if spelling.prefix)
        return {
            name: tensor
            for tensors in shards.values()
            for name, tensor in tensors.items()
            if name.startswith(prefixes)
        }
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from error


def shards_of(index: Path) -> list[Path]:
    """The files that an index names."""
    content = load_json(index)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not all(
        isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")
        for name in names.values()
    ):
        raise InputError(f"{index}: no weight_map from names of tensors to files beside it")
    return [index.with_name(name) for name in sorted(set(names.values()))]


def sha256_of(file: Path) -> str:
    """Of a file; for an index, over the files that it names."""
    if file.suffix != ".json":
        return sha256_file(file)
    return sha256_bytes("".join(map(sha256_file, shards_of(file))).encode())


def write_tensors(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    """As safetensors, or with torch for a `.pt`, whole or not at all."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".pt":
            torch.save(tensors, temporary)
        else:
            save_file(tensors, temporary)
        temporary.replace(file)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(f"{file}: cannot be written ({error}); choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def load_torch(file: Path) -> Any:
    """What a file of torch's holds, on the CPU, as long as it is data alone. InputError for anything else."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of protocols, to the authors of files
            return torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except Exception as error:  # garbage makes the unpickler fail in any way
        raise InputError(f"{file}: not a file of tensors (read with weights_only)") from error


def checked(
    file: Path, tensors: dict[str, torch.Tensor], name: str, shape: tuple[int | None, ...]
) -> torch.Tensor:
    """The tensor of that name; InputError where it has another shape or holds what is no finite number."""
    tensor = tensors[name]
    if tuple(tensor.shape) != shape:
        raise InputError(f"{file}: {name} has shape {tuple(tensor.shape)}, expected {shape}")
    dense = tensor.layout == torch.strided and tensor.dtype in FLOATS
    if not dense or not bool(torch.isfinite(tensor).all()):
        raise InputError(f"{file}: {name} holds values that are no finite floating-point numbers")
    return tensor
