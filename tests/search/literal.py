"""The definitions of the estimates, row by row over Python lists: the slow twins."""

from itertools import product

from treeopt.search.ranks import UNKNOWN


def paths_of(table):
    """Every path of a table's heads and ranks, by length, then ranks."""
    lengths = range(1, table.heads + 1)
    return [path for length in lengths for path in product(range(table.width), repeat=length)]


def followers(table, path, weights=None):
    """Weighted counts of what comes after `path`, of rows whose next rank is known: by rank, width is a miss."""
    counts = dict.fromkeys(range(table.width + 1), 0)
    for row, ranks in enumerate(table.ranks.tolist()):
        if tuple(ranks[: len(path)]) == path and ranks[len(path)] != UNKNOWN:
            counts[ranks[len(path)]] += 1 if weights is None else int(weights[row])
    return counts


def head_counts(table, head, weights=None):
    """Weighted counts of all known ranks of one head (from 0)."""
    counts = dict.fromkeys(range(table.width + 1), 0)
    for row, ranks in enumerate(table.ranks.tolist()):
        if ranks[head] != UNKNOWN:
            counts[ranks[head]] += 1 if weights is None else int(weights[row])
    return counts


def shares(counts):
    """Counts as shares of their sum; zeros where nothing was counted."""
    total = sum(counts.values())
    return {rank: count / total if total else 0.0 for rank, count in counts.items()}


def shrunk(table, path, kappa, weights=None):
    """Probability of each rank after `path`, drawn towards the head's accuracies; None where undefined."""
    counts = followers(table, path, weights)
    accuracies = shares(head_counts(table, len(path), weights))
    known = sum(counts.values())
    if kappa == float("inf") or not path:
        return accuracies
    if known + kappa == 0:
        return dict.fromkeys(counts, 0.0)
    return {rank: (counts[rank] + kappa * accuracies[rank]) / (known + kappa) for rank in counts}


def values(table, kappas, weights=None):
    """Value of every path: the product of the shrunk probabilities down it; `kappas` from depth 2 on."""
    found = {(): 1.0}
    for path in paths_of(table):
        above = path[:-1]
        kappa = kappas[len(above) - 1] if above else 0.0
        found[path] = found[above] * shrunk(table, above, kappa, weights)[path[-1]] if found[above] else 0.0
    del found[()]
    return found
