"""`treeopt generate`: the backbone's own answers, which are the text that calibration and training use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from treeopt.artifact import provenance
from treeopt.decode import Engine
from treeopt.errors import MismatchError
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generations import Generation, GenerationsFile
from treeopt.model.backbone import Backbone


def generate(
    backbone: Backbone,
    prompts: Sequence[EncodedPrompt],
    path: Path,
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    batch_size: int = 16,
    **facts: Any,
) -> list[Generation]:
    """Answer all prompts by plain decoding, in batches of like length; answers that `path` already holds are kept.

    Each batch is appended to `path` as it finishes, so an interrupted run loses at most one batch. The text of an
    answer does not depend on its batch: sampling noise is keyed by (seed, id, position).

    Errors: MismatchError when `path` was made with another model or other settings, or answers another prompt
    under the id of one of these.
    """
    origin = provenance(
        model=backbone.name,
        model_sha256=backbone.sha256,
        dtype=backbone.dtype_name,
        device=str(backbone.device),
        temperature=temperature,
        seed=seed,
        max_new_tokens=max_new_tokens,
        **facts,
    )
    file = GenerationsFile(path, origin)
    for prompt in prompts:
        if prompt.id in file.done and file.done[prompt.id].prompt_ids != list(prompt.ids):
            raise MismatchError(
                f"{path}: answers another prompt with the id {prompt.id!r}; name another file"
            )
    engine = Engine(backbone, temperature=temperature, seed=seed)
    waiting = sorted((p for p in prompts if p.id not in file.done), key=lambda p: len(p.ids), reverse=True)
    with tqdm(total=len(waiting), desc="generate", unit="answer", disable=None) as progress:
        for low in range(0, len(waiting), batch_size):
            batch = waiting[low : low + batch_size]
            answers = engine.decode([p.ids for p in batch], [p.id for p in batch], max_new_tokens)
            made = [
                Generation(p.id, p.category, 0, list(p.ids), answer.tokens, answer.ended)
                for p, answer in zip(batch, answers, strict=True)
            ]
            file.append(made)
            file.done |= {generation.key: generation for generation in made}
            progress.update(len(batch))
    return [file.done[p.id] for p in prompts]
