"""`treeopt generate`: the backbone's own answers, which are the text that calibration and training use."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from treeopt.artifact import provenance
from treeopt.decode import GREEDY, Engine, Request, Sampled, decode_queue
from treeopt.errors import InputError, MismatchError
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generations import Generation, GenerationsFile, turn_key
from treeopt.model.backbone import Backbone


def generate(
    backbone: Backbone,
    prompts: Sequence[EncodedPrompt],
    path: Path,
    *,
    max_new_tokens: int,
    rule: Sampled = GREEDY,
    seed: int = 0,
    batch_size: int = 16,
    **facts: Any,
) -> list[Generation]:
    """Answer all turns of all prompts by plain decoding; answers that `path` already holds are kept.

    Prompts of like length are decoded together, conversations first, and the next takes its place as one ends. Each
    answer is appended to `path` as it ends, so an interrupted run loses no more than those under way. The text of an
    answer does not depend on its neighbours: sampling noise is keyed by (seed, id and turn, position). What the
    context has no room for, a prompt or a later turn, is left out.

    Errors: MismatchError when `path` was made with another model or other settings, or answers another prompt
    under the id of one of these; InputError for two prompts of one id.
    """
    origin = provenance(
        model=backbone.name,
        model_sha256=backbone.sha256,
        dtype=backbone.dtype_name,
        device=str(backbone.device),
        acceptance=rule.name,
        **asdict(rule),
        seed=seed,
        max_new_tokens=max_new_tokens,
        **facts,
    )
    keys = [turn_key(p.id, number) for p in prompts for number in range(1 + len(p.later))]
    if len(set(keys)) < len(keys):
        twice = next(key for key, count in Counter(keys).items() if count > 1)
        raise InputError(f"two prompts, or a prompt and a later turn, are called {twice!r}; rename one")
    file = GenerationsFile(path, origin, vocabulary=backbone.vocabulary, end_tokens=backbone.end_tokens)
    engine = Engine(backbone, rule=rule, seed=seed)
    asked = {prompt.id: prompt for prompt in prompts}
    first = {
        prompt.id: turn for prompt in prompts if (turn := _next_turn(backbone, prompt, file)) is not None
    }
    order = sorted(first.values(), key=lambda turn: (-len(turn.later), -len(turn.ids)))
    waiting = deque(Request(turn.key, turn.ids) for turn in order)
    turns = {turn.key: turn for turn in order}
    left = sum(1 + len(turn.later) for turn in order)
    with tqdm(total=left, desc="generate", unit="answer", disable=None) as bar:
        for request, answer in decode_queue(engine, waiting, rows=batch_size, max_new_tokens=max_new_tokens):
            turn = turns[request.id]
            made = Generation(turn.id, turn.category, turn.turn, list(turn.ids), answer.tokens, answer.ended)
            file.append([made])
            bar.update()
            following = _next_turn(backbone, asked[turn.id], file)
            if following is not None:
                turns[following.key] = following
                waiting.appendleft(Request(following.key, following.ids))
    return [file.done[key] for key in keys if key in file.done]


def _next_turn(backbone: Backbone, prompt: EncodedPrompt, file: GenerationsFile) -> EncodedPrompt | None:
    """The first turn without an answer, behind all that was said before; None where there is none, or no room."""
    turn: EncodedPrompt | None = prompt
    while turn is not None:
        done = file.done.get(turn.key)
        if done is None:
            return turn if len(turn.ids) < backbone.context_limit else None
        if done.prompt_ids != list(turn.ids):
            raise MismatchError(
                f"{file.path}: answers another prompt with the id {done.key!r}; name another file"
            )
        turn = turn.following(done.answer_ids, done.ended)
    return None
