"""tensorrtllm_backend for Triton (r24.04 to r25.02): a parameter of config.pbtxt, `{0}, {1}, {0, 0}`."""

import re
from collections.abc import Mapping
from typing import Any

from treeopt.errors import InputError
from treeopt.export.format import Format, wrong
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, comments, json_value
from treeopt.export.runtimes.trtllm import CPP_BEYOND, MAX_DEPTH, MAX_RANK
from treeopt.tree import Tree

_PARAMETER = re.compile(r'key:\s*"medusa_choices"\s*value:\s*\{\s*string_value:\s*"([^"]*)"')
_TEMPLATE = re.compile(r"^(?:.*(?<!\\),)?medusa_choices:\s*\{.*", re.MULTILINE)
_SPLIT = re.compile(r"(?<!\\),")
_BARE = re.compile(r"\s*(\{\s*\d.*\})\s*", re.DOTALL)
_COMMENT = re.compile(r"^[ \t]*#.*", re.MULTILINE)
_CHOICES = re.compile(r"\{[\d, ]+\}(,\s*\{[\d, ]+\})*")
REPLACED = 'does not parse, so mc_sim_7b_63 is used in its place, with a warning that says "not specified"'


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The parameters, and the same for tools/fill_template.py, which splits at every comma that is not escaped."""
    choices = ", ".join("{" + ", ".join(map(str, path)) + "}" for path in tree.choices)
    parameters = "".join(
        f'parameters: {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in (("decoding_mode", "medusa"), ("medusa_choices", choices))
    )
    build = f"# the engine is built with max_draft_len {len(tree.choices)}\n"
    template = "decoding_mode:medusa,medusa_choices:" + choices.replace(",", "\\,")
    return {"": comments(provenance) + build + parameters, ".template": template + "\n"}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The choices of a config.pbtxt, of arguments to fill_template.py, or the string alone."""
    text = _COMMENT.sub("", text)
    found = _PARAMETER.findall(text)
    found = found or [choices for line in _TEMPLATE.findall(text) for choices in _of_template(line, where)]
    found = found or [bare[1] for bare in [_BARE.fullmatch(text)] if bare]
    if not found:
        return None
    if len(found) > 1:
        raise InputError(f"{where}: has medusa_choices {len(found)} times; leave one")
    [choices] = found
    well_formed = _CHOICES.fullmatch(choices.strip())
    paths = json_value(f"[{choices.replace('{', '[').replace('}', ']')}]") if well_formed else None
    if not isinstance(paths, list):
        raise InputError(
            f"{where}: medusa_choices {choices!r:.40} do not parse, and the runtime would use mc_sim_7b_63 in their"
            " place; write them as {0}, {0, 1}"
        )
    return {"": Listing(paths, f"{where} medusa_choices")}


def _of_template(line: str, where: str) -> list[str]:
    """The values of medusa_choices in `key:value` pairs, which are split where fill_template.py splits them."""
    pairs = [pair.partition(":") for pair in _SPLIT.split(line)]
    if broken := next((key for key, colon, _ in pairs if not colon), None):
        raise InputError(
            f"{where}: {broken!r:.40} is no key:value; write \\, for each comma within the choices"
        )
    return [value.replace("\\,", ",") for key, _, value in pairs if key == "medusa_choices"]


FORMAT = Format(
    name="triton",
    versions="tensorrtllm_backend r24.04 to r25.02",
    description="parameters for config.pbtxt; in .template escaped for tools/fill_template.py",
    file_name="medusa.pbtxt",
    limits=Limits(max_rank=MAX_RANK, max_depth=MAX_DEPTH),
    render=render,
    read=read,
    beyond=CPP_BEYOND | {"empty": wrong(REPLACED), "dense": wrong(REPLACED)},
    readers=("C++",),
    command='python tools/fill_template.py -i CONFIG_PBTXT "$(cat {file}.template)"',
)
