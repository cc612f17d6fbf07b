"""The decoding loop: draft with the heads, verify a tree in one forward pass, accept, commit.

Plain decoding is the same loop with the bare root as its tree and no heads, so both are counted and timed alike:
a step verifies a root that the last step drew, accepts a drafts behind it and emits a + 1 tokens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from treeopt.decode.accept import GREEDY, Rule
from treeopt.decode.buffers import TreeBuffers
from treeopt.decode.noise import PositionNoise
from treeopt.errors import InputError
from treeopt.model.backbone import Backbone
from treeopt.model.cache import TreeCache
from treeopt.model.heads import MedusaHeads, top_ranks
from treeopt.tree import ROOT, Tree

Mark = Callable[[str], None]


def _no_mark(part: str) -> None:
    """The default of `Engine.step`: time nothing."""


@dataclass
class Answer:
    """One prompt's answer: its tokens, how many each step emitted, why it ended, and seconds after the prefill.

    nan_nodes: verified nodes that typical acceptance met with NaN for logits.
    """

    tokens: list[int] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)
    ended: str = ""
    seconds: float = 0.0
    nan_nodes: int = 0

    def extend(self, tokens: list[int], limit: int, end_tokens: frozenset[int]) -> None:
        """Add a step's tokens up to the end token and the limit; only what is kept is counted."""
        tokens = tokens[: limit - len(self.tokens)]
        end = next((i for i, token in enumerate(tokens) if token in end_tokens), None)
        if end is not None:
            tokens = tokens[: end + 1]
        self.tokens += tokens
        self.step_tokens.append(len(tokens))
        if end is not None:
            self.ended = "eos"
        elif len(self.tokens) == limit:
            self.ended = "limit"


@dataclass
class State:
    """A batch between two steps: B rows, each with its next root, its drafts and its place in its answer."""

    cache: TreeCache
    prompt_ids: list[str]  # the names that key the noise
    roots: list[int]
    drafts: torch.Tensor | None  # [B, K * width]
    offsets: list[int]  # answer position of each root
    nan_nodes: list[int]  # so far in each row's answer

    @torch.inference_mode()
    def drop_rows(self, dropped: Sequence[int]) -> list[int]:
        """Drop rows; returns, for each that is left, its index before."""
        order = self.cache.drop_rows(dropped)
        self.prompt_ids = [self.prompt_ids[row] for row in order]
        self.roots = [self.roots[row] for row in order]
        self.offsets = [self.offsets[row] for row in order]
        self.nan_nodes = [self.nan_nodes[row] for row in order]
        if self.drafts is not None:
            self.drafts = self.drafts[order]
        return order


