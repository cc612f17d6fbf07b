"""Names of the tensors of Medusa heads, as runtimes spell them, and which names a file must have. Loads no torch."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treeopt.errors import InputError

LMHead = Literal["own", "common", "shared"]
"""Each head has an LM head of its own; the file has one for all heads; or they use the backbone's."""


@dataclass(frozen=True)
class Shape:
    """K heads of L layers, hidden size H, vocabulary V (None where only the backbone knows it)."""

    heads: int
    layers: int
    hidden_size: int
    vocabulary: int | None
    lm_head: LMHead


@dataclass(frozen=True)
class Spelling:
    """Names of tensors: head h, layer l, and L, which is the index of the LM head behind the layers."""

    title: str
    layer: str
    """Of a residual layer; `.weight` and `.bias` follow."""
    lm_head: str
    common_lm_head: str = ""
    """Of the one LM head for all heads, where there may be one."""
    prefix: str = ""
    """What all names begin with in a file that holds the model itself, under other names, as well."""
    bias_optional: bool = False

    def of(self, heads: int, layers: int, lm_head: LMHead) -> dict[str, str]:
        """All names that such heads have, by their names in FASTER_DECODING."""
        canonical = FASTER_DECODING
        names = {
            canonical.layer.format(h=h, l=layer) + part: self.layer.format(h=h, l=layer) + part
            for h in range(heads)
            for layer in range(layers)
            for part in (".weight", ".bias")
        }
        if lm_head != "shared":
            own = self.common_lm_head if lm_head == "common" else self.lm_head
            names |= {
                canonical.lm_head.format(h=h, L=layers): own.format(h=h, L=layers) for h in range(heads)
            }
        return names

    def layers_in(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Head and layer of every name of a residual layer."""
        return _indices(self.layer + ".(?:weight|bias)", "l", names)

    def lm_heads_in(self, names: Iterable[str]) -> list[int]:
        """Which heads have a name of an LM head of their own."""
        return [h for h, _ in _indices(self.lm_head, "L", names)]

    def example(self) -> str:
        """The first name of a file."""
        return self.layer.format(h=0, l=0) + ".weight"


def _indices(template: str, second: str, names: Iterable[str]) -> list[tuple[int, int]]:
    pattern = template.replace(".", r"\.").replace("{h}", "([0-9]{1,4})", 1)
    pattern = re.sub(r"\{" + second + r"\}", "([0-9]{1,4})", pattern)
    found = [match for name in names if (match := re.fullmatch(pattern, name))]
    return [(int(match[1]), int(match[match.re.groups])) for match in found]


FASTER_DECODING = Spelling("FasterDecoding", "{h}.{l}.linear", "{h}.{L}.weight")
IN_MODEL = Spelling(
    "FasterDecoding 1.0", "medusa_head.{h}.{l}.linear", "medusa_head.{h}.{L}.weight", prefix="medusa_head."
)
MODELOPT = Spelling(
    "ModelOpt", "medusa_heads.{h}.{l}.linear", "medusa_heads.{h}.{L}.weight", prefix="medusa_heads."
)
NXD = Spelling("NxD Inference", "medusa_head_{h}.{l}.linear", "medusa_head_{h}.{L}.weight")
VLLM = Spelling(
    "vLLM",
    "blocks.{h}.layers.{l}",
    "lm_heads.{h}.weight",
    common_lm_head="lm_head.weight",
    bias_optional=True,
)
SPELLINGS = (FASTER_DECODING, IN_MODEL, MODELOPT, NXD, VLLM)

FILE_NAMES = (
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
    "medusa_heads.pt",
    "medusa_head.safetensors",
    "model.safetensors",
    "model.safetensors.index.json",
)
"""Names under which heads are looked for in a directory, the first first."""


def recognise(where: Path, names: Collection[str]) -> tuple[Spelling, int, int, LMHead]:
    """How a file spells its heads, and their K, L and LM heads, by its keys alone.

    Errors: InputError listing the keys that are missing, or that no head has.
    """
    found = {spelling: indices for spelling in SPELLINGS if (indices := spelling.layers_in(names))}
    if len(found) != 1:
        examples = " or ".join(spelling.example() for spelling in found or SPELLINGS)
        what = (
            f"keys of {len(found)} layouts, {examples}"
            if found
            else f"no Medusa heads, no key like {examples}"
        )
        raise InputError(f"{where}: {what}; keys: {some_of(names)}")
    [(spelling, indices)] = found.items()
    own = {name for name in names if name.startswith(spelling.prefix)}
    lm_heads = spelling.lm_heads_in(own)
    lm_head: LMHead = "own" if lm_heads else "common" if spelling.common_lm_head in own - {""} else "shared"
    heads = 1 + max([h for h, _ in indices] + lm_heads)
    layers = 1 + max(layer for _, layer in indices)
    if heads * layers > len(own):  # each head and layer has keys of its own
        raise InputError(
            f"{where}: keys name {heads} heads of {layers} layers, but it has {len(own)} tensors"
        )
    require_names(where, spelling, own, heads, layers, lm_head)
    return spelling, heads, layers, lm_head


def require_names(
    where: Path, spelling: Spelling, names: Collection[str], heads: int, layers: int, lm_head: LMHead
) -> None:
    """InputError unless a file has each name that such heads have, and no other; LM heads for all or for none."""
    wanted = set(spelling.of(heads, layers, lm_head).values())
    if spelling.bias_optional and not any(name.endswith(".bias") for name in names):
        wanted = {name for name in wanted if not name.endswith(".bias")}
    if missing := wanted - set(names):
        raise InputError(
            f"{where}: incomplete heads; {heads} heads of {layers} layers by keys, but missing "
            f"{some_of(missing)}"
        )
    if unknown := set(names) - wanted:
        raise InputError(f"{where}: keys that no Medusa head has: {some_of(unknown)}")


def some_of(names: Iterable[str]) -> str:
    """Up to eight names, sorted, and how many more; on one line."""
    names = sorted(" ".join(name.split())[:80] for name in names)
    rest = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + rest
