"""Prompt files, in the shapes people have them, and their way into token ids."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from jinja2 import TemplateError

from treeopt.artifact import sha256_bytes
from treeopt.errors import InputError

Template = Literal["auto", "chat", "none"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
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


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as the model reads it: token ids, ready for the answer to follow."""

    id: str
    category: str
    ids: tuple[int, ...]


class Tokenizer(Protocol):
    """What `encode_prompt` needs of a transformers tokenizer."""

    chat_template: Any

    def encode(self, text: str) -> list[int]:
        """Token ids, with the special tokens that the tokenizer adds by itself."""
        ...

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any:
        """Token ids of a conversation."""
        ...


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


def encode_prompt(
    tokenizer: Tokenizer, prompt: Prompt, template: Template, system: str | None = None
) -> list[int]:
    """Token ids of a prompt's first turn, ready for the answer to follow.

    "chat" and "auto" use the tokenizer's chat template, which also places the special tokens; "none" takes
    the text as it is. No template is ever guessed: without one, "none" has to be asked for.

    Raises:
        InputError: no chat template, one that refuses the conversation, a system prompt without a template,
            or a text that encodes to nothing.
    """
    if template not in TEMPLATES:
        raise InputError(f"template {template!r}: choose one of {', '.join(TEMPLATES)}")
    if template == "none":
        if system is not None:
            raise InputError(
                "template none: a system prompt needs a chat template; write it into the prompts"
            )
        ids = tokenizer.encode(prompt.turns[0])
    else:
        ids = _encode_chat(tokenizer, prompt, system)
    if not ids:
        raise InputError(f"prompt {prompt.id!r}: the tokenizer makes no tokens of it; remove it")
    return ids


def encode_prompts(
    tokenizer: Tokenizer, prompts: Iterable[Prompt], template: Template, system: str | None = None
) -> list[EncodedPrompt]:
    """All prompts as `encode_prompt` has them."""
    return [
        EncodedPrompt(p.id, p.category, tuple(encode_prompt(tokenizer, p, template, system))) for p in prompts
    ]


def _encode_chat(tokenizer: Tokenizer, prompt: Prompt, system: str | None) -> list[int]:
    if tokenizer.chat_template is None:
        raise InputError(
            "the tokenizer has no chat template; use --template none to take prompts as plain text"
        )
    messages = [{"role": "user", "content": prompt.turns[0]}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    try:
        ids: list[int] = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
    except TemplateError as error:
        raise InputError(f"prompt {prompt.id!r}: the chat template refuses it ({error})") from error
    return ids


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
