"""Prompt files, in the shapes and states in which people have them.

A row that says nothing usable is skipped: one that is not JSON, is no object, has no known shape or no text, or says
the same under the same id as an earlier row. Other flaws are repaired:

- A conversation starts with its first user message, and messages of the user in a row are joined by a blank line.
- A conversation ends before the first turn of the user that is empty; it is skipped if that is the first turn.
- Half a surrogate pair becomes U+FFFD.
- The id of an earlier row that says something else becomes `<id>-2`, or the first number that no id in the file has.
- An id that is neither text nor a whole number is made anew from the content, such a category becomes "all".

Every skipped and every repaired row is named by its place, with the reason.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, groupby, takewhile
from pathlib import Path
from typing import Any, TypeGuard

from treeopt.artifact import sha256_bytes
from treeopt.errors import InputError

USERS = ("human", "user")
FIELDS = ("prompt", "turns", "instruction", "conversations")
SHAPES = (
    "a row is {prompt}, an MT-Bench question {question_id, turns}, an Alpaca row {instruction, input} or"
    " a ShareGPT row {id, conversations}"
)
HALF_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Prompt:
    """What a user says: one turn, or several for a conversation."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True)
class PromptFile:
    """The prompts of a file, in its order, and a note such as "line 4 (not JSON)" for each row that had a flaw."""

    prompts: list[Prompt]
    skipped: list[str]
    repaired: list[str]


class _UnusableError(Exception):
    """Why a row is skipped."""


def read_prompts(path: str | Path) -> PromptFile:
    """Read prompts from JSON lines or a JSON list, whatever the file's name.

    Rows may be treeopt's own `{"id", "category", "prompt"}`, MT-Bench questions (`question_id`, `category`,
    `turns`), Alpaca (`instruction`, `input`; the output is not read) or ShareGPT (`id`, `conversations`; only
    what the human says is read). A row without an id gets one from its content, one without a category "all".
    Malformed rows are skipped or repaired as the module says, and noted by their number from 1, in JSON lines by
    that of their line.

    Raises:
        InputError: the file cannot be read, or holds no row that can be used.
    """
    read: list[_Read] = []
    for place, row in _rows(path):
        repairs: list[str] = []
        try:
            read.append((place, _prompt(row, repairs), repairs))
        except _UnusableError as reason:
            read.append((place, reason, []))
    file = _distinct(read)
    if not file.prompts:
        found = f": {len(file.skipped)} skipped, the first {file.skipped[0]}" if file.skipped else ""
        raise InputError(f"{path}: no prompts in this file{found}; {SHAPES}")
    return file


_Read = tuple[str, Prompt | _UnusableError, list[str]]
"""The place of a row, its prompt or why it has none, and what was repaired in it."""


def _distinct(read: list[_Read]) -> PromptFile:
    """The prompts, each with an id of its own, and all notes."""
    taken = {prompt.id for _, prompt, _ in read if isinstance(prompt, Prompt)}
    said: dict[str, dict[tuple[str, ...], str]] = {}  # by id: what its rows say, and where
    file = PromptFile([], [], [])
    for place, prompt, repairs in read:
        if isinstance(prompt, _UnusableError):
            file.skipped.append(f"{place} ({prompt})")
            continue
        texts = said.setdefault(prompt.id, {})
        if prompt.turns in texts:
            file.skipped.append(f"{place} (the same as {texts[prompt.turns]})")
            continue
        if texts:
            names = (f"{prompt.id}-{number}" for number in count(len(texts) + 1))
            name = next(name for name in names if name not in taken)
            repairs = [*repairs, f"id of {next(iter(texts.values()))}, now {name!a:.60}"]
            taken.add(name)
        else:
            name = prompt.id
        texts[prompt.turns] = place
        file.prompts.append(replace(prompt, id=name))
        if repairs:
            file.repaired.append(f"{place} ({'; '.join(dict.fromkeys(repairs))})")
    return file


