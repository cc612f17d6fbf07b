"""`treeopt evaluate`: real decoding with any number of trees, beside plain decoding, interleaved in one run.

Each prompt is decoded by every method before the next prompt, in an order that rotates, so that a machine that
slows down slows all of them. Prefill is counted and timed for nobody.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from tqdm import tqdm

from treeopt.decode import GREEDY, Answer, Engine, PositionNoise, Rule, Sampled
from treeopt.errors import InputError, MismatchError
from treeopt.measure.agreement import Divergence, first_divergence
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generations import Generation
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.model.hf_generate import timed_generate
from treeopt.tree import ROOT, Tree

PLAIN, HF_GENERATE = "plain", "hf_generate"

Method = Callable[[EncodedPrompt], Answer]


@dataclass
class Run:
    """One method over all prompts: the tree's name (or plain, hf_generate), its answers, and where they diverged.

    `prompts` are those answered, one for each turn of a conversation. compared: False where texts are not plain
    decoding's by design, so that no divergence says anything.
    """

    name: str
    tree: Tree
    prompts: list[EncodedPrompt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    compared: bool = True

    def of_category(self, category: str) -> "Run":
        """The answers to the prompts of one category."""
        chosen = [i for i, prompt in enumerate(self.prompts) if prompt.category == category]
        prompts, answers = [self.prompts[i] for i in chosen], [self.answers[i] for i in chosen]
        return replace(self, prompts=prompts, answers=answers)

    def copy(self) -> "Run":
        """As it is now, whatever is added to this one."""
        copies = list(self.prompts), list(self.answers), list(self.divergences)
        return Run(self.name, self.tree, *copies, compared=self.compared)

    def generations(self) -> list[Generation]:
        """The answers as calibration takes them."""
        return [
            Generation(prompt.id, prompt.category, prompt.turn, list(prompt.ids), answer.tokens, answer.ended)
            for prompt, answer in zip(self.prompts, self.answers, strict=True)
        ]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C once a prompt was finished; `runs` of the finished prompts alone, all methods' alike."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__()
        self.runs = runs


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

    Every method answers each turn of a conversation behind what plain decoding said before. What the context has no
    room for, a prompt or a later turn, is left out. Plain decoding is greedy beside typical acceptance, whose texts
    are their own and so not compared.
    Errors: MismatchError naming the tree that the heads cannot draft; InputError where no prompt has room. Ctrl-C
    behind the first prompt is Interrupted.
    """
    asked = [prompt for prompt in prompts if len(prompt.ids) < backbone.context_limit]
    if not asked:
        raise InputError(
            f"no prompt leaves room for an answer: {backbone.name} takes {backbone.context_limit} tokens, the shortest"
            f" prompt has {min((len(prompt.ids) for prompt in prompts), default=0)}"
        )
    plain = Engine(backbone, rule=rule.plain, seed=seed)
    engines = {PLAIN: plain} | _tree_engines(backbone, heads, trees, rule, seed)
    methods: dict[str, Method] = {
        name: lambda p, engine=engine: engine.decode([p.ids], [p.key], max_new_tokens)[0]  # type: ignore[misc]
        for name, engine in engines.items()
    }
    if hf_generate:
        methods[HF_GENERATE] = lambda p: _with_transformers(
            backbone, p, max_new_tokens, rule.plain, plain.noise
        )
    runs = {
        name: Run(name, trees.get(name, ROOT), compared=name not in trees or rule == rule.plain)
        for name in methods
    }
    for answer in methods.values():  # one untimed each: set-up of kernels and allocators is nobody's latency
        answer(asked[0])
    finished: list[Run] = []
    try:
        for prompt in tqdm(asked, desc="evaluate", unit="prompt", disable=None):
            _converse(backbone, prompt, methods, runs, rule.plain, plain.noise)
            finished = [run.copy() for run in runs.values()]
    except KeyboardInterrupt:
        if finished:
            raise Interrupted(finished) from None
        raise
    return finished


def _converse(
    backbone: Backbone,
    prompt: EncodedPrompt,
    methods: Mapping[str, Method],
    runs: Mapping[str, Run],
    rule: Sampled,
    noise: PositionNoise | None,
) -> None:
    """All turns of one prompt by every method, and where answers diverge from plain decoding's."""
    turn: EncodedPrompt | None = prompt
    while turn is not None and len(turn.ids) < backbone.context_limit:
        said = _take_turns(turn, methods, runs)
        for run in (run for run in runs.values() if run.compared):
            tokens = run.answers[-1].tokens
            found = first_divergence(backbone, turn, said.tokens, tokens, rule, noise)
            run.divergences += [] if found is None else [found]
        turn = turn.following(said.tokens, said.ended)


def _tree_engines(
    backbone: Backbone, heads: MedusaHeads | None, trees: Mapping[str, Tree], rule: Rule, seed: int
) -> dict[str, Engine]:
    engines = {}
    for name, tree in trees.items():
        try:
            engines[name] = Engine(backbone, heads, tree, rule=rule, seed=seed)
        except MismatchError as error:
            raise MismatchError(f"tree {name}: {error}") from error
    return engines


def _take_turns(prompt: EncodedPrompt, methods: Mapping[str, Method], runs: Mapping[str, Run]) -> Answer:
    """Every method's answer, added to its run, another method first each time; plain decoding's is given back."""
    order = list(methods)
    first = len(runs[PLAIN].answers) % len(order)
    for name in order[first:] + order[:first]:
        runs[name].prompts.append(prompt)
        runs[name].answers.append(methods[name](prompt))
    return runs[PLAIN].answers[-1]


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
            row = torch.from_numpy(noise.row(prompt.key, position)).to(scores.device)
            return rule.scores(scores, row)

    tokens, times = timed_generate(backbone, prompt.ids, limit, adjust)
    seconds = (times[-1] - times[0]) * len(tokens) / max(len(times) - 1, 1)
    ended = "eos" if tokens[-1] in backbone.end_tokens else "limit"
    return Answer(tokens=tokens, step_tokens=[1] * len(tokens), ended=ended, seconds=seconds)
