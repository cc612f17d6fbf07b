"""What a runtime would do with a file."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from treeopt.cli.stages.export import find_format
from treeopt.export.check import check
from treeopt.export.read import read_listings
from treeopt.search.accuracy_files import split_name
from treeopt.view.printable import on_one_line


def check_file(source: str, runtime: str, heads: int, top_k: int | None) -> dict[str, Any]:
    """The outcome, and what it follows from, for each tree of FILE, or the one of FILE:NAME."""
    format = find_format(runtime, "--runtime")
    path, name = split_name(source)
    verdicts = {
        label: check(format, listing, heads, top_k) for label, listing in read_listings(path, name).items()
    }
    return {
        "runtime": format.name,
        "versions": format.versions,
        "trees": [{"name": label} | asdict(verdict) for label, verdict in verdicts.items()],
    }


def verdicts_text(content: Mapping[str, Any]) -> str:
    """A line for each tree, and below it one for each finding."""
    lines = []
    for tree in content["trees"]:
        lines.append(f"{on_one_line(tree['name'])}: {tree['outcome']} ({content['versions']})")
        for finding in tree["findings"]:
            reader = f" by the {finding['reader']} runtime" if finding["reader"] else ""
            path = f"path {list(finding['path'])} " if finding["path"] else ""
            text = finding["why"].removeprefix(path)
            lines.append(f"  {finding['outcome']}{reader}: {path}{text}")
    return "\n".join(lines)
