"""What a runtime cannot express, as data, and where a tree goes beyond it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from treeopt.tree import Path


@dataclass(frozen=True)
class Limits:
    """What a runtime takes. That a tree is no deeper than the model has heads holds for all of them."""

    max_rank: int | None = None
    """Highest rank, None where any is read right."""
    top_k: bool = False
    """Whether `max_rank` is one less than the guesses that the runtime takes of each head, a setting of its own."""
    max_depth: int | None = None
    """Longest path."""
    max_nodes: int | None = None
    """Most choices, the root not counted."""
    gaps_from: int | None = 1
    """Depth from which on siblings may skip a rank: 1 is everywhere, None nowhere."""
    siblings_first: bool = False
    """Whether a node may have children only where each better sibling has some."""
    chain: bool = False
    """Whether only the top guess of each head is drafted: no tree."""
    all_heads: bool = False
    """Whether a chain must be as long as the model has heads."""
    bare_root: bool = False
    """Whether a tree without choices, plain decoding, can be written."""

    def cells(self) -> list[str]:
        """The limits in words, in the order of HEADINGS."""
        gaps = {None: "no", 1: "yes"}.get(self.gaps_from, f"from depth {self.gaps_from}")
        return [
            "chain" if self.chain else "tree",
            "all heads" if self.all_heads else _most(self.max_depth),
            _most(self.max_rank),
            "-" if self.chain else gaps,
            _most(self.max_nodes),
            "better siblings first" if self.siblings_first else "any",
        ]


HEADINGS = ("drafts", "depth", "rank", "gaps", "nodes", "expansion")


@dataclass(frozen=True)
class Breach:
    """A limit that a tree goes beyond: which `rule`, at which path, in words, and what to do."""

    rule: str
    path: Path
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}"


def breaches(paths: Collection[Path], limits: Limits, heads: int | None = None) -> Iterator[Breach]:
    """Where `paths`, sorted by (length, path) and each once, go beyond the limits or the model's `heads`.

    In order of the paths, so that the first breach is at the first offending path.
    """
    if not paths and not limits.bare_root:
        yield Breach("empty", (), "this is plain decoding, a tree without choices", "run without Medusa")
    known, expanded = set(paths), {path[:-1] for path in paths}
    for number, path in enumerate(paths, start=1):
        yield from _length(path, limits, heads)
        yield from _rank(path, limits)
        better = (*path[:-1], path[-1] - 1)
        skips = limits.gaps_from is None or len(path) < limits.gaps_from
        if skips and path[-1] > 0 and better not in known:
            what = f"path {list(path)} skips rank {path[-1] - 1}, which this runtime counts in all the same"
            yield Breach("gap", path, what, "grow with --contiguous")
        above = path[:-1]
        if limits.siblings_first and above and above[-1] > 0 and (*above[:-1], above[-1] - 1) not in expanded:
            what = f"path {list(path)} is below {list(above)}, whose better sibling has no children"
            yield Breach("expansion", path, what, "grow with --contiguous")
        if limits.max_nodes is not None and number > limits.max_nodes:
            what = f"path {list(path)} is choice {number}, this runtime takes {limits.max_nodes}"
            yield Breach("nodes", path, what, f"grow with --budget {limits.max_nodes + 1}")
    longest = max(paths, key=len, default=())
    if limits.all_heads and longest and heads is not None and len(longest) < heads:
        what = f"path {list(longest)} has {len(longest)} guesses, this runtime drafts with all {heads} heads"
        yield Breach("all heads", longest, what, "give the chain of all heads")


def _length(path: Path, limits: Limits, heads: int | None) -> Iterator[Breach]:
    if heads is not None and len(path) > heads:
        what = f"path {list(path)} needs {len(path)} heads, the model has {heads}"
        yield Breach("heads", path, what, f"grow with --max-depth {heads}")
    if limits.max_depth is not None and len(path) > limits.max_depth:
        what = f"path {list(path)} is {len(path)} deep, this runtime reads up to {limits.max_depth}"
        yield Breach("depth", path, what, f"grow with --max-depth {limits.max_depth}")


def _rank(path: Path, limits: Limits) -> Iterator[Breach]:
    if limits.chain and any(path):
        what = f"path {list(path)} is off the chain of top guesses, which is all that this runtime drafts"
        yield Breach("chain", path, what, "grow with --max-rank 0")
    elif limits.max_rank is not None and path[-1] > limits.max_rank:
        what = f"path {list(path)} has rank {path[-1]}, this runtime reads up to {limits.max_rank}"
        yield Breach("rank", path, what, f"grow with --max-rank {limits.max_rank}")


def _most(limit: int | None) -> str:
    return "any" if limit is None else str(limit)
