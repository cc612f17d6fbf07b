"""vLLM: `--speculative-config` with the number of heads to draft with; the top guess of each, no tree."""

import json
from collections.abc import Mapping
from typing import Any

from treeopt.export.format import Format, refused
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, chain_listing, json_object, sidecar
from treeopt.tree import Tree


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The object; `model` is where the heads lie once they are in vLLM's layout."""
    config = {"method": "medusa", "model": "HEADS_DIR", "num_speculative_tokens": tree.depth}
    return {"": json.dumps(config) + "\n", **sidecar(provenance)}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The chain of a Medusa config."""
    config = json_object(text)
    if config.get("method") != "medusa" or "num_speculative_tokens" not in config:
        return None
    return chain_listing(config["num_speculative_tokens"], f"{where} num_speculative_tokens")


FORMAT = Format(
    name="vllm",
    versions="vLLM v1 engine",
    description="the object for --speculative-config",
    file_name="vllm_speculative.json",
    limits=Limits(chain=True),
    render=render,
    read=read,
    beyond={"heads": refused("weights of the further heads are not in the checkpoint")},
    command='vllm serve MODEL --speculative-config "$(cat {file})"',
)
