"""treeopt finds the candidate tree that makes a Medusa model fastest on the hardware at hand, and proves it.

Words, the same everywhere:

* B batch, S context tokens already in the cache, P positions, K heads, R ranks kept, N nodes with the root,
  D depth, V vocabulary, H hidden size.
* Head k, of k = 1..K, drafts the token k places after the root. Rank 0 is a head's top guess.
* The root is the token the backbone itself drew: every step emits it, so a step emits at least one token.
* A *path* is a tuple of ranks, one for each head from the first on; it names a node. *Choices* are all paths
  of a tree without the root. A budget of 64 means 64 verified tokens: 63 choices and the root.
* *Tokens per step* counts the root; plain decoding has 1.0. *Overhead* is the latency of a step over that of
  a plain step. *Speedup* is tokens per step over overhead. (Cai et al. 2024, App. B.1, call the first the
  acceleration rate.)
* Units stand in names: `latency_ms`, `tokens_per_s` (summed over the batch).

The names below load their module on first use, so that `import treeopt` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeopt.errors import InputError, MismatchError, TreeoptError, UnsupportedError
    from treeopt.search.accuracy import AccuracyTable
    from treeopt.search.choose import Choice, choose
    from treeopt.search.coverage import PassTable, grow_coverage
    from treeopt.search.estimate import Independent, Joint, Shrunk
    from treeopt.search.grow import Growth, grow
    from treeopt.search.latency import LatencyProfile
    from treeopt.search.on_policy import on_policy
    from treeopt.search.ranks import RankTable
    from treeopt.search.replay import Replay, replay, replay_all
    from treeopt.tree import ROOT, Tree

__version__ = "0.1.0"

__all__ = [
    "ROOT",
    "AccuracyTable",
    "Choice",
    "Growth",
    "Independent",
    "InputError",
    "Joint",
    "LatencyProfile",
    "MismatchError",
    "PassTable",
    "RankTable",
    "Replay",
    "Shrunk",
    "Tree",
    "TreeoptError",
    "UnsupportedError",
    "__version__",
    "choose",
    "grow",
    "grow_coverage",
    "on_policy",
    "replay",
    "replay_all",
]

_MODULES = {
    "treeopt.tree": ("ROOT", "Tree"),
    "treeopt.errors": ("InputError", "MismatchError", "TreeoptError", "UnsupportedError"),
    "treeopt.search.accuracy": ("AccuracyTable",),
    "treeopt.search.choose": ("Choice", "choose"),
    "treeopt.search.coverage": ("PassTable", "grow_coverage"),
    "treeopt.search.estimate": ("Independent", "Joint", "Shrunk"),
    "treeopt.search.grow": ("Growth", "grow"),
    "treeopt.search.latency": ("LatencyProfile",),
    "treeopt.search.on_policy": ("on_policy",),
    "treeopt.search.ranks": ("RankTable",),
    "treeopt.search.replay": ("Replay", "replay", "replay_all"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'treeopt' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
