"""`treeopt profile`: what a whole decoding step costs at each tree size, with the real model, heads and cache.

The trees timed are grown from a fixed table of typical accuracies: a step's cost depends on how many tokens are
verified and hardly on which, and profiling knows nothing of calibration. Sizes are timed in random order, round by
round, so that drift spreads over all of them.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from tqdm import tqdm

from treeopt.decode import GREEDY, Engine, Rule, State
from treeopt.errors import InputError
from treeopt.model.backbone import Backbone
from treeopt.model.cache import TreeCache
from treeopt.model.heads import MedusaHeads
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.tree import Tree

SIZES = (1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
REFINE_ABOVE = 0.10  # relative step between neighbouring medians that asks for a size in between
WARM_UP = 3
STRETCH = 4  # steps timed in a row: caches are as warm as in real decoding

Row = dict[str, int | float | str]


def typical_tree(heads: int, size: int) -> Tree:
    """A tree of `size` nodes shaped as heads of common quality would have it."""
    ranks = np.arange(max(size, 2))  # a single head needs one for each node
    values = np.array([0.5 * 0.7**k * 0.35**ranks for k in range(heads)])
    return grow(Independent(AccuracyTable(values)), size).tree(size)


def profile(
    backbone: Backbone,
    heads: MedusaHeads,
    *,
    batches: Sequence[int] = (1,),
    contexts: Sequence[int] = (128,),
    sizes: Sequence[int] = SIZES,
    repeats: int = 30,
    refine: bool = True,
    rule: Rule = GREEDY,
    seed: int = 0,
) -> list[Row]:
    """Samples of every size at each batch and context: rows of batch, context, tokens, part and latency_ms.

    `sizes` count the root; size 1 is plain decoding, without heads. With `refine`, sizes are added between
    neighbours whose medians differ by more than a tenth, until they are adjacent or alike. Drawing
    and accepting by `rule` is part of a step.
    Errors: InputError when a context and its tree do not fit the model.
    """
    rows: list[Row] = []
    for batch in batches:
        for context in contexts:
            bench = _Bench(backbone, heads, batch, context, max(sizes), rule, seed)
            wanted = sorted(set(sizes))
            while wanted:
                rows += bench.time(wanted, repeats)
                wanted = _between(rows, batch, context) if refine else []
    return rows


class _Bench:
    """One batch and context: a filled cache that every size starts from."""

    def __init__(
        self,
        backbone: Backbone,
        heads: MedusaHeads,
        batch: int,
        context: int,
        largest: int,
        rule: Rule,
        seed: int,
    ):
        if context + heads.heads >= backbone.context_limit:
            raise InputError(
                f"--context {context}: {backbone.name} takes {backbone.context_limit} tokens in all; name a smaller one"
            )
        self.backbone, self.heads, self.batch, self.context = backbone, heads, batch, context
        self.rule = rule
        self.random = random.Random(seed)
        self.names = [f"profile-{row}" for row in range(batch)]
        prompt = [self.random.randrange(backbone.vocabulary) for _ in range(context)]
        with torch.inference_mode():
            room = largest + (STRETCH + 1) * (heads.heads + 1)
            self.cache: TreeCache = backbone.new_cache(batch, context + room)
            self.hidden = torch.stack([backbone.prefill(prompt, self.cache, row) for row in range(batch)])
        self.engines: dict[int, Engine] = {}

    def time(self, sizes: Sequence[int], repeats: int) -> list[Row]:
        """At least `repeats` steps of every size, some in a row, the sizes in a new random order each round."""
        for size in sizes:
            tree = typical_tree(self.heads.heads, size)
            self.engines[size] = Engine(self.backbone, self.heads, tree, rule=self.rule)
            for _ in range(WARM_UP):
                self._stretch(size)
        rows: list[Row] = []
        label = f"profile batch {self.batch}, context {self.context}"
        for _ in tqdm(range(math.ceil(repeats / STRETCH)), desc=label, unit="round", disable=None):
            for size in self.random.sample(list(sizes), len(sizes)):
                for parts in self._stretch(size):
                    whole = {"plain" if size == 1 else "step": sum(parts.values())}
                    for part, latency in (whole | (parts if size > 1 else {})).items():
                        row: Row = {"batch": self.batch, "context": self.context, "tokens": size}
                        rows.append(row | {"part": part, "latency_ms": latency})
        return rows

    def _stretch(self, size: int) -> list[dict[str, float]]:
        """Milliseconds by part of STRETCH steps in a row, behind an untimed one, from the same cache each time."""
        engine = self.engines[size]
        self.cache.truncate(self.context)
        state: State = engine.begin(self.cache, self.hidden, self.names)
        engine.step(state)
        timed = []
        for _ in range(STRETCH):
            clock = StepClock(self.backbone.device)
            engine.step(state, clock.mark)
            timed.append(clock.parts())
        return timed


class StepClock:
    """Times the parts of a step: CUDA events on a GPU, a monotonic clock elsewhere."""

    def __init__(self, device: torch.device) -> None:
        self._now: Callable[[], object] = time.perf_counter
        if device.type == "cuda":
            self._now = self._event
            torch.cuda.synchronize(device)
        self._marks: list[tuple[str, object]] = [("", self._now())]

    def mark(self, part: str) -> None:
        """Note that `part` ends here."""
        self._marks.append((part, self._now()))

    def parts(self) -> dict[str, float]:
        """Milliseconds of each part; a part marked twice is added up."""
        if isinstance(self._marks[-1][1], torch.cuda.Event):
            self._marks[-1][1].synchronize()
        found: dict[str, float] = {}
        for (_, before), (part, after) in pairwise(self._marks):
            found[part] = found.get(part, 0.0) + _milliseconds(before, after)
        return found

    @staticmethod
    def _event() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _milliseconds(before: object, after: object) -> float:
    if isinstance(before, torch.cuda.Event) and isinstance(after, torch.cuda.Event):
        return before.elapsed_time(after)
    assert isinstance(before, float) and isinstance(after, float)
    return 1000 * (after - before)


def _between(rows: Sequence[Row], batch: int, context: int) -> list[int]:
    """Sizes to add: the middle of each gap between neighbours whose medians differ by more than a tenth."""
    samples: dict[int, list[float]] = {}
    for row in rows:
        if (row["batch"], row["context"]) == (batch, context) and row["part"] in ("plain", "step"):
            samples.setdefault(int(row["tokens"]), []).append(float(row["latency_ms"]))
    medians = {size: float(np.median(samples[size])) for size in sorted(samples)}
    return [
        (low + high) // 2
        for low, high in pairwise(medians)
        if high - low > 1 and abs(medians[high] / medians[low] - 1) > REFINE_ABOVE
    ]
