"""Hidden states of answers, computed once and kept on disk, so that heads train without the backbone."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from treeopt.artifact import sha256_bytes, write_text
from treeopt.errors import InputError
from treeopt.measure.generations import Generation
from treeopt.measure.states import answer_states, batches
from treeopt.model.backbone import Backbone


class StatesFile:
    """States [P, H] of all answer rows, memory-mapped, answer by answer, in the backbone's dtype."""

    def __init__(self, path: Path, lengths: Sequence[int], size: int, dtype: torch.dtype) -> None:
        rows = sum(lengths)
        try:
            flat = torch.from_file(str(path), shared=True, size=rows * size, dtype=dtype)
        except RuntimeError as error:
            raise InputError(f"{path}: cannot be mapped ({' '.join(str(error).split())})") from error
        self._answers = flat.view(rows, size).split(list(lengths))

    def rows(self, number: int) -> torch.Tensor:
        """States [n, H] of the answer that stood at `number` in the list, from 0."""
        return self._answers[number]

    @classmethod
    def of(cls, path: Path, backbone: Backbone, generations: Sequence[Generation]) -> "StatesFile":
        """The states of these answers: those in `path` where it holds just them, else computed into it.

        Errors: InputError when the file cannot be written, or an answer is longer than the model's context.
        """
        lengths = [len(generation.answer_ids) for generation in generations]
        origin = _origin(backbone, generations)
        note, size = path.with_suffix(".json"), sum(lengths) * backbone.hidden_size * backbone.dtype.itemsize
        if not (_is_of(note, origin) and path.is_file() and path.stat().st_size == size):
            note.unlink(missing_ok=True)
            _allocate(path, size)
            states = cls(path, lengths, backbone.hidden_size, backbone.dtype)
            number = {id(generation): index for index, generation in enumerate(generations)}
            for batch in tqdm(list(batches(generations)), desc="hidden states", unit="batch", disable=None):
                parts = answer_states(backbone, batch).cpu().split([len(g.answer_ids) for g in batch])
                for generation, part in zip(batch, parts, strict=True):
                    states.rows(number[id(generation)]).copy_(part)
            write_text(note, json.dumps(origin))
        return cls(path, lengths, backbone.hidden_size, backbone.dtype)


def answers_sha256(generations: Sequence[Generation]) -> str:
    """Content hash of answers and their prompts, in their order."""
    texts = json.dumps([[g.key, g.prompt_ids, g.answer_ids] for g in generations])
    return sha256_bytes(texts.encode())


def _origin(backbone: Backbone, generations: Sequence[Generation]) -> dict[str, object]:
    """What the states depend on."""
    return {
        "model_sha256": backbone.sha256,
        "dtype": backbone.dtype_name,
        "answers_sha256": answers_sha256(generations),
    }


def _is_of(note: Path, origin: dict[str, object]) -> bool:
    """Whether the note beside states says that they are of this origin."""
    try:
        return bool(json.loads(note.read_text()) == origin)
    except (OSError, ValueError):
        return False


def _allocate(path: Path, size: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)
            if hasattr(
                os, "posix_fallocate"
            ):  # a mapped file that then finds the disk full would kill the process
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
