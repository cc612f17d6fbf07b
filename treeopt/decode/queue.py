"""Decoding more prompts than fit in a batch: as an answer ends, the next prompt takes its row."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from treeopt.decode.engine import Answer, Engine


@dataclass(frozen=True)
class Request:
    """A prompt that waits: the name that keys its noise, and its token ids."""

    id: str
    tokens: tuple[int, ...]


def decode_queue(
    engine: Engine, waiting: deque[Request], *, rows: int, max_new_tokens: int
) -> Iterator[tuple[Request, Answer]]:
    """Answer all that waits, up to `rows` prompts at a time, each answer as it ends; their `seconds` are left 0.

    `waiting` may grow while this runs, as conversations do. The text of an answer does not depend on its
    neighbours. Errors: InputError for a prompt that does not fit the model.
    """
    first = [waiting.popleft() for _ in range(min(rows, len(waiting)))]
    if not first:
        return
    limits = [engine.limit(request.tokens, request.id, max_new_tokens) for request in first]
    active = [(request, Answer(), limit) for request, limit in zip(first, limits, strict=True)]
    state = engine.start([request.tokens for request in first], [r.id for r in first], max_new_tokens)
    while active:
        for (_, answer, limit), tokens in zip(active, engine.step(state), strict=True):
            answer.extend(tokens, limit, engine.backbone.end_tokens)
        empty = []
        for row, (request, answer, _) in enumerate(active):
            if not answer.ended:
                continue
            yield request, answer
            if not waiting:
                empty.append(row)
                continue
            new = waiting.popleft()
            active[row] = (new, Answer(), engine.limit(new.tokens, new.id, max_new_tokens))
            engine.refill(state, row, new.tokens, new.id, max_new_tokens)
        if empty:
            active = [active[row] for row in state.drop_rows(empty)]
