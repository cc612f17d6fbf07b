"""How runtimes want Medusa heads on disk, as data: spelling, file names, config.json, limits. Loads no torch.

Read from the sources of the runtimes, which the versions say; none of the runtimes was run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeopt.errors import InputError
from treeopt.model.spellings import FASTER_DECODING, IN_MODEL, MODELOPT, NXD, VLLM, LMHead, Shape, Spelling


@dataclass(frozen=True)
class Layout:
    """What one runtime reads."""

    name: str
    versions: str
    description: str
    spelling: Spelling
    takes: Mapping[LMHead, int | None]
    """The LM heads that it takes, and the most layers with them; None is any number."""
    files: tuple[str, ...]
    """Names of the file, the first of which is written."""
    config: Callable[[Shape], dict[str, Any]] = lambda shape: {}
    """What config.json must say; nothing where the runtime reads no config.json of the heads."""
    counts: tuple[str, str] = ("", "")
    """Where config.json counts heads and layers; a dot goes into an object."""
    base_model: bool = False
    """Whether config.json must name the backbone, under `base_model_name_or_path`."""
    forbidden: tuple[str, ...] = ()
    """What config.json must not have."""
    one_block: bool = False
    """Whether its layers are one block applied again and again, so that they cannot differ."""
    format: str = ""
    """The format of `treeopt export` for its trees."""


COUNTS = ("medusa_num_heads", "medusa_num_layers")


def _medusa_config(shape: Shape) -> dict[str, Any]:
    return {"medusa_num_heads": shape.heads, "medusa_num_layers": shape.layers}


def _trtllm_config(shape: Shape) -> dict[str, Any]:
    return {"num_medusa_heads": shape.heads, "medusa_num_layers": shape.layers}


def _modelopt_config(shape: Shape) -> dict[str, Any]:
    return {"medusa": {"num_medusa_heads": shape.heads, "num_medusa_layers": shape.layers}}


def _mlc_config(shape: Shape) -> dict[str, Any]:
    sizes = {"hidden_size": shape.hidden_size, "vocab_size": shape.vocabulary}
    return {"model_type": "medusa", **_medusa_config(shape), **sizes}


def _vllm_config(shape: Shape) -> dict[str, Any]:
    return {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": shape.hidden_size,
        "vocab_size": shape.vocabulary,
        "truncated_vocab_size": shape.vocabulary,
        "num_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "medusa_fc_bias": True,
        "original_lm_head": shape.lm_head == "common",
    }


_ALL = (
    Layout(
        name="medusa",
        versions="FasterDecoding/Medusa at e2a5d20 (v0.1 heads)",
        description="for from_pretrained, which makes 5 heads whatever config.json says: keep trees within yours",
        spelling=FASTER_DECODING,
        takes={"own": None},
        files=("medusa_lm_head.pt",),
        config=_medusa_config,
        counts=COUNTS,
        base_model=True,
        one_block=True,
        format="medusa",
    ),
    Layout(
        name="medusa-v2",
        versions="FasterDecoding/Medusa at e2a5d20 (medusa_model_legacy)",
        description="a directory for its from_pretrained",
        spelling=FASTER_DECODING,
        takes={"shared": None},
        files=("medusa_lm_head.pt",),
        config=_medusa_config,
        counts=COUNTS,
        base_model=True,
        one_block=True,
        format="medusa",
    ),
    Layout(
        name="tgi",
        versions="text-generation-inference at db931fc",
        description="a directory for --model-id",
        spelling=FASTER_DECODING,
        takes={"own": None, "shared": 1},
        files=("medusa_lm_head.safetensors",),
        config=_medusa_config,
        counts=COUNTS,
        base_model=True,
        forbidden=("architectures",),
        format="tgi",
    ),
    Layout(
        name="lorax",
        versions="LoRAX at 0ee3250",
        description="a directory for the adapter that it starts with",
        spelling=FASTER_DECODING,
        takes={"own": None, "shared": 1},
        files=("medusa_lm_head.safetensors",),
        config=_medusa_config,
        counts=COUNTS,
        base_model=True,
    ),
    Layout(
        name="vllm",
        versions="vLLM at 01dbb08",
        description="a directory for `model` of --speculative-config",
        spelling=VLLM,
        takes={"own": None, "common": None},
        files=("model.safetensors",),
        config=_vllm_config,
        counts=("num_heads", "num_hidden_layers"),
        forbidden=("num_attention_heads",),
        format="vllm",
    ),
    Layout(
        name="trtllm",
        versions="TensorRT-LLM engines, before 2026-07",
        description="a directory for --medusa_model_dir, or speculative_model of the LLM API",
        spelling=FASTER_DECODING,
        takes={"own": None},
        files=("medusa_lm_head.safetensors", "medusa_lm_head.pt"),
        config=_trtllm_config,
        counts=("num_medusa_heads", "medusa_num_layers"),
        format="trtllm",
    ),
    Layout(
        name="modelopt",
        versions="ModelOpt at 5a4242f, heads that are not quantised",
        description="the heads' part of its checkpoint: the model's own weights go beside it",
        spelling=MODELOPT,
        takes={"own": None},
        files=("model.safetensors", "model.safetensors.index.json"),
        config=_modelopt_config,
        counts=("medusa.num_medusa_heads", "medusa.num_medusa_layers"),
        format="trtllm",
    ),
    Layout(
        name="nxd",
        versions="NxD Inference at 4bcdc54",
        description="a file that goes into the model's directory",
        spelling=NXD,
        takes={"own": 1},
        files=("medusa_heads.pt",),
        format="nxd",
    ),
    Layout(
        name="rtp-llm",
        versions="RTP-LLM as maga_transformer",
        description="a file that goes among the model's own weights; `treeopt export` writes its config",
        spelling=IN_MODEL,
        takes={"own": None},
        files=("medusa_head.safetensors", "model.safetensors", "model.safetensors.index.json"),
        format="rtp-llm",
    ),
    Layout(
        name="mlc",
        versions="MLC-LLM at 79d603f",
        description="a directory for mlc_llm convert_weight, whose result --additional-models names",
        spelling=IN_MODEL,
        takes={"own": None},
        files=("model.safetensors", "model.safetensors.index.json"),
        config=_mlc_config,
        counts=COUNTS,
        format="mlc",
    ),
)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}
"""All layouts by name."""


def counted(
    where: Path, config: Mapping[str, Any], spelling: Spelling
) -> tuple[dict[str, int], dict[str, int]]:
    """What a config.json, in the file `where`, says of heads and of layers: numbers by where they stand.

    Only what a runtime of that spelling reads. Errors: InputError for what is no whole number.
    """
    said: tuple[dict[str, int], dict[str, int]] = {}, {}
    for layout in LAYOUTS.values():
        if layout.spelling is not spelling:
            continue
        for numbers, name in zip(said, layout.counts, strict=True):
            number = entry(config, name)
            if number is ABSENT:
                continue
            if type(number) is not int:
                raise InputError(f"{where}: {name} is {number!r}; it is a whole number")
            numbers[name] = number
    return said


def entry(config: Mapping[str, Any], name: str) -> Any:
    """The value of that name, in which a dot goes into an object; ABSENT where there is none."""
    value: Any = config
    for part in name.split("."):
        value = value.get(part, ABSENT) if isinstance(value, Mapping) else ABSENT
    return value


ABSENT = object()
