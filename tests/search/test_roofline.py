"""The hardware model against its table summed in plain loops, its limits, and what the paper finds with it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.search.accuracy import AccuracyTable
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.hardware import GPUS, SHAPES, Gpu, Shape
from treeopt.search.latency import LatencyProfile
from treeopt.search.roofline import ATTENTION, LINEAR, PARTS, Roofline, padded, simulate, work

A100 = GPUS["a100-80gb-pcie"]
CUMULATIVE = [
    [0.560, 0.672, 0.727, 0.760, 0.780],
    [0.316, 0.424, 0.485, 0.528, 0.563],
    [0.201, 0.288, 0.348, 0.383, 0.417],
    [0.147, 0.225, 0.274, 0.311, 0.340],
    [0.118, 0.187, 0.235, 0.272, 0.300],
]
"""Top-1 to top-5 of each head of Vicuna-7B, as published with its Medusa-1 heads."""


@st.composite
def shapes(draw):
    kv_heads, group = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    layers, hidden, intermediate, head_size = (draw(st.integers(1, 40)) for _ in range(4))
    heads, gated = kv_heads * group, draw(st.booleans())
    return Shape("any", layers, hidden, intermediate, heads, kv_heads, head_size, gated)


batches, contexts, tokens = st.integers(1, 64), st.integers(0, 5000), st.integers(1, 300)
share = st.floats(0.01, 2)
gpus = st.builds(Gpu, st.just("any"), st.floats(1, 1e4), st.floats(0.01, 1e4), st.just(80.0))
models = st.builds(
    Roofline, gpus, share, share, st.floats(0, 1), st.floats(0, 9), st.floats(0, 9), st.booleans()
)


def padded_by_counting(rows: int, tile: int) -> int:
    if rows == 1:
        return 1
    step = 16 if rows <= tile else tile
    return next(whole for whole in range(step, rows + step, step) if whole >= rows)


def latency_by_loops(model: Roofline, shape: Shape, b: int, s: int, q: int) -> float:
    """App. G's table, row by row, layer by layer."""
    rows, queries = b * q, q
    if model.tiled:
        rows, queries = padded_by_counting(rows, 128), padded_by_counting(q, 64)
    h, i, n, m, d = shape.hidden, shape.intermediate, shape.heads, shape.kv_heads, shape.head_size
    scores = b * s * queries * n
    operators = {
        "X W_Q": (rows * h * n * d, rows * (h + n * d) + h * n * d),
        "X W_K": (rows * h * m * d, rows * (h + m * d) + h * m * d),
        "X W_V": (rows * h * m * d, rows * (h + m * d) + h * m * d),
        "Q K^T": (scores * d, scores + b * s * m * d + b * queries * n * d),
        "P V": (scores * d, scores + b * s * m * d + b * queries * n * d),
        "X W_up": (rows * h * i, rows * (h + i) + h * i),
        "X W_gate": (rows * h * i, rows * (h + i) + h * i),
        "X W_down": (rows * h * i, rows * (h + i) + h * i),
    }
    if not shape.gated:
        del operators["X W_gate"]
    seconds = 0.0
    for _ in range(shape.layers):
        for multiplications, values in operators.values():
            compute = 2 * multiplications / (model.gpu.compute_tflop_s * 1e12 * model.compute)
            memory = 2 * values / (model.gpu.bandwidth_gb_s * 1e9 * model.bandwidth)
            seconds += max(compute, memory) + model.exposed * min(compute, memory)
    return 1000 * seconds + model.fixed_ms + (model.tree_ms if q > 1 else 0)


@given(rows=st.integers(1, 1000), tile=st.sampled_from([64, 128]))
def test_rows_are_padded_to_whole_tiles(rows, tile):
    assert padded(np.array(float(rows)), tile) == padded_by_counting(rows, tile)


@given(models, shapes(), batches, contexts, tokens)
def test_latency_is_the_sum_of_the_operators(model, shape, b, s, q):
    assert float(model.latency_ms(shape, b, s, q)) == pytest.approx(latency_by_loops(model, shape, b, s, q))


