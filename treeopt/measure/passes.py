"""What typical acceptance would accept: nodes of a large tree that pass, at each step of decoding with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from treeopt.artifact import provenance
from treeopt.decode import Answer, Engine, Typical
from treeopt.decode.accept import Judged
from treeopt.decode.buffers import TreeBuffers
from treeopt.measure.encode import EncodedPrompt
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.search.coverage import PassTable
from treeopt.tree import Tree


@dataclass(frozen=True)
class _Recorder(Typical):
    """Typical acceptance that keeps, for each step of one prompt, the tokens of all nodes and which passed."""

    tokens: list[torch.Tensor] = field(default_factory=list)
    likely: list[torch.Tensor] = field(default_factory=list)

    def judge(self, buffers: TreeBuffers, tokens: torch.Tensor, logits: torch.Tensor) -> Judged:
        judged = super().judge(buffers, tokens, logits)
        self.tokens.append(tokens[0])
        self.likely.append(judged.likely[0])
        return judged


def record_passes(
    backbone: Backbone,
    heads: MedusaHeads,
    tree: Tree,
    prompts: Sequence[EncodedPrompt],
    *,
    rule: Typical,
    max_new_tokens: int,
    **facts: Any,
) -> PassTable:
    """Answer all prompts, one at a time, with the tree and the rule: which nodes passed at each step.

    Nodes that could emit nothing, below an end token or past the length limit, are recorded as not passing. Steps
    begin where this tree's begin: those of its parts would begin elsewhere.
    """
    recorder = _Recorder(rule.temperature, rule.epsilon, rule.delta)
    engine = Engine(backbone, heads, tree, rule=recorder)
    parts: list[np.ndarray] = []
    for prompt in tqdm(prompts, desc="record", unit="prompt", disable=None):
        recorder.tokens.clear()
        recorder.likely.clear()
        answer = engine.decode([prompt.ids], [prompt.id], max_new_tokens)[0]
        limit = engine.limit(prompt.ids, prompt.id, max_new_tokens)
        parts.append(_counted(engine, recorder, answer, limit))
    return PassTable(
        tree,
        np.concatenate(parts),
        np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
        tuple(prompt.id for prompt in prompts),
        provenance(
            model=backbone.name,
            model_sha256=backbone.sha256,
            heads_sha256=heads.sha256,
            dtype=backbone.dtype_name,
            device=str(backbone.device),
            max_new_tokens=max_new_tokens,
            **facts,
        ),
    )


def _counted(engine: Engine, recorder: _Recorder, answer: Answer, limit: int) -> np.ndarray:
    """One answer's rows, bool [steps, N], without what lies past its end token or limit."""
    buffers = engine.buffers
    likely = torch.stack(recorder.likely)
    passes = torch.cat([likely.new_ones(len(likely), 1), likely], dim=1)
    ends = torch.isin(
        torch.stack(recorder.tokens), torch.tensor(sorted(engine.backbone.end_tokens)).to(likely.device)
    )
    above = buffers.visible & ~torch.eye(len(buffers.visible), dtype=torch.bool, device=likely.device)
    ended = ends.float() @ above.float().T > 0  # [steps, N]: behind an end token
    starts = torch.tensor([0, *accumulate(answer.step_tokens[:-1])], device=likely.device)
    left = limit - starts[:, None]  # tokens that may still be emitted
    counted: np.ndarray = (passes & ~ended & (buffers.depths < left)).cpu().numpy()
    return counted
