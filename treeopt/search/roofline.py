"""What a decoding step costs on paper: max(compute, memory) of each operator (Cai et al. 2024, App. G).

Kernels work on whole tiles, which makes latency a staircase. Left out, as in the paper, are the output projection,
norms, embeddings, the LM head and the Medusa heads; a model that was fitted to measured steps has them in its rates and
constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeopt.search.hardware import BYTES, Gpu, Shape

Floats = NDArray[np.float64]

LINEAR, ATTENTION = "linear", "attention"
PARTS = (LINEAR, ATTENTION)
"""Operators of a block: products with a weight matrix, and Q K^T with P V."""

GRAIN = 16
"""Rows of the smallest tile: a tensor core's."""

LINEAR_TILE, ATTENTION_TILE = 128, 64
"""Rows of a tile once there are that many: the cliffs of Cai et al. 2024, Tables 7 and 8."""


def padded(rows: Floats, tile: int) -> Floats:
    """Rows in whole tiles: multiples of GRAIN up to `tile`, of `tile` above; a single row is no matrix and stays."""
    whole = np.where(rows <= tile, GRAIN, tile)
    return np.where(rows <= 1, rows, np.ceil(rows / whole) * whole)


@dataclass(frozen=True)
class Work:
    """Of each operator, in all layers together: FLOP and bytes moved, both [operators, ...]."""

    flop: Floats
    bytes: Floats


def work(
    shape: Shape,
    batch: ArrayLike,
    context: ArrayLike,
    tokens: ArrayLike,
    *,
    tiled: bool = True,
    parts: Sequence[str] = PARTS,
) -> Work:
    """Work of one step that verifies `tokens` for each of `batch` sequences with `context` tokens in the cache.

    The table of App. G with its constants filled in: two FLOP for a multiplication and addition, BYTES for a value.
    Grouped-query attention reads fewer keys and values. Arrays broadcast.
    """
    b, s, q = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (batch, context, tokens)))
    operators: list[tuple[Any, Any]] = []
    if LINEAR in parts:
        rows = padded(b * q, LINEAR_TILE) if tiled else b * q
        operators += [(rows * i * o, rows * (i + o) + i * o) for i, o in shape.matrices]
    if ATTENTION in parts:
        queries = padded(q, ATTENTION_TILE) if tiled else q
        n, m, d = shape.heads, shape.kv_heads, shape.head_size
        product = (b * s * queries * n * d, b * s * queries * n + b * (s * m + queries * n) * d)
        operators += [product, product]
    multiplications, values = (np.array(column) for column in zip(*operators, strict=True))
    return Work(2 * shape.layers * multiplications, BYTES * shape.layers * values)


@dataclass(frozen=True)
class Roofline:
    """A hardware model: the bare GPU is the paper's, at data-sheet rates; `treeopt.search.roofline_fit` finds the rest.

    `compute` and `bandwidth` are shares of the GPU's rates that are reached. `exposed` is the share of an operator's
    shorter side (compute or memory) that does not hide behind the longer: 0 gives their maximum, 1 their sum.
    `fixed_ms` is spent in every step, `tree_ms` in tree steps only: heads and acceptance.
    """

    gpu: Gpu
    compute: float = 1.0
    bandwidth: float = 1.0
    exposed: float = 0.0
    fixed_ms: float = 0.0
    tree_ms: float = 0.0
    tiled: bool = True

    def latency_ms(
        self,
        shape: Shape,
        batch: ArrayLike,
        context: ArrayLike,
        tokens: ArrayLike,
        parts: Sequence[str] = PARTS,
    ) -> Floats:
        """Milliseconds of a step, or of some of its parts, with its constants; tokens = 1 is plain decoding."""
        sides = sides_ms(self.gpu, work(shape, batch, context, tokens, tiled=self.tiled, parts=parts))
        compute, memory = sides[0] / self.compute, sides[1] / self.bandwidth
        operators = np.maximum(compute, memory) + self.exposed * np.minimum(compute, memory)
        constant = self.fixed_ms + np.where(np.asarray(tokens) > 1, self.tree_ms, 0.0)
        return np.asarray(operators.sum(axis=0) + constant, np.float64)


def sides_ms(gpu: Gpu, done: Work) -> tuple[Floats, Floats]:
    """Milliseconds [operators, ...] of computing, and of moving memory, at the rates of the data sheet."""
    return done.flop / (gpu.compute_tflop_s * 1e9), done.bytes / (gpu.bandwidth_gb_s * 1e6)


def simulate(
    model: Roofline, shape: Shape, *, batches: Sequence[int], contexts: Sequence[int], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """One sample of plain decoding and of a step of each size at each batch and context, as rows of `latency.json`."""
    tokens = sorted({1, *sizes})
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for context in contexts:
            latencies = model.latency_ms(shape, batch, context, tokens).tolist()
            setting = {"batch": batch, "context": context}
            rows += [
                setting | {"tokens": size, "part": "plain" if size == 1 else "step", "latency_ms": latency}
                for size, latency in zip(tokens, latencies, strict=True)
            ]
    return rows
