"""Answers of the backbone as stored: one JSON line each, appended as they finish, with their origin beside them."""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import Lock, read_json, require_match, write_json
from treeopt.errors import InputError
from treeopt.measure.prompts import HALF_SURROGATE
from treeopt.search.split import ALL, half_of

ENDED = ("eos", "limit")
MUST_MATCH = ("model_sha256", "template", "temperature", "top_p", "top_k", "seed", "max_new_tokens")
UNFILTERED = {"top_p": 1.0, "top_k": 0}
"""What answers were made with whose provenance is older than these settings."""


@dataclass(frozen=True)
class Generation:
    """One answer: token ids of the prompt and of the answer, which includes its end token where `ended` is eos."""

    id: str
    category: str
    turn: int
    prompt_ids: list[int]
    answer_ids: list[int]
    ended: str

    @property
    def key(self) -> str:
        """The name of this answer among all: the prompt's id, with the turn for follow-ups."""
        return turn_key(self.id, self.turn)


def turn_key(prompt_id: str, turn: int) -> str:
    """How an answer is called: by its prompt's id, with the turn (from 0) for follow-ups."""
    return prompt_id if turn == 0 else f"{prompt_id}#{turn}"


def meta_path(path: Path) -> Path:
    """`generations.meta.json` for `generations.jsonl` and `generations.jsonl.gz`."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return plain.with_suffix(".meta.json")


def read_generations(
    path: Path,
    *,
    vocabulary: int | None = None,
    end_tokens: frozenset[int] | None = None,
    split: str = ALL,
) -> list[Generation]:
    """All answers of a file, or those of one half of the prompts; a `.gz` file is decompressed.

    A row that does not say how its answer `ended` is told by its last id where the model's `end_tokens` are known,
    and is "limit" otherwise.

    Errors: InputError naming file and line for what is no answer: not JSON, fields missing, ids outside the
    vocabulary, an empty answer, one that goes on behind an end token or did not end as `ended` says. The last line
    may be half-written, as an interrupted run leaves it: it is ignored.
    """
    generations = [generation for _, generation in _rows(path, vocabulary, end_tokens)]
    if not generations:
        raise InputError(f"{path}: holds no answers; `treeopt generate` makes this file")
    seen: set[str] = set()
    for generation in generations:
        if generation.key in seen:
            raise InputError(
                f"{path}: two answers have the id {generation.key!r}; each prompt has one answer a turn"
            )
        seen.add(generation.key)
    return [generation for generation in generations if split in (ALL, half_of(generation.id))]


def read_provenance(path: Path) -> dict[str, Any]:
    """The origin of a generations file; empty for one made elsewhere."""
    meta = meta_path(path)
    if not meta.is_file():
        return {}
    provenance = read_json(meta, "generations").get("provenance", {})
    if not isinstance(provenance, dict) or not provenance:
        return {}
    return UNFILTERED | provenance


class GenerationsFile:
    """A generations file being written: what it already holds, and a safe way to append.

    A run that was interrupted goes on where it stopped, told apart by id; one with other settings is refused, and
    so are answers that `read_generations` would refuse.
    """

    def __init__(
        self,
        path: Path,
        provenance: dict[str, Any],
        *,
        vocabulary: int | None = None,
        end_tokens: frozenset[int] | None = None,
    ) -> None:
        self.path = path
        self.done: dict[str, Generation] = {}
        if path.is_file():
            require_match(str(path), read_provenance(path), "this run", provenance, MUST_MATCH)
        if not meta_path(path).is_file():
            write_json(meta_path(path), {"provenance": provenance}, "generations")
        self._lock = Lock(meta_path(path))
        if path.is_file():
            self._drop_half_line()
            found = _rows(path, vocabulary, end_tokens)
            self.done = {generation.key: generation for _, generation in found}

    def append(self, generations: Iterable[Generation]) -> None:
        """Add answers, on the disk and in `done`; when this returns they are on the disk."""
        generations = list(generations)
        lines = "".join(json.dumps(asdict(generation)) + "\n" for generation in generations)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error
        self.done |= {generation.key: generation for generation in generations}

    def _drop_half_line(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)


def _rows(
    path: Path, vocabulary: int | None = None, end_tokens: frozenset[int] | None = None
) -> Iterator[tuple[int, Generation]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); `treeopt generate` makes this file") from error
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise InputError(f"{where}: not JSON ({error})") from error
        generation = _generation(row, where, vocabulary, end_tokens)
        if end_tokens is not None:
            _require_whole(generation, where, end_tokens)
        yield number, generation


def _generation(
    row: Any, where: str, vocabulary: int | None, end_tokens: frozenset[int] | None
) -> Generation:
    if not isinstance(row, dict):
        raise InputError(f"{where}: not an object with id, prompt_ids and answer_ids")
    if missing := [name for name in ("id", "prompt_ids", "answer_ids") if name not in row]:
        raise InputError(f"{where}: no {', '.join(missing)}")
    for name in ("prompt_ids", "answer_ids"):
        ids = row[name]
        if (
            not isinstance(ids, list)
            or not ids
            or not all(type(token) is int and token >= 0 for token in ids)
        ):
            raise InputError(f"{where}: {name} must be a list of token ids, at least one")
        if vocabulary is not None and max(ids) >= vocabulary:
            raise InputError(f"{where}: {name} holds {max(ids)}, outside the vocabulary of {vocabulary}")
    by_ids = "eos" if row["answer_ids"][-1] in (end_tokens or ()) else "limit"
    turn, ended, category = row.get("turn", 0), row.get("ended", by_ids), row.get("category")
    if type(turn) is not int or turn < 0:
        raise InputError(f"{where}: turn is {turn!r}; it is a whole number from 0")
    if ended not in ENDED:
        raise InputError(f"{where}: ended is {ended!r}; it is one of {', '.join(ENDED)}")
    return Generation(
        id=_id(row["id"], where),
        category="all" if category is None else str(category),
        turn=turn,
        prompt_ids=row["prompt_ids"],
        answer_ids=row["answer_ids"],
        ended=ended,
    )


def _id(given: Any, where: str) -> str:
    if type(given) is int:
        return str(given)
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"{where}: id is {given!r:.40}; it is a text that is not empty, or a whole number")
    if HALF_SURROGATE.search(given):
        raise InputError(f"{where}: id {given!a:.40} has half a surrogate pair; give it another")
    return given


def _require_whole(generation: Generation, where: str, end_tokens: frozenset[int]) -> None:
    """InputError for an answer that goes on behind an end token, or whose `ended` its last id contradicts."""
    ids, ended = generation.answer_ids, generation.ended
    early = next((i for i, token in enumerate(ids[:-1]) if token in end_tokens), None)
    if early is not None:
        raise InputError(
            f"{where}: answer_ids goes on behind the end token {ids[early]}, its number {early + 1} of {len(ids)};"
            " cut it there"
        )
    if ended == "eos" and ids[-1] not in end_tokens:
        known = ", ".join(map(str, sorted(end_tokens))) or "none"
        raise InputError(
            f"{where}: ended is eos, but the last of answer_ids is {ids[-1]} and the model's end tokens are {known};"
            " the answer was cut: end it with its end token, or set ended to limit"
        )
    if ended == "limit" and ids[-1] in end_tokens:
        raise InputError(
            f"{where}: ended is limit, but answer_ids ends with the end token {ids[-1]}; set ended to eos"
        )
