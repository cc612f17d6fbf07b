"""Prompt files, in the shapes people have them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import sha256_bytes
from treeopt.errors import InputError

USERS = ("human", "user")
SHAPES = (
    "a row is {prompt}, an MT-Bench question {question_id, turns}, an Alpaca row {instruction, input} or"
    " a ShareGPT row {id, conversations}"
)


@dataclass(frozen=True)
class Prompt:
    """What a user says: one turn, or several for a conversation."""

    id: str
    category: str
    turns: tuple[str, ...]


def read_prompts(path: str | Path) -> list[Prompt]:
    """Read prompts from JSON lines or a JSON list, whatever the file's name.

    Rows may be treeopt's own `{"id", "category", "prompt"}`, MT-Bench questions (`question_id`, `category`,
    `turns`), Alpaca (`instruction`, `input`; the output is not read) or ShareGPT (`id`, `conversations`; only
    what the human says is read). A row without an id gets one from its content, one without a category "all".

    Raises:
        InputError: the file cannot be read or has no prompts, or a row is malformed or has the id of another.
            Rows are named by their number from 1, in JSON lines by that of their line.
    """
    prompts: dict[str, Prompt] = {}
    places: dict[str, str] = {}
    for place, row in _rows(path):
        where = f"{path}, {place}"
        prompt = _prompt(row, where)
        if prompt.id in prompts:
            first = places[prompt.id]
            raise InputError(f"{where}: id {prompt.id!r} is that of {first}; each prompt needs its own")
        prompts[prompt.id], places[prompt.id] = prompt, place
    if not prompts:
        raise InputError(f"{path}: no prompts in this file; {SHAPES}")
    return list(prompts.values())


def _rows(path: str | Path) -> Iterator[tuple[str, Any]]:
    """Each row with its place: the entries of a JSON list, or else one row a line (blank lines skipped)."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if text.lstrip().startswith("["):
        for number, entry in enumerate(_parse(text, str(path)), 1):
            yield f"entry {number}", entry
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", _parse(line, f"{path}, line {number}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); {SHAPES}") from error


def _prompt(row: Any, where: str) -> Prompt:
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object but {row!r:.40}; {SHAPES}")
    turns = tuple(_text(turn, f"{where}: {name}") for name, turn in _turns(row, where))
    category = row.get("category")
    return Prompt(
        id=_id(row, turns, where),
        category="all" if category is None else _text(category, f"{where}: category"),
        turns=turns,
    )


def _turns(row: Mapping[str, Any], where: str) -> list[tuple[str, Any]]:
    """What the user says, by the row's shape, each with the field it stands in; not checked yet."""
    if "prompt" in row:
        return [("prompt", row["prompt"])]
    if "turns" in row:
        turns = row["turns"]
        if not isinstance(turns, list) or not turns:
            raise InputError(f"{where}: turns must be a list of texts that is not empty, not {turns!r:.40}")
        return [(f"turn {number}", turn) for number, turn in enumerate(turns, 1)]
    if "instruction" in row:
        instruction, extra = row["instruction"], row.get("input")
        if not extra:
            return [("instruction", instruction)]
        parts = (_text(instruction, f"{where}: instruction"), _text(extra, f"{where}: input"))
        return [("instruction", "\n\n".join(parts))]
    if "conversations" in row:
        return _human_turns(row["conversations"], where)
    raise InputError(f"{where}: no prompt among its fields {list(row)!r:.60}; {SHAPES}")


def _human_turns(conversation: Any, where: str) -> list[tuple[str, Any]]:
    if not isinstance(conversation, list) or not all(isinstance(turn, dict) for turn in conversation):
        raise InputError(f"{where}: conversations must be a list of {{from, value}}")
    said = [
        (f"the value of message {number}", message.get("value"))
        for number, message in enumerate(conversation, 1)
        if message.get("from") in USERS
    ]
    if not said:
        raise InputError(f"{where}: nobody called {' or '.join(USERS)} speaks in it; remove the row")
    return said


def _id(row: Mapping[str, Any], turns: tuple[str, ...], where: str) -> str:
    given = row.get("id", row.get("question_id"))
    if given is None:
        return sha256_bytes(json.dumps(turns).encode())[:16]
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return _text(given, f"{where}: id")


def _text(value: Any, what: str) -> str:
    """A text that says something and can be encoded."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{what} must be a text that is not empty, not {value!r:.40}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} has half a surrogate pair at character {error.start}; remove it") from error
    return value
