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
_TEMPLATE = re.compile(r"^(?:\S*,)?medusa_choices:(.*)$", re.MULTILINE)
_BARE = re.compile(r"(\{\s*\d.*\})", re.DOTALL)
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
    found = _PARAMETER.findall(text) or [line.replace("\\,", ",") for line in _TEMPLATE.findall(text)]
    found = found or [bare[1] for bare in [_BARE.fullmatch(text.strip())] if bare]
    if not found:
        return None
    if len(found) > 1:
        raise InputError(f"{where}: has medusa_choices {len(found)} times; leave one")
    [choices] = found
    paths = json_value(f"[{choices.replace('{', '[').replace('}', ']')}]")
    if not isinstance(paths, list):
        raise InputError(
            f"{where}: medusa_choices {choices!r:.40} do not parse; write them as {{0}}, {{0, 1}}"
        )
    return {"": Listing(paths, f"{where} medusa_choices")}


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
