"""How often each guess of each head is right: the table that the product model grows trees from."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from treeopt.artifact import write_text
from treeopt.errors import InputError

Floats = NDArray[np.float64]

ROUNDING = 1e-6
"""By how much a row of accuracies may sum above 1: published tables are rounded."""


@dataclass(frozen=True, eq=False)
class AccuracyTable:
    """Accuracies `values` [K, R]: entry [k - 1, i] is how often head k's guess of rank i is right.

    This is a_k^(i) of Cai et al. 2024, sec. 2.3.3: of exactly the i-th guess, so a row sums to at most 1.
    `trials` [K] is how many positions each head was judged on; `low` and `high` [K, R] are the ends of 95
    % intervals. All three are None where they are not known. InputError names `where`, the head (from 1)
    and the rank (from 0).
    """

    values: Floats
    _: KW_ONLY
    trials: NDArray[np.int64] | None = None
    low: Floats | None = None
    high: Floats | None = None
    where: InitVar[str] = "accuracies"

    def __post_init__(self, where: str) -> None:
        if self.values.ndim != 2 or 0 in self.values.shape:
            raise InputError(f"{where}: shape {self.values.shape}; give a matrix of heads x ranks")
        require_shares(self.values, where)
        for head, total in enumerate(self.values.sum(axis=1), start=1):
            if total > 1 + ROUNDING:
                raise InputError(
                    f"{where}: head {head} sums to {total:.6g}, above 1; give accuracies of exactly each"
                    " guess, or say that the table is cumulative"
                )

    @classmethod
    def from_cumulative(
        cls, values: Floats, *, trials: NDArray[np.int64] | None = None, where: str = "accuracies"
    ) -> "AccuracyTable":
        """From top-i accuracies [K, R]: [k - 1, i] is how often head k's first i + 1 guesses hold the truth."""
        require_shares(values, where)
        falls = np.argwhere(np.diff(values, axis=1) < 0)
        if len(falls):
            head, rank = falls[0]
            raise InputError(
                f"{where}: head {head + 1} falls from {values[head, rank]:.6g} at rank {rank} to"
                f" {values[head, rank + 1]:.6g} at rank {rank + 1}; cumulative accuracies never fall"
            )
        return cls(np.diff(values, axis=1, prepend=0.0), trials=trials, where=where)

    @classmethod
    def from_hits(cls, hits: Sequence[NDArray[Any]], *, where: str = "hits") -> "AccuracyTable":
        """From one boolean array [trials, R] a head, true where the guess of that rank was right.

        Each head is divided by its own number of trials.
        """
        if len({array.shape[1:] for array in hits}) != 1 or hits[0].ndim != 2:
            shapes = [array.shape for array in hits]
            raise InputError(
                f"{where}: shapes {shapes}; give one [trials, ranks] a head, ranks the same for all"
            )
        trials = np.array([len(array) for array in hits])
        values = np.stack([array.sum(axis=0) for array in hits]) / np.maximum(trials, 1)[:, None]
        return cls(values, trials=trials, where=where)

    @property
    def heads(self) -> int:
        """K."""
        return int(self.values.shape[0])

    @property
    def width(self) -> int:
        """R: ranks kept."""
        return int(self.values.shape[1])

    def contiguous(self) -> "AccuracyTable":
        """Each head pooled to accuracies that do not rise with rank, so that no tree skips a rank.

        Least squares under that order (isotonic regression); the intervals do not survive pooling.
        """
        pooled = [isotonic_regression(row, increasing=False).x for row in self.values]
        return AccuracyTable(np.stack(pooled), trials=self.trials)

    def few_trials(self, at_least: int = 200) -> list[int]:
        """Heads (from 1) judged on fewer positions than that; none where the trials are not known."""
        return (
            [] if self.trials is None else [int(head) for head in np.flatnonzero(self.trials < at_least) + 1]
        )

    def write_csv(self, path: str | Path) -> None:
        """Write `head,rank,accuracy` (head from 1, rank from 0), then `trials`, `low`, `high` where known."""
        columns: dict[str, NDArray[Any]] = {"accuracy": self.values}
        if self.trials is not None:
            columns["trials"] = np.broadcast_to(self.trials[:, None], self.values.shape)
        if self.low is not None and self.high is not None:
            columns |= {"low": self.low, "high": self.high}
        lines = [",".join(["head", "rank", *columns])]
        for head, rank in np.ndindex(self.values.shape):
            cells = [str(column[head, rank]) for column in columns.values()]
            lines.append(",".join([str(head + 1), str(rank), *cells]))
        write_text(path, "\n".join(lines) + "\n")


def require_shares(values: Floats, where: str) -> None:
    """InputError for the first entry of [K, R] that is not a number from 0 to 1."""
    wrong = np.argwhere(~((values >= 0) & (values <= 1)))
    if len(wrong):
        head, rank = wrong[0]
        raise InputError(
            f"{where}: head {head + 1}, rank {rank} is {values[head, rank]:.6g}; accuracies lie from 0 to 1"
        )
