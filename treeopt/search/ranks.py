"""The rank table: at every token of the model's own answers, which guess of each head was right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeopt.artifact import load_arrays, save_arrays
from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.bootstrap import ratio_interval, sums_by_prompt
from treeopt.search.split import ALL, SPLITS, half_of

UNKNOWN = -1
"""The truth lies past the end of the answer. Matches no node."""

ENDINGS = ("eos", "limit")


@dataclass(frozen=True, eq=False)
class RankTable:
    """One row for each answer token, P in all, answer by answer.

    Row o = 0..n-1 of an n-token answer is the state before `answer[o]`, which is the root; the truth of
    head k is `answer[o + k]`. `ranks` int16 [P, K] is the truth's place among head k's logits (0 = top
    guess): UNKNOWN where o + k >= n, `width` (R) where it was MISS, that is R or more. `sequence` int32
    [P] is the index of the row's answer into `ids`, `categories` and `ended` ("eos" or "limit"), `offset`
    int32 [P] its o. `probabilities` float32 [P, K, R], where they were recorded, are those that head k gave to
    its guesses of rank 0..R-1. Ranks above R are cut to R; anything else out of order raises InputError.
    """

    ranks: NDArray[Any]
    sequence: NDArray[Any]
    offset: NDArray[Any]
    ids: tuple[str, ...]
    categories: tuple[str, ...]
    ended: tuple[str, ...]
    width: int
    provenance: dict[str, Any] = field(default_factory=dict)
    probabilities: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.width, bool) or not isinstance(self.width, int | np.integer):
            raise InputError(f"ranks: width is {self.width!r:.40}; it is a whole number above 0")
        if self.ranks.ndim != 2 or not self.ranks.shape[1] or not 1 <= self.width <= np.iinfo(np.int16).max:
            raise InputError(
                f"ranks: shape {self.ranks.shape}, width {self.width}; give [positions, heads], width above 0"
            )
        if any(array.dtype.kind not in "iu" for array in (self.ranks, self.sequence, self.offset)):
            raise InputError("ranks: ranks, sequence and offset are whole numbers; give integer arrays")
        object.__setattr__(self, "ranks", np.minimum(self.ranks, self.width).astype(np.int16))
        object.__setattr__(self, "sequence", self.sequence.astype(np.int32))
        object.__setattr__(self, "offset", self.offset.astype(np.int32))
        self._check_sequences()
        self._check_ranks()
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", self.probabilities.astype(np.float32))
            self._check_probabilities(self.probabilities)

    def _check_sequences(self) -> None:
        if not len(self.ids) == len(self.categories) == len(self.ended):
            raise InputError(
                f"ranks: {len(self.ids)} ids, {len(self.categories)} categories and {len(self.ended)}"
                " endings; give one of each for every answer"
            )
        if not self.sequence.shape == self.offset.shape == (self.positions,):
            raise InputError(
                f"ranks: sequence and offset must have one entry for each of {self.positions} rows"
            )
        for name, ended in zip(self.ids, self.ended, strict=True):
            if ended not in ENDINGS:
                raise InputError(f"ranks: answer {name} ended {ended!r}; it is eos or limit")
        falls = np.flatnonzero(np.diff(self.sequence, prepend=0, append=len(self.ids) - 1) < 0)
        if self.positions and len(falls):
            row = min(falls[0], self.positions - 1)
            raise InputError(
                f"ranks: row {row} is of answer {self.sequence[row]}, out of order; rows go answer by answer,"
                f" as the {len(self.ids)} ids do"
            )
        wrong = np.flatnonzero(self.offset != np.arange(self.positions) - self._starts()[self.sequence])
        if len(wrong):
            row = wrong[0]
            raise InputError(
                f"ranks: row {row}, answer {self.ids[self.sequence[row]]} has offset {self.offset[row]};"
                " offsets of an answer run 0, 1, 2, ... without gaps"
            )

    def _check_ranks(self) -> None:
        left = self.lengths[self.sequence] - self.offset  # [P] tokens from the root to the answer's end
        past = left[:, None] <= np.arange(1, self.heads + 1)
        wrong = np.argwhere((self.ranks < UNKNOWN) | (past & (self.ranks != UNKNOWN)))
        if len(wrong):
            row, head = wrong[0]
            cause = "its truth lies past the answer's end, so it is unknown (-1)"
            if not past[row, head]:
                cause = "ranks count from 0, -1 is unknown"
            raise InputError(
                f"ranks: row {row} (answer {self.ids[self.sequence[row]]}, offset {self.offset[row]}), head"
                f" {head + 1} has rank {self.ranks[row, head]}; {cause}"
            )

    def _check_probabilities(self, given: NDArray[Any]) -> None:
        shape = (self.positions, self.heads, self.width)
        if given.shape != shape:
            raise InputError(
                f"ranks: probabilities have shape {given.shape}; give {shape}: positions, heads, ranks"
            )
        wrong = np.argwhere(~((given >= 0) & (given <= 1)) | (np.diff(given, axis=2, prepend=1) > 0))
        if len(wrong):
            row, head, rank = wrong[0]
            raise InputError(
                f"ranks: row {row} (answer {self.ids[self.sequence[row]]}, offset {self.offset[row]}), head {head + 1}"
                f" gives rank {rank} the probability {given[row, head, rank]:.6g}; they are 0 to 1 and never rise"
                " with rank"
            )

    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.lengths)])[:-1]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each answer [sequences]."""
        return np.bincount(self.sequence, minlength=len(self.ids))

    @property
    def heads(self) -> int:
        """K."""
        return int(self.ranks.shape[1])

    @property
    def positions(self) -> int:
        """P."""
        return int(self.ranks.shape[0])

    def trials(self) -> NDArray[np.int64]:
        """Positions [K] at which each head's truth is known; later heads have fewer."""
        known: NDArray[np.int64] = (self.ranks != UNKNOWN).sum(axis=0, dtype=np.int64)
        return known

    def accuracy(self, seed: int = 0) -> AccuracyTable:
        """Share of each rank in each head's own trials, with 95 % intervals by bootstrap over prompts."""
        if not self.ids:
            raise InputError("ranks: no answers, so no accuracies; calibrate on some prompts")
        cells = self.width + 2  # UNKNOWN, the ranks, MISS
        hits = np.zeros((len(self.ids), self.heads, cells), np.int64)
        np.add.at(hits, (self.sequence[:, None], np.arange(self.heads), self.ranks - UNKNOWN), 1)
        hits = sums_by_prompt(self.ids, hits)[..., 1:]  # [prompts, K, R + 1]
        trials = hits.sum(axis=-1, keepdims=True)
        hits = hits[..., :-1]
        values = hits.sum(axis=0) / np.maximum(trials.sum(axis=0), 1)
        low, high = ratio_interval(hits, trials, np.random.default_rng(seed))
        return AccuracyTable(values, trials=self.trials(), low=low, high=high)

    def split(self, half: str) -> "RankTable":
        """Answers to one half of the prompts, `calibrate` or `evaluate`, or `all`; InputError for none."""
        if half not in SPLITS:
            raise InputError(f"split: {half!r} is none of {', '.join(SPLITS)}")
        chosen = [index for index, name in enumerate(self.ids) if half in (ALL, half_of(name))]
        if not chosen:
            raise InputError(
                f"ranks: none of {len(self.ids)} answers is in the {half} half; add prompts or take all"
            )
        return self.select(chosen)

    def select(self, sequences: Sequence[int]) -> "RankTable":
        """The answers with these indices, in this order; one may be taken twice, as a bootstrap does."""
        starts, lengths = self._starts(), self.lengths
        rows = [np.arange(starts[index], starts[index] + lengths[index]) for index in sequences]
        row = np.concatenate([np.empty(0, np.int64), *rows])
        return RankTable(
            ranks=self.ranks[row],
            sequence=np.repeat(np.arange(len(rows)), [len(block) for block in rows]),
            offset=self.offset[row],
            ids=tuple(self.ids[index] for index in sequences),
            categories=tuple(self.categories[index] for index in sequences),
            ended=tuple(self.ended[index] for index in sequences),
            width=self.width,
            provenance=self.provenance,
            probabilities=None if self.probabilities is None else self.probabilities[row],
        )

    def save(self, path: str | Path) -> None:
        """Write `ranks.safetensors`: the arrays, all else as JSON in the header."""
        arrays = {"ranks": self.ranks, "sequence": self.sequence, "offset": self.offset}
        if self.probabilities is not None:
            arrays["probabilities"] = self.probabilities
        metadata = {
            "ids": self.ids,
            "categories": self.categories,
            "ended": self.ended,
            "width": self.width,
            "provenance": self.provenance,
        }
        save_arrays(path, arrays, "ranks", metadata)

    @classmethod
    def load(cls, path: str | Path) -> "RankTable":
        """Read what `save` wrote; `rank_files.read_ranks` reads CSV and NPZ too. InputError for anything else."""
        arrays, metadata = load_arrays(path, "ranks")
        try:
            return cls(
                ranks=arrays["ranks"],
                sequence=arrays["sequence"],
                offset=arrays["offset"],
                ids=listed(metadata, "ids"),
                categories=listed(metadata, "categories"),
                ended=listed(metadata, "ended"),
                width=metadata["width"],
                provenance=origin(metadata),
                probabilities=arrays.get("probabilities"),
            )
        except KeyError as error:
            raise InputError(f"{path}: has no {error.args[0]}; calibrate again") from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def listed(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts that a table's header has under `name`; InputError for anything else."""
    texts = metadata[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name} is no list of texts; calibrate again")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} has half a surrogate pair, which is no character; calibrate again"
        ) from error
    return tuple(texts)


def origin(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance in a table's header; InputError for anything else."""
    facts = metadata["provenance"]
    if not isinstance(facts, dict):
        raise InputError(f"provenance is {facts!r:.40}, not an object; calibrate again")
    return facts
