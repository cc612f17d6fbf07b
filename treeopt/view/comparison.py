"""A comparison of ways to a tree, as text."""

from collections.abc import Sequence

from treeopt.search.compare import Compared
from treeopt.view.tables import table


def compared_table(lines: Sequence[Compared]) -> str:
    """A line for each size and way: the predicted beside the replayed, and the difference to independent."""
    rows = []
    for line in sorted(lines, key=lambda line: line.tokens):
        low, high = line.difference_interval
        rows.append([str(line.tokens), line.name, f"{line.nodes:.0f}", line.predicted, line.tokens_per_step])
        rows[-1] += [f"{line.difference:+.4f}", f"{low:+.4f} to {high:+.4f}"]
    return table(["N", "way", "nodes", "predicted", "replayed", "difference", "95 %"], rows)
