"""MLC-LLM (commit 79d603f): `spec_draft_length`, the top guess of every head, no tree."""

import re
from collections.abc import Mapping
from typing import Any

from treeopt.errors import InputError
from treeopt.export.format import Format
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, chain_listing, comments
from treeopt.tree import Tree

_ARGUMENT = re.compile(r"^--speculative-mode medusa\b.*", re.MULTILINE)
_LENGTH = re.compile(r"\bspec_draft_length=(\d{1,4})\b")


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """The arguments of `mlc_llm serve`, where --additional-models names the heads."""
    arguments = f'--speculative-mode medusa --additional-models HEADS_DIR --overrides "spec_draft_length={tree.depth}"'
    return {"": f"{comments(provenance)}{arguments}\n"}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The chain of such arguments."""
    found = [length for line in _ARGUMENT.findall(text) for length in _LENGTH.findall(line)]
    if len(found) > 1:
        raise InputError(f"{where}: has spec_draft_length {len(found)} times; leave one")
    return chain_listing(int(found[0]), f"{where} spec_draft_length") if found else None


FORMAT = Format(
    name="mlc",
    versions="MLC-LLM at 79d603f",
    description="arguments of mlc_llm serve",
    file_name="mlc_speculative.args",
    limits=Limits(chain=True, all_heads=True),
    render=render,
    read=read,
    command="mlc_llm serve MODEL --speculative-mode medusa --additional-models HEADS_DIR"
    ' --overrides "spec_draft_length={depth}"',
)
