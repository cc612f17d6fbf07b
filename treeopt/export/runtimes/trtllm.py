"""TensorRT-LLM's engines (up to 1.x, before 2026-07): YAML for its benchmark, command line, LLM API.

Its C++ and its Python runtime read the same list differently; a tree that is written suits both.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from treeopt.errors import InputError
from treeopt.export.format import REFUSED, WRONG, Case, Finding, Format, refused, wrong
from treeopt.export.limits import Limits
from treeopt.export.listing import Listing, comments, compact, json_object, json_value
from treeopt.tree import Path, Tree

CPP, PYTHON = "C++", "Python"
MAX_RANK, MAX_DEPTH = 15, 8
"""Of the C++ runtime, which packs four bits a rank into 32."""

_ARGUMENT = re.compile(r"--medusa_choices[= ]\s*(?P<quote>[\"']?)(?P<list>.*)(?P=quote)")


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """YAML, arguments and the LLM API's object. Engines are built for exactly this number of draft tokens."""
    nodes = len(tree.choices)
    origin = comments(provenance)
    config = {
        "decoding_type": "Medusa",
        "max_draft_len": nodes,
        "num_medusa_heads": heads,
        "medusa_choices": tree.choices,
    }
    arguments = (
        f"{origin}# examples/medusa/convert_checkpoint.py, so that the engine fits\n"
        f"--num_medusa_heads {heads} --max_medusa_token_len {nodes}\n"
        f'# examples/run.py and summarize.py\n--medusa_choices="{compact(tree)}"\n'
    )
    listed = "".join(f"- {list(path)}\n" for path in tree.choices)
    build = f"# trtllm-bench latency --medusa_choices THIS_FILE, an engine built with max_draft_len {nodes}\n"
    return {"": origin + build + listed, ".args": arguments, ".llm_api.json": json.dumps(config) + "\n"}


def read(text: str, where: str) -> dict[str, Listing] | None:
    """The choices of any of the three files."""
    if "medusa_choices" in (config := json_object(text)):
        return {"": Listing(config["medusa_choices"], f"{where} medusa_choices")}
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), start=1)]
    lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
    if lines and lines[0][1].startswith("- "):
        return {"": Listing([_yaml(line, f"{where} line {n}") for n, line in lines], where)}
    if not all(line.startswith("--") for _, line in lines):
        return None
    found = [(n, match["list"]) for n, line in lines if (match := _ARGUMENT.fullmatch(line))]
    if len(found) > 1:
        raise InputError(f"{where}: has --medusa_choices {len(found)} times; leave one")
    return {"": Listing(json_value(found[0][1]), f"{where} line {found[0][0]}")} if found else None


def _yaml(line: str, where: str) -> Any:
    path = json_value(line.removeprefix("- ")) if line.startswith("- ") else None
    if not isinstance(path, list):
        raise InputError(f"{where}: {line!r:.40} is no path of a YAML list; write each as `- [0, 1]`")
    return path


def orphaned(path: Path, case: Case) -> list[Finding]:
    """The C++ runtime looks parents up in a map, whose default is the root."""
    if any(len(other) == len(path) - 1 for other in case.paths):
        return [Finding(WRONG, path, "its parent is missing, so it is attached to the root", CPP)]
    return [Finding(REFUSED, path, "a depth above it is missing, and a check fails", CPP)]


def packed(path: Path, case: Case) -> list[Finding]:
    """The C++ runtime packs ranks into four bits each, and checks for one too many."""
    if path[-1] > MAX_RANK + 1:
        return [Finding(REFUSED, path, f"rank {path[-1]} fails a check", CPP)]
    return [Finding(WRONG, path, "rank 16 does not fit four bits, so the path is taken for another", CPP)]


CPP_BEYOND = {
    "rank": packed,
    "depth": wrong("ranks past the eighth do not fit 32 bits, so the path is taken for another", CPP),
    "heads": refused("is deeper than the heads, and a check fails", CPP),
    "orphan": orphaned,
    "duplicate": wrong("is listed twice, and takes two of the nodes", CPP),
}

FORMAT = Format(
    name="trtllm",
    versions="TensorRT-LLM engines, up to 1.x before 2026-07",
    description="YAML for trtllm-bench; in .args the command line, in .llm_api.json the LLM API's object",
    file_name="trtllm_medusa.yml",
    limits=Limits(max_rank=MAX_RANK, max_depth=MAX_DEPTH, gaps_from=2),
    render=render,
    read=read,
    beyond=CPP_BEYOND
    | {
        "gap": wrong(
            "guesses of the first head are counted through to the highest, so deeper paths get others", PYTHON
        ),
        "heads": refused("is deeper than the heads"),
        "dense": refused("not a list of paths"),
        "mixed": refused("TypeError: lists and tuples do not compare", PYTHON),
    },
    readers=(CPP, PYTHON),
    command="trtllm-bench --model MODEL latency --dataset DATASET --engine_dir ENGINE --medusa_choices {file}",
)