class Engine:
    """Decodes with one tree under an acceptance rule; sampling's noise is keyed by seed, prompt and position.

    Errors: MismatchError when the tree is deeper than the heads or wider than the vocabulary; InputError for
    prompts that do not fit the model.
    """

    def __init__(
        self,
        backbone: Backbone,
        heads: MedusaHeads | None = None,
        tree: Tree = ROOT,
        *,
        rule: Rule = GREEDY,
        seed: int = 0,
    ) -> None:
        self.backbone = backbone
        self.heads = heads.first(tree.depth) if heads is not None and tree.size > 1 else None
        self.buffers = TreeBuffers.build(
            tree, heads.heads if heads else 0, backbone.vocabulary, backbone.device
        )
        self.rule = rule
        self.noise = PositionNoise(seed, backbone.vocabulary) if rule.noisy else None
        self._tree_mask = backbone.additive(self.buffers.visible)
        self._long_mask = self._tree_mask[None, None]  # the tree behind a past that all may see
        self._mask_past = 0

    @torch.inference_mode()
    def decode(
        self, prompts: Sequence[Sequence[int]], prompt_ids: Sequence[str], max_new_tokens: int
    ) -> list[Answer]:
        """Answers of a batch of prompts (token ids), each to its end token or to `max_new_tokens`, neither exceeded."""
        limits = [
            self.limit(prompt, name, max_new_tokens) for prompt, name in zip(prompts, prompt_ids, strict=True)
        ]
        state = self.start(prompts, prompt_ids, max(limits))
        answers = [Answer() for _ in prompts]
        active = list(range(len(prompts)))
        started = self._now()
        while active:
            emitted = self.step(state)
            for row, tokens in zip(active, emitted, strict=True):
                answers[row].extend(tokens, limits[row], self.backbone.end_tokens)
            finished = [row for row, answer in enumerate(active) if answers[answer].ended]
            if finished:
                now = self._now() - started
                for row in finished:
                    answers[active[row]].seconds = now
                    answers[active[row]].nan_nodes = state.nan_nodes[row]
                active = [active[row] for row in state.drop_rows(finished)]
        return answers

    @torch.inference_mode()
    def start(
        self, prompts: Sequence[Sequence[int]], prompt_ids: Sequence[str], max_new_tokens: int
    ) -> State:
        """Prefill all prompts, draw the first roots and draft behind them."""
        capacity = max(map(len, prompts)) + max_new_tokens + self.buffers.tree.size
        cache = self.backbone.new_cache(len(prompts), capacity)
        hidden = torch.stack(
            [self.backbone.prefill(prompt, cache, row) for row, prompt in enumerate(prompts)]
        )
        return self.begin(cache, hidden, prompt_ids)

    @torch.inference_mode()
    def refill(
        self, state: State, row: int, prompt: Sequence[int], prompt_id: str, max_new_tokens: int
    ) -> None:
        """Put another prompt into a row whose answer has ended."""
        state.cache.clear(row)
        state.cache.reserve(len(prompt) + max_new_tokens + self.buffers.tree.size)
        hidden = self.backbone.prefill(prompt, state.cache, row)
        fresh = self.begin(state.cache, hidden[None], [prompt_id])
        state.prompt_ids[row], state.roots[row] = prompt_id, fresh.roots[0]
        state.offsets[row] = state.nan_nodes[row] = 0
        if state.drafts is not None and fresh.drafts is not None:
            state.drafts[row] = fresh.drafts[0]

    @torch.inference_mode()
    def begin(self, cache: TreeCache, hidden: torch.Tensor, prompt_ids: Sequence[str]) -> State:
        """The state before the first step, from a filled cache and each prompt's last hidden state [B, H]."""
        count = len(prompt_ids)
        state = State(cache, list(prompt_ids), [], None, [-1] * count, [0] * count)
        logits = self.backbone.logits(hidden)[:, None]
        state.roots = self.rule.draw(logits, self._noise(logits, state))[:, 0].tolist()
        state.offsets = [0] * count
        if self.heads is not None:
            state.drafts = self._drafts(self.heads(hidden))
        return state

    @torch.inference_mode()
    def step(self, state: State, mark: Mark = _no_mark) -> list[list[int]]:
        """Verify one tree a row; the tokens that each row emits, root first, before any cut at end or limit.

        `mark` is told when a part is over: "verify" (the backbone and its logits), "heads" (the heads' logits) and
        "accept" (all the rest: building the input, drawing, accepting, moving the cache, ranking the drafts).
        """
        tokens = self._tokens(state)
        positions = self._positions(state.cache)
        mask = self._mask(state.cache)
        mark("accept")
        hidden = self.backbone.verify(tokens, positions, mask, state.cache)
        logits = self.backbone.logits(hidden)
        mark("verify")
        paths, state.roots, nan_nodes = self.rule.accept(
            self.buffers, tokens, logits, self._noise(logits, state)
        )
        state.cache.commit(paths)
        state.nan_nodes = [before + new for before, new in zip(state.nan_nodes, nan_nodes, strict=True)]
        state.offsets = [offset + len(path) for offset, path in zip(state.offsets, paths, strict=True)]
        if self.heads is not None:
            last = torch.stack([hidden[b, path[-1]] for b, path in enumerate(paths)])
            mark("accept")
            head_logits = self.heads(last)
            mark("heads")
            state.drafts = self._drafts(head_logits)
        mark("accept")
        return [[row[node] for node in path] for row, path in zip(tokens.tolist(), paths, strict=True)]

    def limit(self, prompt: Sequence[int], name: str, max_new_tokens: int) -> int:
        """How many tokens this prompt's answer may have; InputError for a prompt that cannot be decoded."""
        if not prompt:
            raise InputError(f"prompt {name}: no tokens; an empty prompt cannot be decoded")
        room = self.backbone.context_limit - len(prompt)
        if room < 1:
            raise InputError(
                f"prompt {name}: {len(prompt)} tokens, but {self.backbone.name} takes {self.backbone.context_limit}"
            )
        if not all(0 <= token < self.backbone.vocabulary for token in prompt):
            raise InputError(f"prompt {name}: token ids outside the vocabulary of {self.backbone.vocabulary}")
        return min(room, max_new_tokens)

    def _now(self) -> float:
        """Seconds on a clock, once a GPU has done all that it was asked to."""
        if self.backbone.device.type == "cuda":
            torch.cuda.synchronize(self.backbone.device)
        return time.perf_counter()

    def _tokens(self, state: State) -> torch.Tensor:
        """[B, N]: each row's root and the guesses that its tree's nodes stand for."""
        roots = torch.tensor(state.roots, device=self.backbone.device)[:, None]
        if state.drafts is None:
            return roots
        return torch.cat([roots, state.drafts.index_select(1, self.buffers.draft_index)], dim=1)

    def _positions(self, cache: TreeCache) -> torch.Tensor:
        """[B, N]; nodes past the context limit stay at its last position, since no answer reaches them."""
        lengths = torch.tensor(cache.lengths, device=self.backbone.device)[:, None]
        return (lengths + self.buffers.depths).clamp_(max=self.backbone.context_limit - 1)

    def _mask(self, cache: TreeCache) -> torch.Tensor:
        """Additive [B or 1, 1, N, S + N]: each row's past, not the gap behind a shorter row, and the tree."""
        start = cache.start
        if self._mask_past < start:
            self._mask_past = max(start, cache.capacity)
            past = self._tree_mask.new_zeros(len(self._tree_mask), self._mask_past)
            self._long_mask = torch.cat([past, self._tree_mask], dim=1)[None, None]
        mask = self._long_mask[..., self._mask_past - start :]
        if min(cache.lengths) == start:
            return mask
        lengths = torch.tensor(cache.lengths, device=mask.device)[:, None, None, None]
        columns = torch.arange(mask.shape[-1], device=mask.device)
        return mask + self.backbone.additive((columns < lengths) | (columns >= start))

    def _noise(self, logits: torch.Tensor, state: State) -> torch.Tensor | None:
        """For logits [B, n, V], as much noise: all nodes of a depth share their position's."""
        if self.noise is None:
            return None
        depths = self.buffers.depths[: logits.shape[1]]
        count = int(depths[-1]) + 1
        noise = torch.stack(
            [
                torch.from_numpy(self.noise.rows(name, offset + 1, count))
                for name, offset in zip(state.prompt_ids, state.offsets, strict=True)
            ]
        )  # [B, depths, V]
        return noise.to(logits.device)[:, depths]

    def _drafts(self, head_logits: torch.Tensor) -> torch.Tensor:
        """[K, B, V] -> [B, K * width]: the best ids of each head."""
        ids = top_ranks(head_logits, self.buffers.width)
        return ids.transpose(0, 1).flatten(1)