@given(b=st.integers(1, 64), s=st.integers(128, 8192), q=st.integers(1, 128))
def test_without_tiles_and_groups_it_is_the_paper_s_table(b, s, q):
    shape = SHAPES["llama-7b"]
    h, i, n, d = shape.hidden, shape.intermediate, shape.heads, shape.head_size
    found = work(shape, b, s, q, tiled=False)
    flop = 3 * b * q * h**2 + 2 * b * s * q * n * d + 3 * b * q * h * i
    values = 3 * (2 * b * q * h + h**2) + 2 * (b * s * q * n + b * (s + q) * n * d)
    values += 3 * (b * q * (h + i) + h * i)
    assert found.flop.sum() == pytest.approx(2 * shape.layers * flop)
    assert found.bytes.sum() == pytest.approx(2 * shape.layers * values)


@given(models, shapes(), batches, contexts, tokens, st.sampled_from(["batch", "context", "tokens"]))
def test_more_never_takes_less(model, shape, b, s, q, grown):
    less = {"batch": b, "context": s, "tokens": q}
    more = less | {grown: less[grown] + 1}
    assert model.latency_ms(shape, **more) >= model.latency_ms(shape, **less) * (1 - 1e-12)


@given(gpus, shapes(), batches, contexts, tokens)
def test_limits(gpu, shape, b, s, q):
    """One side alone where the other is free; between their maximum and their sum; half the time at twice the rates."""
    done = work(shape, b, s, q)
    compute, memory = done.flop.sum() / gpu.compute_tflop_s / 1e9, done.bytes.sum() / gpu.bandwidth_gb_s / 1e6

    def latency(model: Roofline) -> float:
        return float(model.latency_ms(shape, b, s, q))

    assert latency(Roofline(replace(gpu, compute_tflop_s=math.inf))) == pytest.approx(memory)
    assert latency(Roofline(replace(gpu, bandwidth_gb_s=math.inf))) == pytest.approx(compute)
    assert latency(Roofline(gpu, exposed=1)) == pytest.approx(compute + memory)
    assert max(compute, memory) * (1 - 1e-9) <= latency(Roofline(gpu)) <= (compute + memory) * (1 + 1e-9)
    assert latency(Roofline(gpu, compute=2, bandwidth=2)) == pytest.approx(latency(Roofline(gpu)) / 2)


@given(models, shapes(), st.lists(st.tuples(batches, contexts, tokens), min_size=1, max_size=5))
def test_arrays_are_what_their_entries_are(model, shape, settings):
    b, s, q = map(np.array, zip(*settings, strict=True))
    one_by_one = [float(model.latency_ms(shape, *setting)) for setting in settings]
    assert model.latency_ms(shape, b, s, q).tolist() == pytest.approx(one_by_one)


@given(models, shapes(), batches, contexts, tokens)
def test_parts_add_up(model, shape, b, s, q):
    bare = replace(model, fixed_ms=0.0, tree_ms=0.0)
    parts = [float(bare.latency_ms(shape, b, s, q, [part])) for part in PARTS]
    assert sum(parts) == pytest.approx(float(bare.latency_ms(shape, b, s, q)))


@given(shapes(), batches, contexts, tokens)
def test_grouped_queries_read_fewer_keys_and_compute_the_same(shape, b, s, q):
    alone = work(replace(shape, kv_heads=shape.heads), b, s, q, parts=[ATTENTION])
    grouped = work(shape, b, s, q, parts=[ATTENTION])
    assert grouped.flop.tolist() == alone.flop.tolist()
    fewer = b * s * (shape.heads - shape.kv_heads) * shape.head_size
    assert (alone.bytes - grouped.bytes).tolist() == pytest.approx([2 * shape.layers * fewer] * 2)


def test_the_staircase():
    """Flat within a tile, a cliff past it: linear operators past batch * tokens = 128, attention past 64 tokens."""
    shape, model = SHAPES["llama-33b"], Roofline(A100)
    for part, batch, cliff, other in ((LINEAR, 4, 32, 33), (LINEAR, 16, 8, 9), (ATTENTION, 1, 64, 65)):
        before, after = model.latency_ms(shape, batch, 1024, [cliff, other], [part])
        assert after > 1.3 * before
    within = model.latency_ms(shape, 4, 1024, np.arange(33, 65), [LINEAR])
    assert np.ptp(within) == 0


