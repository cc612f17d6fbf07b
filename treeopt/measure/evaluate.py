"""`treeopt evaluate`: real decoding with any number of trees, beside plain decoding, interleaved in one run.

Each prompt is decoded by every method before the next prompt, in an order that rotates, so that a machine that
slows down slows all of them. Prefill is counted and timed for nobody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from treeopt.decode import GREEDY, Answer, Engine, PositionNoise, Rule, Sampled
from treeopt.measure.agreement import Divergence, first_divergence
from treeopt.measure.encode import EncodedPrompt
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.model.hf_generate import timed_generate
from treeopt.tree import ROOT, Tree

PLAIN, HF_GENERATE = "plain", "hf_generate"


@dataclass
class Run:
    """One method over all prompts: the tree's name (or plain, hf_generate), its answers, and where they diverged.

    compared: False where texts are not plain decoding's by design, so that no divergence says anything.
    """

    name: str
    tree: Tree
    answers: list[Answer] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    compared: bool = True

    @property
    def steps(self) -> int:
        """Verifications over all prompts."""
        return sum(len(answer.step_tokens) for answer in self.answers)

    @property
    def emitted(self) -> int:
        """Tokens over all prompts."""
        return sum(len(answer.tokens) for answer in self.answers)

    @property
    def seconds(self) -> float:
        """Time spent in those steps, prefill not included."""
        return sum(answer.seconds for answer in self.answers)

    @property
    def tokens_per_step(self) -> float:
        """The acceleration rate of Cai et al. 2024, App. B.1."""
        return self.emitted / self.steps

    @property
    def step_ms(self) -> float:
        """Mean latency of a decoding step."""
        return 1000 * self.seconds / self.steps

    @property
    def tokens_per_s(self) -> float:
        """Tokens over seconds, prefill not included; an answer that came out of the prefill alone has neither."""
        timed = [answer for answer in self.answers if answer.seconds > 0]
        return sum(len(answer.tokens) for answer in timed) / self.seconds if timed else 0.0


def evaluate(
    backbone: Backbone,
    heads: MedusaHeads | None,
    trees: Mapping[str, Tree],
    prompts: Sequence[EncodedPrompt],
    *,
    max_new_tokens: int,
    rule: Rule = GREEDY,
    seed: int = 0,
    hf_generate: bool = True,
) -> list[Run]:
    """Decode all prompts, one at a time, plainly, with transformers' `generate` and with each tree.

    Plain decoding is greedy beside typical acceptance, whose texts are their own and so not compared.
    """
    plain_rule = rule.plain
    engines = {PLAIN: Engine(backbone, rule=plain_rule, seed=seed)}
    for name, tree in trees.items():
        engines[name] = Engine(backbone, heads, tree, rule=rule, seed=seed)
    methods: dict[str, Any] = {
        name: lambda p, engine=engine: engine.decode([p.ids], [p.id], max_new_tokens)[0]
        for name, engine in engines.items()
    }
    if hf_generate:
        noise = PositionNoise(seed, backbone.vocabulary) if plain_rule.noisy else None
        methods[HF_GENERATE] = lambda p: _with_transformers(backbone, p, max_new_tokens, plain_rule, noise)
    runs = {
        name: Run(name, trees.get(name, ROOT), compared=name not in trees or rule == plain_rule)
        for name in methods
    }
    order = list(methods)
    for name in order:  # one untimed answer each: lazy set-up of kernels and allocators is nobody's latency
        methods[name](prompts[0])
    for number, prompt in enumerate(tqdm(prompts, desc="evaluate", unit="prompt", disable=None)):
        turn = number % len(order)
        for name in order[turn:] + order[:turn]:
            runs[name].answers.append(methods[name](prompt))
        plain = runs[PLAIN].answers[-1].tokens
        for run in (run for run in runs.values() if run.compared):
            found = first_divergence(
                backbone, prompt, plain, run.answers[-1].tokens, plain_rule, engines[PLAIN].noise
            )
            if found is not None:
                run.divergences.append(found)
    return list(runs.values())


def _with_transformers(
    backbone: Backbone,
    prompt: EncodedPrompt,
    max_new_tokens: int,
    rule: Sampled,
    noise: PositionNoise | None,
) -> Answer:
    """The same answer by transformers' own loop, its seconds scaled from n - 1 steps to n.

    transformers draws the first token in its prefill; the engine verifies that token too. So token/s compare.
    """
    limit = min(max_new_tokens, backbone.context_limit - len(prompt.ids))
    adjust = None
    if noise is not None:

        def adjust(scores: torch.Tensor, position: int) -> torch.Tensor:
            row = torch.from_numpy(noise.row(prompt.id, position)).to(scores.device)
            return rule.scores(scores, row)

    tokens, times = timed_generate(backbone, prompt.ids, limit, adjust)
    seconds = (times[-1] - times[0]) * len(tokens) / max(len(times) - 1, 1)
    ended = "eos" if tokens[-1] in backbone.end_tokens else "limit"
    return Answer(tokens=tokens, step_tokens=[1] * len(tokens), ended=ended, seconds=seconds)
