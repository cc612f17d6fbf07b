"""The shape of any transformers model, from its config.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeopt.artifact import read_json
from treeopt.errors import InputError, UnsupportedError
from treeopt.search.hardware import Shape

NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "head_size": ("head_dim",),
}
"""What architectures call each size."""

UNGATED = (
    "bloom codegen falcon gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt nemotron opt persimmon phi starcoder2"
).split()
"""Types of models whose MLP has no gate: two matrices instead of three."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def read_shape(path: str | Path) -> Shape:
    """The shape in a transformers config.json, named after its directory, or after the file if it has another name.

    InputError where a size is absent or no whole number from 1, UnsupportedError for a mixture of experts.
    """
    path = Path(path)
    content = read_json(path)
    config = content.get("text_config", content)
    if not isinstance(config, dict):
        raise InputError(f"{path}: 'text_config' is not an object; give a model's config.json")
    if any(isinstance(config.get(name), int) and config[name] > 1 for name in EXPERTS):
        raise UnsupportedError(f"{path}: is a mixture of experts; the hardware model knows dense MLPs only")
    hidden, heads = _size(path, config, "hidden"), _size(path, config, "heads")
    kind = str(config.get("model_type", content.get("model_type")))
    alone = config.get("multi_query") is True  # one key and value for all heads
    shape = Shape(
        name=path.resolve().parent.name if path.stem == "config" else path.stem,
        layers=_size(path, config, "layers"),
        hidden=hidden,
        intermediate=_size(path, config, "intermediate", 4 * hidden if kind in UNGATED else None),
        heads=heads,
        kv_heads=_size(path, config, "kv_heads", 1 if alone else heads),
        head_size=_size(path, config, "head_size", hidden // heads or None),
        gated=kind not in UNGATED,
    )
    if shape.kv_heads > heads:
        raise InputError(
            f"{path}: {shape.kv_heads} key and value heads for {heads} heads; it is at most as many"
        )
    return shape


def _size(path: Path, config: Mapping[str, Any], field: str, usual: int | None = None) -> int:
    """One size; `usual` where the config leaves it out."""
    names = NAMES[field]
    value = next((config[name] for name in names if config.get(name) is not None), usual)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
        raise InputError(
            f"{path}: {names[0]} is {value!r:.40}; a model's config.json has a whole number there"
        )
    return value