def _rows(path: str | Path) -> Iterator[tuple[str, Any]]:
    """Each row with its place: the entries of a JSON list, or else one row a line (blank lines left out)."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError) as error:
            first = text.lstrip().split("\n", 1)[0]
            if isinstance(_parse(first), _UnusableError):  # else JSON lines, of which the first is a list
                raise InputError(f"{path}: starts as a list but is not JSON ({error}); {SHAPES}") from error
        else:
            yield from ((f"entry {number}", entry) for number, entry in enumerate(entries, 1))
            return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", _parse(line)


def _parse(line: str) -> Any:
    """A JSON value, or why there is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _UnusableError("not JSON")


def _prompt(row: Any, repairs: list[str]) -> Prompt:
    """The prompt of a row, by its shape; adds to `repairs` what had to be done. _UnusableError where nothing helps."""
    if isinstance(row, _UnusableError):
        raise row
    if not isinstance(row, dict):
        raise _UnusableError("not a JSON object")
    turns = tuple(_whole(turn, repairs) for turn in _turns(row, repairs))
    category = row.get("category")
    if category is not None and not _has_text(category):
        repairs.append("category is no text, now 'all'")
    return Prompt(
        id=_id(row, turns, repairs),
        category=_whole(category, repairs) if _has_text(category) else "all",
        turns=turns,
    )


def _turns(row: Mapping[str, Any], repairs: list[str]) -> list[str]:
    """What the user says, turn by turn, at least one."""
    known = [name for name in FIELDS if name in row]
    if not known:
        raise _UnusableError(f"none of {', '.join(FIELDS)}")
    shape = next((name for name in known if row[name] is not None), known[0])
    if shape == "prompt":
        return _until_empty([row["prompt"]], repairs)
    if shape == "instruction":
        extra = row.get("input")
        blank = extra is None or (isinstance(extra, str) and not extra.strip())
        parts = [row["instruction"]] if blank else [row["instruction"], extra]
        if not all(map(_has_text, parts)):
            raise _UnusableError("no text in instruction or input")
        return ["\n\n".join(parts)]
    if not isinstance(row[shape], list):
        raise _UnusableError(f"{shape} is no list")
    return _until_empty(row[shape] if shape == "turns" else _user_turns(row[shape], repairs), repairs)


def _user_turns(conversation: list[Any], repairs: list[str]) -> list[Any]:
    """What the user says in a ShareGPT conversation, from one answer of the model to the next; not checked yet."""
    if not all(isinstance(message, dict) for message in conversation):
        raise _UnusableError("conversations is no list of {from, value}")
    messages = [message for message in conversation if message.get("from") != "system"]
    spoken = [
        (by_user, [message.get("value") for message in group])
        for by_user, group in groupby(messages, lambda message: message.get("from") in USERS)
    ]
    turns = [values for by_user, values in spoken if by_user]
    if not turns:
        raise _UnusableError(f"nobody called {' or '.join(USERS)} speaks")
    if not spoken[0][0]:
        repairs.append("what comes before the user's first message dropped")
    joined: list[Any] = []
    for values in turns:
        texts = list(takewhile(_has_text, values))
        if len(texts) > 1:
            repairs.append("messages of the user in a row joined")
        joined += ["\n\n".join(texts)] if texts else []
        if len(texts) < len(values):
            return [*joined, None]
    return joined


def _until_empty(turns: list[Any], repairs: list[str]) -> list[str]:
    texts = list(takewhile(_has_text, turns))
    if not texts:
        raise _UnusableError("no text")
    if len(texts) < len(turns):
        repairs.append(f"ends after turn {len(texts)}, as what follows is empty")
    return texts


def _id(row: Mapping[str, Any], turns: tuple[str, ...], repairs: list[str]) -> str:
    given = row["id"] if row.get("id") is not None else row.get("question_id")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if _has_text(given):
        return _whole(given, repairs)
    made = sha256_bytes(json.dumps(turns).encode())[:16]
    if given is not None:
        repairs.append(f"id is no text, now {made!r}")
    return made


def _has_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _whole(text: str, repairs: list[str]) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which no encoding has."""
    whole = HALF_SURROGATE.sub("\ufffd", text)
    if whole != text:
        repairs.append("half a surrogate pair, now U+FFFD")
    return whole
