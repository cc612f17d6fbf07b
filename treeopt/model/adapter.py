"""LoRA adapters (Hu et al. 2021) through peft: attached to train, saved in peft's own layout, merged to be used.

peft is no part of a plain installation, so it is imported when an adapter is first asked for.
"""

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from treeopt.artifact import read_json, sha256_bytes, sha256_file, write_json
from treeopt.errors import InputError, MismatchError, UnsupportedError
from treeopt.model.sources import Loaded, is_quantised
from treeopt.model.spellings import some_of
from treeopt.model.tensor_files import checked, read_tensors

if TYPE_CHECKING:
    from peft import PeftModel

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
ORIGIN = "treeopt.json"


def attach_lora(
    model: PreTrainedModel, *, rank: int = 32, alpha: float = 16, dropout: float = 0.05
) -> "PeftModel":
    """Put LoRA on every linear layer, the LM head included, as Cai et al. 2024 (section 3) train Medusa-2.

    The layers are wrapped in place, so `model` itself has the adapter too; it starts as a no-op, and only it can be
    trained. A tied LM head gets its own copy of the weight first. Errors: InputError where peft is not installed.
    """
    peft = _peft()
    embeddings: Any = model.get_input_embeddings()
    untie(model, embeddings.weight)
    layers = [name for name, layer in model.named_modules() if isinstance(layer, (nn.Linear, Conv1D))]
    config = peft.LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=layers, task_type="CAUSAL_LM"
    )
    with _quiet():
        wrapped: PeftModel = peft.get_peft_model(model, config)
    return wrapped.train(model.training)


def untie(model: PreTrainedModel, shared: torch.Tensor) -> None:
    """Give an LM head whose weight is `shared` with the embeddings its own copy: what changes one leaves the other.

    Adapters may be around both already.
    """
    head: Any = model.get_output_embeddings()
    for layer in head.modules():
        if layer._parameters.get("weight") is shared:
            layer.weight = nn.Parameter(shared.detach().clone(), shared.requires_grad)
            model.config.tie_word_embeddings = False
            model.all_tied_weights_keys = model.get_expanded_tied_weights_keys(all_submodels=True)


def save_adapter(
    peft_model: "PeftModel", directory: str | Path, *, base_model: str, base_sha256: str
) -> None:
    """Write peft's adapter_config.json and adapter_model.safetensors, and the base's content hash beside them.

    All is written elsewhere first, so a failed write leaves what was there. Errors: InputError when it fails.
    """
    directory = Path(directory)
    peft_model.active_peft_config.base_model_name_or_path = base_model
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as temporary:
            peft_model.save_pretrained(temporary, save_embedding_layers=False)
            origin = {"base_model": base_model, "base_sha256": base_sha256}
            write_json(Path(temporary, ORIGIN), origin, "adapter")
            directory.mkdir(exist_ok=True)
            for name in (WEIGHTS[0], CONFIG, ORIGIN):
                os.replace(Path(temporary, name), directory / name)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{directory}: cannot be written ({error}); choose another place") from error


def merge_adapter(loaded: Loaded, directory: str | Path) -> Loaded:
    """The model with an adapter's product added to its weights: no slower than the model alone.

    The weights are changed in place. The adapter may come from any peft, and is read strictly: the file has every
    tensor of the adapter that its configuration describes, and no other.
    Errors: InputError for what is no LoRA adapter of this model, listing keys; MismatchError when it was trained on
    other weights, by the hash that `save_adapter` recorded; UnsupportedError for a quantised model.
    """
    directory, model = Path(directory), loaded.model
    if is_quantised(model):
        raise UnsupportedError(
            f"{loaded.name}: is quantised, and merging {directory} would round the adapter away; name the model"
            " before its quantisation"
        )
    config, weights = _find(directory)
    _require_base(directory, loaded)
    peft = _peft()
    trainable = next(model.parameters()).requires_grad
    embeddings = model.get_input_embeddings()
    try:
        with _quiet():
            wrapped = peft.PeftModel(model, _read_config(peft, config))
        # Not before: peft puts an adapter of tied weights on both, as it did when the adapter was trained.
        untie(model, embeddings.weight)
        peft.set_peft_model_state_dict(wrapped, _read_weights(peft, weights, wrapped))
    except (ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        message = " ".join(str(error).split())[:300]
        raise InputError(f"{directory}: does not fit {loaded.name}: {message}") from error
    merged = wrapped.merge_and_unload().requires_grad_(trainable)
    hashes = [loaded.sha256, sha256_file(config), sha256_file(weights)]
    name = f"{loaded.name}+{directory.resolve().name}"
    return Loaded(merged, loaded.tokenizer, name, sha256_bytes("".join(hashes).encode()))


def _find(directory: Path) -> tuple[Path, Path]:
    """Configuration and weights of an adapter."""
    found = [directory / name for name in WEIGHTS if (directory / name).is_file()]
    if not (directory / CONFIG).is_file() or not found:
        raise InputError(f"{directory}: no LoRA adapter there (looked for {CONFIG} and {WEIGHTS[0]})")
    return directory / CONFIG, found[0]


def _require_base(directory: Path, loaded: Loaded) -> None:
    if not (directory / ORIGIN).is_file():
        return
    origin = read_json(directory / ORIGIN, "adapter", ["base_model", "base_sha256"])
    if origin["base_sha256"] != loaded.sha256:
        raise MismatchError(
            f"{directory}: an adapter of {origin['base_model']} with sha256 {origin['base_sha256']!s:.12}, but"
            f" {loaded.name} has {loaded.sha256:.12}; name the model that it was trained on"
        )


def _read_config(peft: ModuleType, file: Path) -> Any:
    kind = read_json(file).get("peft_type")
    if kind != "LORA":
        raise UnsupportedError(f"{file}: peft_type is {kind}; only LoRA adapters can be used")
    config = peft.LoraConfig.from_pretrained(str(file.parent))
    config.inference_mode = True
    return config


def _read_weights(peft: ModuleType, file: Path, wrapped: "PeftModel") -> dict[str, torch.Tensor]:
    """The adapter's tensors, held against those that `wrapped` waits for.

    Where the LM head or the embeddings are adapted, peft itself saves their base weights too; they may be there.
    """
    wanted = peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    known = peft.get_peft_model_state_dict(wrapped, save_embedding_layers=True)
    tensors = read_tensors(file)
    if missing := wanted.keys() - tensors.keys():
        raise InputError(f"{file}: incomplete for {CONFIG} and this model; missing {some_of(missing)}")
    if unknown := tensors.keys() - known.keys():
        raise InputError(f"{file}: keys that {CONFIG} and this model have no place for: {some_of(unknown)}")
    return {name: checked(file, tensors, name, tuple(known[name].shape)) for name in tensors}


def _peft() -> ModuleType:
    try:
        import peft
    except ImportError as error:
        raise InputError(f"LoRA adapters need peft ({error}): pip install peft") from error
    return peft


def _quiet() -> warnings.catch_warnings:
    """Without peft's remarks on layers that store their weight transposed, which it then takes as such."""
    return warnings.catch_warnings(action="ignore")
