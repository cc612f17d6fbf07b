"""RTP-LLM of Alibaba, while it was `maga_transformer`: `medusa_config` in the model's config.json."""

import json
from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Consequence, Format, wrong
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, json_object, sidecar
from treeopt.export.runtimes.medusa import BEYOND
from treeopt.tree import Tree

TOP_K, LONGEST = 10, 3


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The object for config.json or the file of MEDUSA_CONFIG_FILE; heads of one layer, acceptance as usual."""
    config = {
        "medusa_num_heads": heads,
        "medusa_num_layers": 1,
        "medusa_choices": tree.choices,
        "top_k": TOP_K,
        "posterior_threshold": 0.09,
        "posterior_alpha": 0.3,
    }
    return {"": json.dumps({"medusa_config": config}) + "\n", **sidecar(provenance)}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The choices of a config that has some."""
    config = json_object(text).get("medusa_config")
    if not isinstance(config, dict):
        return None
    return {"": Listing(config.get("medusa_choices"), f"{where} medusa_config")}


def _of_those_kept(follows: Consequence) -> Consequence:
    """Longer paths are gone before anything else looks at them."""
    return lambda path, case: follows(path, case) if len(path) <= LONGEST else []


FORMAT = Format(
    name="rtp-llm",
    versions="RTP-LLM as maga_transformer; its main branch has no Medusa",
    description="medusa_config for config.json or MEDUSA_CONFIG_FILE",
    file_name="medusa_config.json",
    limits=Limits(max_rank=TOP_K - 1, top_k=True, max_depth=LONGEST),
    render=render,
    read=read,
    beyond={rule: _of_those_kept(follows) for rule, follows in BEYOND.items() if rule != "mixed"}
    | {
        "depth": wrong(f"is dropped, as all paths of more than {LONGEST} guesses are"),
        "empty": wrong("Medusa is turned off, with a line in the log"),
    },
    command="export MEDUSA_CONFIG_FILE={file}",
)
