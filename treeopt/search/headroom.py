"""What a runtime with dynamic trees would get: trees rebuilt at every step beside one fixed tree of the same size."""

from collections.abc import Sequence

import numpy as np

from treeopt.errors import InputError
from treeopt.search.accuracy import Floats
from treeopt.search.compare import INDEPENDENT, Compared, Tally, fold_pairs
from treeopt.search.dynamic import NEVER, Paths, even_threshold, likeliest_paths, replay_dynamic
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.ranks import RankTable
from treeopt.search.reliability import cross_calibrated
from treeopt.search.replay import replay_all
from treeopt.search.split import folds_by_prompt

REBUILT, THRESHOLD, CALIBRATED = "rebuilt", "rebuilt, threshold", ", calibrated"

CAP = 4
"""Largest tree under a threshold, in sizes of the average one."""


def headroom(table: RankTable, sizes: Sequence[int], *, folds: int = 5, seed: int = 0) -> list[Compared]:
    """The fixed `independent` tree and trees rebuilt at every step from the heads' probabilities, at each size N.

    `rebuilt` has the N - 1 likeliest paths of every row; `rebuilt, threshold` all paths above one probability, the
    same for all steps, by which its trees have N nodes on average over the steps taken, and CAP * N at most. Both
    from the probabilities as the heads give them, and calibrated. Trees are grown and probabilities calibrated on
    the other folds by prompt; only the threshold is set on the prompts that it is judged on, by size alone. What
    rebuilt trees predict is the mean, over the steps taken, of the sum of their paths' probabilities. InputError for
    a table without probabilities, and for answers to fewer than two prompts.
    """
    if table.probabilities is None:
        raise InputError("ranks: have no probabilities; make them with `treeopt calibrate --probabilities`")
    tallies = {(INDEPENDENT, size): Tally(table) for size in sizes}
    for fitted, judged in fold_pairs(table, folds):
        growth = grow(Independent.of_ranks(fitted), max(sizes))
        grown = [min(size, growth.size) for size in sizes]
        replays = replay_all(judged, [growth.tree(size) for size in grown])
        for size, nodes, replayed in zip(sizes, grown, replays, strict=True):
            predicted = float(growth.tokens_per_step[nodes - 1])
            tallies[INDEPENDENT, size].add(replayed, nodes, predicted)
    if not tallies[INDEPENDENT, sizes[0]].steps.any():
        raise InputError("headroom: all answer tokens are of one prompt; add prompts to judge on")
    calibrated = cross_calibrated(table, folds_by_prompt(table.ids, folds))
    for suffix, probabilities in (("", table.probabilities), (CALIBRATED, calibrated)):
        tallies |= _rebuilt(table, probabilities, sizes, suffix)
    return [
        tally.line(name, size, tallies[INDEPENDENT, size], seed) for (name, size), tally in tallies.items()
    ]


def _rebuilt(
    table: RankTable, probabilities: Floats, sizes: Sequence[int], suffix: str
) -> dict[tuple[str, int], Tally]:
    """Both kinds of rebuilt trees from these probabilities, by name and size."""
    paths = likeliest_paths(probabilities, table.ranks, CAP * max(sizes) - 1)
    tallies = {}
    for size in sizes:
        tallies[f"{REBUILT}{suffix}", size] = _tally(table, paths, size, NEVER - 1)
        cost = even_threshold(table, paths, size, CAP * size)
        tallies[f"{THRESHOLD}{suffix}", size] = _tally(table, paths, CAP * size, cost)
    return tallies


def _tally(table: RankTable, paths: Paths, most: int, cost: int) -> Tally:
    replayed = replay_dynamic(table, paths.accepted(most, cost))
    nodes = paths.sizes(most, cost)[replayed.rows]
    tally = Tally(table)
    tally.add(replayed, float(np.mean(nodes)), paths.expected(replayed.rows, nodes))
    return tally
