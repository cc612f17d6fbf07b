"""Where a model comes from: a directory, a hub name, a GGUF file, or a configuration with random weights.

Every source ends in a transformers causal LM, its tokenizer (or none) and a content hash.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PretrainedConfig,
)

from treeopt.artifact import sha256_bytes, sha256_file
from treeopt.errors import InputError, UnsupportedError

DEMO = Path(__file__).parent.parent / "demo"
Quantisation = Literal["4bit", "8bit"]
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True)
class Loaded:
    """A model as loaded: `name` for people, `sha256` over the weights' files."""

    model: Any
    tokenizer: Any
    name: str
    sha256: str


def load_source(
    source: str | None, *, device: str, dtype: torch.dtype, quantize: Quantisation | None = None
) -> Loaded:
    """Load the model named: None is the bundled demo, a `.gguf` file, a directory, else a hub name.

    With `quantize`, bitsandbytes rounds its linear layers on the way. Code that comes with a model is never run.
    Errors: InputError when nothing can be loaded from there, or weights are missing, which transformers would draw at
    random.
    """
    path = DEMO / "backbone" if source is None else Path(source)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise InputError(f"{path}: no such file; --model takes a directory, a hub name or a GGUF file")
        directory, gguf, sha256 = path.parent, {"gguf_file": path.name}, sha256_file(path)
    else:
        directory = path if path.is_dir() else _from_hub(str(source))
        gguf, sha256 = {}, _hash_directory(directory)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=dtype,
            attn_implementation="sdpa",
            device_map={"": device} if quantize else None,
            quantization_config=_quantisation(quantize, dtype),
            trust_remote_code=False,
            output_loading_info=True,
            **gguf,
        )
    except Exception as error:  # transformers, safetensors and the GGUF reader each have kinds of their own
        raise InputError(
            f"{path}: cannot be loaded as a causal language model: {_one_line(error)}"
        ) from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise InputError(
            f"{path}: {len(missing)} weights are missing, such as {missing[0]}; get the whole model"
        )
    name = "demo" if source is None else path.stem if gguf else path.name
    if not is_quantised(model):
        model = model.to(device)
    return Loaded(model.eval(), _tokenizer(directory, gguf), name, sha256)


def is_quantised(model: torch.nn.Module) -> bool:
    """Whether weights are kept rounded to integers, as bitsandbytes, GPTQ or AWQ do.

    transformers' own flag is not asked: it also says so of a GGUF file, whose weights are floats once loaded.
    """
    integers = any(not weight.is_floating_point() for weight in model.parameters())
    return integers or any(name.endswith("qweight") for name, _ in model.named_buffers())


def random_weights(config_file: Path, *, device: str, dtype: torch.dtype, seed: int = 0) -> Loaded:
    """A model of the shape that a `config.json` gives, with random weights and no tokenizer: for profiling only."""
    try:
        content = json.loads(config_file.read_text())
        config = AutoConfig.for_model(**content)
    except OSError as error:
        raise InputError(f"{config_file}: cannot be read: {error.strerror}") from error
    except Exception as error:  # each field's own validator has its own kind
        hint = "it must be a transformers config.json with a model_type"
        raise InputError(f"{config_file}: no model configuration ({_one_line(error)}); {hint}") from error
    torch.manual_seed(seed)
    try:
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    except Exception as error:  # sizes that do not go together fail in any layer
        raise UnsupportedError(f"{config_file}: no model can be built of it: {_one_line(error)}") from error
    sha256 = sha256_bytes(json.dumps([content, seed], sort_keys=True).encode())
    return Loaded(model.eval(), None, f"random-{config.model_type}", sha256)


def require_full_attention(config: PretrainedConfig, name: str) -> None:
    """Refuse by name what a tree mask over a plain key/value cache cannot serve."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
    if kinds:
        raise UnsupportedError(
            f"{name}: layers of kind {', '.join(sorted(kinds))}; tree decoding needs full attention"
        )
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True):
        raise UnsupportedError(
            f"{name}: sliding-window attention (window {window}); tree decoding needs full attention"
        )
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedError(
            f"{name}: an encoder-decoder model; treeopt takes decoder-only language models"
        )


def _quantisation(quantize: Quantisation | None, dtype: torch.dtype) -> Any:
    """What transformers calls the quantisation; InputError where bitsandbytes is not installed."""
    if quantize is None:
        return None
    if find_spec("bitsandbytes") is None:
        raise InputError(f"--quantize {quantize}: needs bitsandbytes; pip install bitsandbytes")
    return BitsAndBytesConfig(
        load_in_4bit=quantize == "4bit", load_in_8bit=quantize == "8bit", bnb_4bit_compute_dtype=dtype
    )


def _from_hub(name: str) -> Path:
    """The local snapshot of a hub model, downloaded where this machine may."""
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.model", "*.jinja", "tokenizer*", "vocab*", "merges*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # the hub's client raises its own, its HTTP library's and OS errors
        raise InputError(
            f"{name}: neither a local directory nor a model that the hub gave: {_one_line(error)}"
        ) from error


def _hash_directory(directory: Path) -> str:
    files = sorted({file for pattern in WEIGHTS for file in directory.glob(pattern)})
    if not files:
        raise InputError(f"{directory}: no weights there ({' or '.join(WEIGHTS)})")
    digest = hashlib.sha256()
    for file in [directory / "config.json", *files]:
        if not file.is_file():
            raise InputError(f"{file}: missing; a model directory has a config.json beside its weights")
        digest.update(sha256_file(file).encode())
    return digest.hexdigest()


def _tokenizer(directory: Path, gguf: dict[str, str]) -> Any:
    """The tokenizer beside the weights, or None: token ids can be decoded without one."""
    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=False, **gguf)
    except Exception:  # whatever is wrong with it, the model itself can be used
        return None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
