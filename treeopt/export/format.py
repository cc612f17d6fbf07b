"""What every runtime's module declares: how trees are written and read, and what happens to all others."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from treeopt.errors import UnsupportedError
from treeopt.export.limits import Limits, breaches
from treeopt.export.listing import Listing, compact
from treeopt.tree import Path, Tree

REFUSED, WRONG = "refused", "silently wrong"


@dataclass(frozen=True)
class Finding:
    """What a runtime does at one path, `()` for the file as a whole: REFUSED or WRONG, and why.

    `reader` names the part of the runtime that does so, where it has several that read trees differently.
    """

    outcome: str
    path: Path
    why: str
    reader: str = ""


@dataclass(frozen=True)
class Case:
    """What a runtime is given: all paths sorted by (length, path) and each once, its limits, the model's heads."""

    paths: tuple[Path, ...]
    limits: Limits
    heads: int


Consequence = Callable[[Path, Case], list[Finding]]
"""What follows from a path that breaks a rule; nothing where the runtime copes."""


def refused(why: str, reader: str = "") -> Consequence:
    """The runtime stops, saying so."""
    return lambda path, case: [Finding(REFUSED, path, why, reader)]


def wrong(why: str, reader: str = "") -> Consequence:
    """The runtime goes on with something else than the file says."""
    return lambda path, case: [Finding(WRONG, path, why, reader)]


@dataclass(frozen=True)
class Format:
    """One runtime's way of writing trees down.

    `render(tree, provenance, heads)` gives the files as {suffix: text}; the suffix "" is the file itself, others are
    appended to its name. `read(text, where)` gives what a file lists by name, "" for a list without one, or None
    where the text is not of this format at all; InputError names `where` for one that is, but is wrong.

    `beyond` says what the runtime does with choices beyond its limits: by the rules of `limits.breaches`, and by
    "orphan" (a path without its parent), "duplicate" (a path listed twice), "mixed" (lists and tuples in one list)
    and "dense" (a list of numbers). A limit without a consequence is refused; of the others, each that is not
    named is harmless.
    """

    name: str
    versions: str
    """The runtime, and the versions that were read."""
    description: str
    file_name: str
    """What its file is called where nobody names one."""
    limits: Limits
    render: Callable[[Tree, Mapping[str, Any], int], dict[str, str]]
    read: Callable[[str, str], dict[str, Listing] | None]
    beyond: Mapping[str, Consequence] = field(default_factory=dict)
    readers: tuple[str, ...] = ("",)
    """The parts of the runtime that read trees, where there are several that differ."""
    command: str = ""
    """How the runtime is given the file, for `command_line`; words in capitals are the reader's to fill in."""

    def write(self, tree: Tree, provenance: Mapping[str, Any], heads: int | None = None) -> dict[str, str]:
        """The files as {suffix: text}; UnsupportedError for a tree that the runtime would not read right.

        `heads` are those of the model; where they are not known, files that name a number have the tree's depth.
        """
        self.check(tree, heads)
        return self.render(tree, provenance, tree.depth if heads is None else heads)

    def command_line(self, file: str, tree: Tree, heads: int | None = None) -> str:
        """What to type for the runtime to decode with `tree`, written to `file`; empty where there is no such line."""
        known = {"file": shlex.quote(file), "choices": compact(tree)}
        return self.command.format(
            **known, tokens=tree.size, depth=tree.depth, heads=tree.depth if heads is None else heads
        )

    def check(self, tree: Tree, heads: int | None = None) -> None:
        """UnsupportedError naming the first path beyond the limits, or beyond the model's `heads`."""
        for breach in breaches(tree.choices, self.limits, heads):
            fit = "" if breach.rule == "empty" else ", or export with --fit"
            raise UnsupportedError(f"{self.name}: {breach}{fit}")
