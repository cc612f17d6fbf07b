"""From a prompt to token ids: chat templates, plain text, and what stands between the turns of a conversation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

from jinja2 import TemplateError

from treeopt.errors import InputError
from treeopt.measure.generations import turn_key
from treeopt.measure.prompts import Prompt

Template = Literal["auto", "chat", "none"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
ANSWER = "\u27e8answer\u27e9"  # stands for an answer when a template is asked what follows it


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as the model reads it: token ids, ready for the answer to follow.

    `later` holds, for each further turn, the ids between the end of an answer's text and the next answer. `turn` (from
    0) is the turn that is to be answered.
    """

    id: str
    category: str
    ids: tuple[int, ...]
    later: tuple[tuple[int, ...], ...] = ()
    turn: int = 0

    @property
    def key(self) -> str:
        """The name of the answer to this turn, which also keys its noise."""
        return turn_key(self.id, self.turn)

    def following(self, answer_ids: Sequence[int], ended: str) -> "EncodedPrompt | None":
        """The next turn, behind all that was said before it; None where there is none.

        An answer's end token is left out of the text that later turns follow: the template closes a turn in its own
        way.
        """
        if not self.later:
            return None
        said = answer_ids[: -1 if ended == "eos" else None]
        ids = (*self.ids, *said, *self.later[0])
        return replace(self, ids=ids, later=self.later[1:], turn=self.turn + 1)


class Tokenizer(Protocol):
    """What `encode_prompt` needs of a transformers tokenizer."""

    chat_template: Any

    def encode(self, text: str, **options: Any) -> list[int]:
        """Token ids, with the special tokens that the tokenizer adds by itself."""
        ...

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any:
        """Token ids of a conversation."""
        ...


def encode_prompts(
    tokenizer: Tokenizer,
    prompts: Iterable[Prompt],
    template: Template,
    *,
    system: str | None = None,
    turns: int | None = None,
) -> list[EncodedPrompt]:
    """All prompts, ready for the answer to the first turn; with `turns`, no more than that many of each.

    "chat" and "auto" use the tokenizer's chat template, which also places the special tokens; "none" takes the
    text as it is and knows no turns after the first. No template is ever guessed: without one, "none" has to be
    asked for.

    Raises:
        InputError: no chat template, one that refuses a conversation or rewrites earlier turns, a system prompt
            without a template, or a text that encodes to nothing.
    """
    if template not in TEMPLATES:
        raise InputError(f"template {template!r}: choose one of {', '.join(TEMPLATES)}")
    if template == "none" and system is not None:
        raise InputError("template none: a system prompt needs a chat template; write it into the prompts")
    if template != "none" and tokenizer.chat_template is None:
        raise InputError(
            "the tokenizer has no chat template; use --template none to take prompts as plain text"
        )
    encoded = []
    for prompt in prompts:
        if template == "none":
            ids, later = tokenizer.encode(prompt.turns[0]), []
        else:
            ids, *later = _encode_chat(tokenizer, prompt, system, turns)
        if not ids:
            raise InputError(f"prompt {prompt.id!r}: the tokenizer makes no tokens of it; remove it")
        encoded.append(EncodedPrompt(prompt.id, prompt.category, tuple(ids), tuple(map(tuple, later))))
    return encoded


def _encode_chat(
    tokenizer: Tokenizer, prompt: Prompt, system: str | None, turns: int | None
) -> list[list[int]]:
    """The ids before the first answer, then those between each answer and the next."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    pieces: list[list[int]] = []
    for turn in prompt.turns[:turns]:
        messages.append({"role": "user", "content": turn})
        try:
            if not pieces:
                ids: list[int] = tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=True, return_dict=False
                )
                start: str = tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=False
                )
            else:
                text: str = tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=False
                )
                before, found, after = text.rpartition(ANSWER)
                if not found or not before.startswith(start):
                    raise InputError(
                        f"prompt {prompt.id!r}: the chat template rewrites earlier turns when a later one comes,"
                        " so no answer can be followed up; take --turns 1"
                    )
                ids = tokenizer.encode(after, add_special_tokens=False)
        except TemplateError as error:
            raise InputError(f"prompt {prompt.id!r}: the chat template refuses it ({error})") from error
        pieces.append(ids)
        messages.append({"role": "assistant", "content": ANSWER})
    return pieces