@pytest.mark.parametrize(
    ("batch", "published", "within"),
    [
        (1, [1.01, 1.02, 1.04, 1.05, 1.07, 1.10], 0.07),
        (4, [1.05, 1.10, 1.87, 1.92, 2.00, 2.88], 0.19),
        (16, [1.90, 2.88, 4.03, 5.68, 6.87, 9.75], 0.19),
    ],
)
def test_linear_operators_are_near_what_the_paper_measured(batch, published, within):
    """Tables 7 and 8: 33B on an A100, relative to one token, nothing fitted."""
    latency = Roofline(A100).latency_ms(
        SHAPES["llama-33b"], batch, 1024, [1, 16, 32, 48, 64, 80, 112], [LINEAR]
    )
    assert latency[1:] / latency[0] == pytest.approx(published, rel=within)


def test_the_committed_table_is_this_model_s():
    rows = pd.read_csv(Path(__file__).parents[2] / "results/reference/simulated/best_sizes.csv")
    assert {*rows["gpu"]} == {*GPUS}
    for key, found in rows.groupby("gpu"):
        gpu, shape = Roofline(GPUS[str(key)]), SHAPES["llama-7b"]
        found = found[found["shape"] == shape.name]
        batch, context, tokens = (found[name].to_numpy() for name in ("batch", "context", "tokens"))
        plain = gpu.latency_ms(shape, batch, context, 1)
        step = gpu.latency_ms(shape, batch, context, tokens)
        assert found["plain_ms"].tolist() == pytest.approx(plain, abs=1e-3)
        assert found["overhead"].tolist() == pytest.approx(step / plain, abs=1e-3)
        assert found["speedup"].tolist() == pytest.approx(
            found["tokens_per_step"] / found["overhead"], abs=5e-3
        )


def speedups(batch: int, context: int, gpu: Gpu = A100, largest: int = 256) -> np.ndarray:
    """Speedup of the best tree of 1, 2, ... `largest` tokens on Llama 7B."""
    accuracies = AccuracyTable(np.diff(np.array(CUMULATIVE), axis=1, prepend=0))
    rates = np.array(grow(Independent(accuracies), largest).tokens_per_step)
    latencies = Roofline(gpu).latency_ms(SHAPES["llama-7b"], batch, context, np.arange(1, largest + 1))
    return rates * latencies[0] / latencies


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_at_batch_1_speedup_declines_beyond_64(gpu):
    found = speedups(1, 1024, gpu)
    assert 32 < 1 + found.argmax() <= 64
    assert found[64:].max() < found[63]


def test_above_batch_32_speedup_falls_below_1():
    by_batch = {batch: speedups(batch, 1024) for batch in (1, 32, 64, 128)}
    assert by_batch[1].max() > by_batch[32].max() > by_batch[64].max() > by_batch[128].max()
    assert by_batch[32][63] < 1 and by_batch[64][63] < by_batch[32][63]


def test_at_batch_4_the_best_size_hardly_moves_with_the_sequence():
    best = [1 + int(speedups(4, context).argmax()) for context in (128, 256, 512, 1024, 2048, 4096, 8192)]
    assert best == sorted(best, reverse=True)
    assert {*best} <= {16, 32}


@given(models, st.lists(st.integers(1, 9), min_size=1, max_size=3), st.lists(st.integers(1, 20), max_size=4))
def test_simulated_rows_are_a_latency_profile(model, few, sizes):
    rows = simulate(model, SHAPES["smollm2-135m"], batches=sorted({*few}), contexts=[0, 100], sizes=sizes)
    profile = LatencyProfile.from_rows(rows, simulated=True)
    assert profile.settings() == [(batch, context) for batch in sorted({*few}) for context in (0, 100)]
    for batch, context in profile.settings():
        assert profile.sizes(batch, context) == sorted({*sizes} - {1})
        plain = float(model.latency_ms(SHAPES["smollm2-135m"], batch, context, 1))
        assert profile.plain_ms(batch, context) == pytest.approx(plain)


def test_what_a_gpu_must_hold():
    """Llama 7B: 6.5 billion parameters with W_O and embeddings, 5.9 without; half a megabyte of cache a token."""
    shape = SHAPES["llama-7b"]
    assert shape.footprint_gb(1, 0) == pytest.approx(11.9, abs=0.1)
    assert shape.footprint_gb(4, 1000) - shape.footprint_gb(1, 0) == pytest.approx(4 * 1000 * 2**19 / 1e9)
