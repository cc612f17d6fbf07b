"""Estimators, and trees that know no accuracies, side by side: replayed on prompts that nothing was fitted to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treeopt.errors import InputError
from treeopt.search.baselines import best_dense, random_dense
from treeopt.search.bootstrap import Floats, interval, resampled_ratios
from treeopt.search.estimate import ESTIMATORS
from treeopt.search.grow import Growth, grow
from treeopt.search.on_policy import on_policy
from treeopt.search.prefixes import marginals
from treeopt.search.ranks import RankTable
from treeopt.search.replay import Replay, Steps, replay_all
from treeopt.search.split import folds_by_prompt
from treeopt.tree import Tree

RANDOM_DENSE = 16
"""Random dense trees of each size; what they take is added up."""

CANDIDATES = 16
"""Dense trees, best by expectation, of which the best by replay of the fitted prompts is taken."""

INDEPENDENT, VISITED, RANDOM, DENSE = "independent", ", visited rows", "random dense", "best dense"

Interval = tuple[float, float]


@dataclass(frozen=True)
class Compared:
    """One way to a tree at one size N: tokens per step over all prompts, by replay, with a 95 % interval.

    `difference` is to `independent` at the same N. `predicted` is what the way itself expected; None where
    it expects nothing. `nodes` is the mean size of its trees, which may be below N.
    """

    name: str
    tokens: int
    nodes: float
    predicted: float | None
    tokens_per_step: float
    interval: Interval
    difference: float
    difference_interval: Interval


class Tally:
    """What one way emitted and took on each prompt [prompts] of a table, added up over folds and trees."""

    def __init__(self, table: RankTable) -> None:
        prompts = self._prompts = {name: place for place, name in enumerate(dict.fromkeys(table.ids))}
        self.emitted, self.steps = np.zeros(len(prompts), np.int64), np.zeros(len(prompts), np.int64)
        self._nodes: list[float] = []
        self._expected_steps: list[float] = []

    def add(self, replayed: Steps, nodes: float, predicted: float | None = None) -> None:
        """Add a replay of some of the prompts with trees of so many `nodes`, on average."""
        emitted, steps = replayed.by_prompt()
        prompts = [self._prompts[name] for name in dict.fromkeys(replayed.ids)]
        self.emitted[prompts] += emitted
        self.steps[prompts] += steps
        self._nodes.append(nodes)
        if predicted is not None:
            self._expected_steps.append(replayed.emitted / predicted)

    @property
    def nodes(self) -> float:
        """Mean size of what was added."""
        return float(np.mean(self._nodes))

    @property
    def tokens_per_step(self) -> float:
        """By all tokens and all steps."""
        return float(self.emitted.sum() / self.steps.sum())

    @property
    def predicted(self) -> float | None:
        """Tokens over the steps that were expected for them."""
        return float(self.emitted.sum() / sum(self._expected_steps)) if self._expected_steps else None

    def resampled(self, seed: int) -> Floats:
        """Tokens per step of prompts drawn with replacement, the same draws for all ways of one seed."""
        return resampled_ratios(self.emitted, self.steps, np.random.default_rng(seed))

    def line(self, name: str, size: int, independent: "Tally", seed: int) -> Compared:
        """What was added, beside what was added for `independent`."""
        resampled = self.resampled(seed)
        return Compared(
            name=name,
            tokens=size,
            nodes=self.nodes,
            predicted=self.predicted,
            tokens_per_step=self.tokens_per_step,
            interval=interval(resampled),
            difference=self.tokens_per_step - independent.tokens_per_step,
            difference_interval=interval(resampled - independent.resampled(seed)),
        )


def compare(
    table: RankTable,
    sizes: Sequence[int],
    trees: Mapping[str, Tree] | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> list[Compared]:
    """Each estimator with and without visited rows, dense trees, and the given `trees`, at each size N.

    In folds by prompt: grown from the other folds, replayed on one, added up over all. The given trees are
    fitted to nothing here, so they are replayed on all prompts, each at its own size. Intervals are by
    bootstrap over prompts, the same draws for all. InputError for a tree that the ranks cannot judge, and for
    answers to fewer than two prompts.
    """
    tallies: dict[tuple[str, int], Tally] = {}

    def add(name: str, size: int, replayed: Replay, predicted: float | None = None) -> None:
        tallies.setdefault((name, size), Tally(table)).add(replayed, replayed.tree.size, predicted)

    given = dict(trees or {})
    for fitted, judged in fold_pairs(table, folds):
        ways = _ways(fitted, sizes, {tree.size for tree in given.values()})
        replays = replay_all(judged, [tree for _, _, tree, _ in ways])
        for (name, size, _, predicted), replayed in zip(ways, replays, strict=True):
            add(name, size, replayed, predicted)
    if not tallies:
        raise InputError("compare: all answer tokens are of one prompt; add prompts to judge on")
    rng = np.random.default_rng(seed)
    fixed = [(name, tree.size, tree) for name, tree in given.items()]
    for size in sizes:
        shapes = [random_dense(rng, table.heads, size, table.width - 1) for _ in range(RANDOM_DENSE)]
        fixed += [(RANDOM, size, tree) for tree in shapes]
    for (name, size, _), replayed in zip(fixed, replay_all(table, [tree for *_, tree in fixed]), strict=True):
        add(name, size, replayed)
    return [
        tally.line(name, size, tallies[INDEPENDENT, size], seed) for (name, size), tally in tallies.items()
    ]


def fold_pairs(table: RankTable, folds: int) -> Iterator[tuple[RankTable, RankTable]]:
    """For each fold of the prompts: the answers of the others, to fit on, and its own; none where either is empty."""
    fold = folds_by_prompt(table.ids, folds)
    for number in range(folds):
        fitted, judged = (
            table.select(np.flatnonzero(own).tolist()) for own in (fold != number, fold == number)
        )
        if fitted.positions and judged.positions:
            yield fitted, judged


Way = tuple[str, int, Tree, float | None]


def _ways(fitted: RankTable, sizes: Sequence[int], more: set[int]) -> list[Way]:
    """Name, size, tree and expected tokens per step of all that is fitted; `more` sizes of `independent` alone."""
    found: list[Way] = []
    for name, make in ESTIMATORS.items():
        own = sorted({*sizes, *more}) if name == INDEPENDENT else sizes
        growth = grow(make(fitted, None), max(own))
        found += [_of_growth(name, size, growth) for size in own]
        found += [_of_growth(f"{name}{VISITED}", size, on_policy(fitted, make, size)) for size in sizes]
    for size in sizes:
        candidates = best_dense(marginals(fitted), size, CANDIDATES)
        replays = replay_all(fitted, [tree for tree, _ in candidates])
        best = max(range(len(candidates)), key=lambda place: replays[place].tokens_per_step)
        found.append((DENSE, size, *candidates[best]))
    return found


def _of_growth(name: str, size: int, growth: Growth) -> Way:
    grown = min(size, growth.size)
    return name, size, growth.tree(grown), float(growth.tokens_per_step[grown - 1])
