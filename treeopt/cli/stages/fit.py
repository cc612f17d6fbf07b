"""What growth must keep to so that runtimes can express its trees, and a tree fitted to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treeopt.cli.growing import ESTIMATORS, PUBLISHED, Growing
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.grow import from_ranks
from treeopt.errors import UnsupportedError
from treeopt.export.format import Format
from treeopt.export.limits import breaches
from treeopt.search.choose import choose
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay_all
from treeopt.tree import Tree, chain


@dataclass(frozen=True)
class Fitted:
    """The best tree found under a runtime's limits, in the place of another: tokens per step of both by replay."""

    tree: Tree
    after: float
    before: float
    changed: bool

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "choices": self.tree.choices,
            "tokens_per_step": self.after,
            "tokens_per_step_lost": self.before - self.after,
        }

    def __str__(self) -> str:
        kind = "chain" if self.tree == chain(self.tree.depth) else "tree"
        lost = self.before - self.after
        return (
            f"{lost:.3f} tokens per step are lost" if lost >= 0 else f"{-lost:.3f} tokens per step are won"
        ) + (
            f": the {kind} of {self.tree.size} tokens takes {self.after:.3f}, the tree as it was {self.before:.3f},"
            " replayed on the evaluate half"
        )


def growth_limits(formats: Sequence[Format], growing: Growing = PUBLISHED) -> dict[str, Any]:
    """Arguments of growth under which its trees suit all `formats`.

    Accuracies are pooled where ranks may not be skipped: then a node is worth no more than its better sibling, nor
    its first child than the sibling's, so that no rank is skipped and siblings get children in order.
    UnsupportedError where another estimator is asked for then.
    """
    limits = [format.limits for format in formats]
    depths = [limit.max_depth for limit in limits if limit.max_depth is not None]
    ranks = [0 if limit.chain else limit.max_rank for limit in limits]
    pooled = [format for format in formats if not format.limits.chain and format.limits.gaps_from != 1]
    if pooled and growing.estimator != PUBLISHED.estimator:
        raise UnsupportedError(
            f"{pooled[0].name}: takes no tree that skips a rank, which --estimator {growing.estimator} may do; leave"
            " --estimator out"
        )
    return {
        "max_depth": min(depths, default=None),
        "max_rank": min((rank for rank in ranks if rank is not None), default=None),
        "contiguous": bool(pooled),
    }


def fit(run: RunDirectory, tree: Tree, format: Format, provenance: Mapping[str, Any]) -> Fitted:
    """The best tree found that `format` can express, in the place of `tree`; `tree` itself where it can.

    Grown from the run's calibrate half to as many nodes, by the estimator that the provenance names where the limits
    allow. For runtimes without trees it is the chain that is fastest by the run's latency at the provenance's batch
    and context. UnsupportedError where that is plain decoding, InputError where ranks or latency are not there.
    """
    table = read_ranks(run.ranks)
    if not any(breaches(tree.choices, format.limits, table.heads)):
        fitted = tree
    elif format.limits.all_heads:
        fitted = chain(table.heads)
    elif format.limits.chain:
        fitted = _best_chain(run, table, format, provenance)
    else:
        growth = regrow(run, tree.size, format, provenance)
        fitted = growth.tree(growth.size)
    before, after = replay_all(table.split("evaluate"), [tree, fitted])
    return Fitted(fitted, after.tokens_per_step, before.tokens_per_step, changed=fitted != tree)


def regrow(run: RunDirectory, budget: int, format: Format, provenance: Mapping[str, Any]) -> Growth:
    """Growth that `format` can express, from the run's calibrate half: chains for runtimes without trees.

    By the estimator that the provenance names, where the limits allow.
    """
    growing = _growing(provenance, format)
    most = format.limits.max_nodes
    budget = budget if most is None else min(budget, most + 1)
    return from_ranks(run.ranks, budget, growing=growing, **growth_limits([format], growing))


def _best_chain(run: RunDirectory, table: RankTable, format: Format, provenance: Mapping[str, Any]) -> Tree:
    profile = LatencyProfile.read(run.latency)
    growth = from_ranks(run.ranks, table.heads + 1, max_rank=0)
    choices = {
        (choice.batch, choice.context): choice.tree
        for choice in choose(profile, growth, table.split("calibrate"))
    }
    setting = (provenance.get("batch"), provenance.get("context"))
    tree = choices.get(setting, next(iter(choices.values())))  # type: ignore[arg-type] # whatever a file says
    if not tree.choices:
        raise UnsupportedError(
            f"{format.name}: no chain of top guesses is faster than plain decoding by {run.latency}; run without Medusa"
        )
    return tree


def _growing(provenance: Mapping[str, Any], format: Format) -> Growing:
    """How the tree was grown, as far as the limits allow it again."""
    name, *_ = str(provenance.get("estimator")).split() or [""]
    name = name.rstrip(",")
    known = name in ESTIMATORS and format.limits.gaps_from == 1
    return Growing(name if known else PUBLISHED.estimator, provenance.get("on_policy") is True)
