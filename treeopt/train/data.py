"""From answers to training batches. Only the model's own tokens carry loss, by the spans that generation recorded.

An item is one answer. A batch holds padded `tokens` [B, T] with the flat index of the answers' `rows` [P] in them, or,
where hidden states were computed before, those rows' `states` [P, H]; and `truths` [K + 1, P]: row 0 is what the
backbone itself should say at each answer row, row k what head k should. UNKNOWN carries no loss.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset

from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.measure.states import answer_truths
from treeopt.train.states_file import StatesFile


@dataclass(frozen=True)
class Split:
    """Answers to learn from, answers of other prompts to judge on, and how many were too short for either."""

    train: list[Generation]
    held_out: list[Generation]
    skipped: int


def split_answers(
    generations: Sequence[Generation], *, heads: int, held_out: float, context_limit: int, seed: int
) -> Split:
    """Hold out a share of the prompts, at least one where there are two, with all their turns.

    Skipped are answers of fewer than heads + 2 tokens, in which the last head has nothing to learn. Errors:
    InputError when no answer is left to learn from, or one is longer than the model's context.
    """
    usable = [g for g in generations if len(g.answer_ids) >= heads + 2]
    for g in usable:
        if len(g.prompt_ids) + len(g.answer_ids) - 1 > context_limit:
            raise InputError(f"answer {g.key}: longer than the model's context of {context_limit}; remove it")
    prompts = sorted({g.id for g in usable})
    random.Random(seed).shuffle(prompts)
    least = 1 if held_out > 0 and len(prompts) > 1 else 0
    apart = set(prompts[: max(least, int(len(prompts) * held_out))])
    train = [g for g in usable if g.id not in apart]
    if not train:
        raise InputError(
            f"none of {len(generations)} answers has the {heads + 2} tokens that {heads} heads learn from;"
            " generate more, or longer ones"
        )
    return Split(train, [g for g in usable if g.id in apart], len(generations) - len(usable))


def prompts_sha256(generations: Sequence[Generation]) -> str:
    """A hash of the prompts that answers are to, whatever the answers say and in whatever order."""
    prompts = sorted((g.id, g.prompt_ids) for g in generations if g.turn == 0)
    return hashlib.sha256(repr(prompts).encode()).hexdigest()


class Answers(Dataset[int]):
    """The indices of a list of answers; `collate` makes batches of them.

    With `states`, the first answer's are at number `first` there.
    """

    def __init__(
        self,
        generations: Sequence[Generation],
        heads: int,
        states: StatesFile | None = None,
        first: int = 0,
    ) -> None:
        self.generations = generations
        self.heads = heads
        self._states = states
        self._first = first

    def __len__(self) -> int:
        return len(self.generations)

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, indices: Sequence[int]) -> dict[str, torch.Tensor]:
        """A batch of the answers named."""
        batch = [self.generations[index] for index in indices]
        own = torch.cat([torch.tensor(g.answer_ids) for g in batch])
        truths = torch.cat([own[None], answer_truths(batch, self.heads)])
        if self._states is not None:
            states = [self._states.rows(self._first + index) for index in indices]
            return {"states": torch.cat(states), "truths": truths}
        texts = [g.prompt_ids + g.answer_ids[:-1] for g in batch]
        width = max(map(len, texts))
        tokens = torch.tensor([text + [0] * (width - len(text)) for text in texts])
        rows = [
            torch.arange(len(g.answer_ids)) + number * width + len(g.prompt_ids) - 1
            for number, g in enumerate(batch)
        ]
        return {"tokens": tokens, "rows": torch.cat(rows), "truths": truths}
