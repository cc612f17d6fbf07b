"""Acceptance rules: which nodes of a verified tree are kept, and the token that the next tree grows from.

Greedy and sampled acceptance are one rule, `Sampled`: at every node the backbone draws its next token, and a child is
accepted when it is the token drawn at its parent; greedy drawing is the case without noise. The text is plain
decoding's whatever the tree. `Typical` accepts what is likely enough instead, so its text depends on the tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from treeopt.decode.buffers import TreeBuffers


class Verdict(NamedTuple):
    """What a step accepts: each row's nodes, root first; its next root; how many of its nodes had NaN for logits."""

    paths: list[list[int]]
    roots: list[int]
    nan_nodes: list[int]


class Judged(NamedTuple):
    """What typical acceptance finds of nodes.

    likely and log_p [B, N - 1]: whether each but the root is likely enough, and its log p at its parent.
    drawn and nan [B, N]: the greedy token behind each, and whether its logits hold NaN.
    """

    likely: torch.Tensor
    log_p: torch.Tensor
    drawn: torch.Tensor
    nan: torch.Tensor


@dataclass(frozen=True)
class Sampled:
    """Sampling at a temperature, cut to the `top_k` best tokens (0: all) and then to the nucleus of mass `top_p`.

    Tokens of equal logits are kept or cut together, as transformers' own top-k does. Temperature 0 is greedy.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    @property
    def noisy(self) -> bool:
        """Whether drawing needs noise."""
        return self.temperature > 0

    @property
    def plain(self) -> "Sampled":
        """The rule whose plain decoding a tree's text must equal: this one."""
        return self

    @property
    def name(self) -> str:
        """Greedy or sampled, as options call it."""
        return "sampled" if self.noisy else "greedy"

    def scores(self, logits: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """[..., V] -> [..., V], of which the highest is drawn: logits / T, filtered, with the noise added.

        Gumbel-max: with standard Gumbel noise the token has the distribution of softmax(logits / T), filtered.
        """
        if not self.noisy:
            return logits
        assert noise is not None
        scaled = logits.float() / self.temperature
        cut = self._cut(scaled)
        if cut is not None:
            scaled = scaled.masked_fill(scaled < cut, -torch.inf)
        return scaled + noise

    def draw(self, logits: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """The token drawn at each node, [..., V] -> [...].

        For top-p nothing is sorted. The best score of all is the nucleus's best where its token is in the nucleus,
        which the mass of likelier tokens tells; where it is not, nor is any token as unlikely, and of the rest the
        best is tried.
        """
        if not self.noisy or self.top_p == 1:
            return self.scores(logits, noise).argmax(-1)
        assert noise is not None
        scaled = self._top_k(logits.float() / self.temperature).reshape(-1, logits.shape[-1])
        drawn = torch.empty(len(scaled), dtype=torch.long, device=scaled.device)
        scores, mass = scaled + noise.reshape(scaled.shape), scaled.softmax(-1)
        rows = torch.arange(len(scaled), device=scaled.device)
        while len(rows):
            best = scores.argmax(-1, keepdim=True)
            likelier = scaled > scaled.gather(-1, best)
            drawn[rows] = best[:, 0]
            outside = ((mass * likelier).sum(-1) >= self.top_p).nonzero()[:, 0]
            scores = scores[outside].masked_fill(~likelier[outside], -torch.inf)
            scaled, mass, rows = scaled[outside], mass[outside], rows[outside]
        return drawn.reshape(logits.shape[:-1])

    def accept(
        self,
        buffers: TreeBuffers,
        tokens: torch.Tensor,
        logits: torch.Tensor,
        noise: torch.Tensor | None = None,
    ) -> Verdict:
        """From the root on, the child that was drawn at its parent. tokens [B, N], logits and noise [B, N, V]."""
        drawn_rows = self.draw(logits, noise).tolist()
        paths = [
            follow(buffers.children, row, drawn)
            for row, drawn in zip(tokens.tolist(), drawn_rows, strict=True)
        ]
        roots = [drawn[path[-1]] for drawn, path in zip(drawn_rows, paths, strict=True)]
        return Verdict(paths, roots, [0] * len(paths))

    def edge(self, logits: torch.Tensor) -> float:
        """How near the filters are to keeping other tokens, for logits [V]: in logits / T, or in mass; inf for none."""
        scaled = logits.float() / self.temperature if self.noisy else logits
        cut = self._cut(scaled)
        if cut is None:
            return torch.inf
        kept, out = scaled[scaled >= cut], scaled[scaled < cut]
        near = [float(kept.min() - out.max())] if len(out) else []
        if self.top_p < 1:
            best = self._best(scaled)
            near.append(float((best.softmax(-1).cumsum(-1) - self.top_p).abs().min()))
        return min(near, default=torch.inf)

    def _cut(self, scaled: torch.Tensor) -> torch.Tensor | None:
        """[..., V] -> [..., 1]: the lowest score that is kept; None where nothing is cut."""
        if not self.noisy or (self.top_p == 1 and self.top_k == 0):
            return None
        best = self._best(scaled)
        if self.top_p == 1:
            return best[..., -1:]
        mass = best.softmax(-1)
        before = (
            mass.cumsum(-1) - mass
        )  # of all that is better: a token is kept while it falls short of top_p
        count = (before < self.top_p).sum(-1, keepdim=True)
        return best.gather(-1, (count - 1).clamp(min=0))

    def _best(self, scaled: torch.Tensor) -> torch.Tensor:
        """The scores that top-k keeps, falling; ties with the last of them count in full for top-p."""
        if self.top_p == 1 and self.top_k < scaled.shape[-1]:
            return scaled.topk(self.top_k).values
        return self._top_k(scaled).sort(-1, descending=True).values

    def _top_k(self, scaled: torch.Tensor) -> torch.Tensor:
        """The same scores without those that top-k cuts."""
        if self.top_k == 0 or self.top_k >= scaled.shape[-1]:
            return scaled
        return scaled.masked_fill(scaled < scaled.topk(self.top_k).values[..., -1:], -torch.inf)


GREEDY = Sampled()


@dataclass(frozen=True)
class Typical:
    """Typical acceptance (Cai et al. 2024, section 3.3.1): a candidate is kept when it is likely enough.

    p(x) > min(epsilon, delta * exp(-H(p))), with p = softmax(logits / T) at the candidate's parent and H its entropy;
    the longest such path wins, and of several the likeliest. The token behind it is greedy and kept unconditionally.
    A node whose own logits hold NaN is rejected with all below it: nothing could follow it. At temperature 0 all of
    p lies on the best token, so acceptance is greedy.
    """

    temperature: float
    epsilon: float = 0.09
    delta: float = 0.3

    noisy = False
    plain = GREEDY
    name = "typical"

    def threshold(self, p: torch.Tensor) -> torch.Tensor:
        """[..., V] -> [...]: what a candidate's probability must exceed."""
        entropy = torch.special.entr(p).sum(-1)
        return (self.delta * (-entropy).exp()).clamp(max=self.epsilon)

    def draw(self, logits: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """The greedy token of each node, [..., V] -> [...]; NaN is no candidate."""
        return logits.masked_fill(logits.isnan(), -torch.inf).argmax(-1)

    def accept(
        self,
        buffers: TreeBuffers,
        tokens: torch.Tensor,
        logits: torch.Tensor,
        noise: torch.Tensor | None = None,
    ) -> Verdict:
        """The longest path of likely tokens in each row. tokens [B, N], logits [B, N, V]; noise is not used."""
        judged = self.judge(buffers, tokens, logits)
        paths = [
            longest(buffers.tree.parents, row, values)
            for row, values in zip(judged.likely.tolist(), judged.log_p.tolist(), strict=True)
        ]
        roots = [row[path[-1]] for row, path in zip(judged.drawn.tolist(), paths, strict=True)]
        return Verdict(paths, roots, judged.nan.sum(-1).tolist())

    def judge(self, buffers: TreeBuffers, tokens: torch.Tensor, logits: torch.Tensor) -> Judged:
        """What is found of each node by itself, whether its parent is accepted or not."""
        nan = logits.isnan().any(-1)
        drawn = self.draw(logits)
        above = torch.tensor(buffers.tree.parents[1:], dtype=torch.long, device=logits.device)
        if self.temperature == 0:
            log_p = torch.zeros_like(tokens[:, 1:], dtype=torch.float32)
            likely = tokens[:, 1:] == drawn[:, above]
        else:
            p = (logits.float() / self.temperature).softmax(-1)
            own = p[:, above].gather(-1, tokens[:, 1:, None])[..., 0]
            log_p, likely = own.log(), own > self.threshold(p)[:, above]
        return Judged(likely & ~nan[:, 1:] & ~nan[:, above], log_p, drawn, nan)


Rule = Sampled | Typical


def follow(children: Sequence[Sequence[int]], tokens: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """The accepted nodes, root first: from the root on, the child whose token is the one drawn at its parent."""
    path = [0]
    while True:
        node = path[-1]
        accepted = next((child for child in children[node] if tokens[child] == drawn[node]), None)
        if accepted is None:
            return path
        path.append(accepted)


def longest(parents: Sequence[int], likely: Sequence[bool], log_p: Sequence[float]) -> list[int]:
    """The longest path of likely nodes, root first; of several the one with the highest sum of log p, then the first.

    `parents` is of all N nodes, each behind its parent; `likely` and `log_p` are of all but the root.
    """
    reached = {0: (0, 0.0)}  # depth and log p of each node that may be accepted
    for node, (passes, value) in enumerate(zip(likely, log_p, strict=True), start=1):
        if passes and parents[node] in reached:
            depth, total = reached[parents[node]]
            reached[node] = (depth + 1, total + value)
    path = [max(reached, key=reached.__getitem__)]
    while path[-1]:
        path.append(parents[path[-1]])
    return path[::-1]
