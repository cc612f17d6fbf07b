"""Fitting the hardware model: against an off-the-shelf solver, on latencies whose origin is known."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from treeopt.errors import InputError
from treeopt.search.hardware import GPUS, SHAPES
from treeopt.search.latency import LatencyProfile
from treeopt.search.roofline import LINEAR, Roofline, sides_ms, simulate, work
from treeopt.search.roofline_fit import (
    RATIOS,
    Points,
    errors,
    fit,
    held_out_settings,
    held_out_sizes,
)

GPU, SHAPE = GPUS["a100-80gb-pcie"], SHAPES["smollm2-135m"]
SIZES = (2, 4, 8, 16, 32, 48, 64, 65, 96, 128)

known = st.builds(
    Roofline,
    st.just(GPU),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.floats(0, 1),
    st.floats(0, 2),
    st.floats(0, 2),
    st.booleans(),
)


def measured(model: Roofline, batches=(1, 8, 64), contexts=(128, 2048), noise=0.0) -> Points:
    rows = simulate(model, SHAPE, batches=batches, contexts=contexts, sizes=SIZES)
    points = Points.of(LatencyProfile.from_rows(rows))
    wobble = np.random.default_rng(0).uniform(1 - noise, 1 + noise, len(points.latency_ms))
    return Points(points.batch, points.context, points.tokens, points.latency_ms * wobble)


def rms(relative: np.ndarray) -> float:
    return float(np.sqrt(np.mean(relative**2)))


@settings(max_examples=15, deadline=None)
@given(known)
def test_latencies_of_a_known_model_are_met_and_extended(model):
    found = fit(GPU, SHAPE, measured(model))
    assert rms(errors(found, SHAPE, measured(model))) <= 0.011
    beyond = measured(model, batches=(4, 32, 128), contexts=(512, 4096))
    assert rms(errors(found, SHAPE, beyond)) <= 0.05
    assert min(found.compute, found.bandwidth) > 0
    assert 0 <= found.exposed <= 1 and found.fixed_ms >= 0 and found.tree_ms >= 0


def test_the_bare_gpu_is_found_as_such():
    found, bare = (asdict(model) for model in (fit(GPU, SHAPE, measured(Roofline(GPU))), Roofline(GPU)))
    assert found.pop("gpu") == bare.pop("gpu")
    assert found == pytest.approx(bare, abs=1e-6)


@settings(max_examples=5, deadline=None)
@given(known, st.floats(0.02, 0.2))
def test_no_model_is_much_better(model, noise):
    """scipy's solver at every ratio, with and without tiles."""
    points = measured(model, contexts=(512,), noise=noise)
    least = np.inf
    tree = points.tokens > 1
    for tiled in (True, False):
        compute, memory = sides_ms(GPU, work(SHAPE, points.batch, points.context, points.tokens, tiled=tiled))
        for ratio in RATIOS:
            both = compute / ratio + memory
            longer = np.maximum(compute / ratio, memory)
            design = np.stack([longer.sum(0), both.sum(0), np.ones(len(tree)), tree], axis=1)
            _, left = nnls(design / points.latency_ms[:, None], np.ones(len(tree)))
            least = min(least, left / np.sqrt(len(tree)))
    assert rms(errors(fit(GPU, SHAPE, points), SHAPE, points)) <= max(1.05 * least, 0.01) + 1e-9


def test_a_kernel_has_no_tree_constant_and_any_unit():
    """Relative latencies of one part: rates are moot, their shape is not."""
    model = Roofline(GPU, exposed=0.2)
    tokens = np.array([1, *SIZES])
    ones = np.ones_like(tokens)
    latency = model.latency_ms(SHAPES["llama-33b"], 1, 1024, tokens, [LINEAR])
    points = Points(ones, 1024 * ones, tokens, latency / latency[0])
    found = fit(GPU, SHAPES["llama-33b"], points, [LINEAR])
    assert found.tree_ms == 0
    again = found.latency_ms(SHAPES["llama-33b"], 16, 1024, tokens, [LINEAR])
    wanted = model.latency_ms(SHAPES["llama-33b"], 16, 1024, tokens, [LINEAR])
    assert again / again[0] == pytest.approx(wanted / wanted[0], rel=0.1)


def test_errors_of_held_out_sizes_are_of_sizes_not_fitted():
    points = measured(Roofline(GPU, 0.5, 0.5, fixed_ms=1.0), batches=(1,), contexts=(128,))
    assert np.abs(held_out_sizes(GPU, SHAPE, points)).max() < 0.02
    odd = np.where(points.tokens == 32, 2.0, 1.0)
    off = Points(points.batch, points.context, points.tokens, points.latency_ms * odd)
    found = held_out_sizes(GPU, SHAPE, off)
    assert len(found) == len(SIZES)
    assert found.min() == pytest.approx(-0.5, abs=0.1), "the size that is off was predicted by the others"
    assert not len(held_out_settings(GPU, SHAPE, points))


def test_errors_of_held_out_settings():
    points = measured(Roofline(GPU, 0.5, 0.3, 0.3, 0.5, 0.2))
    found = held_out_settings(GPU, SHAPE, points)
    assert len(found) == len(points.latency_ms)
    assert np.abs(found).max() < 0.1


def test_too_little_to_fit():
    few = measured(Roofline(GPU), batches=(1,), contexts=(128,)).take(np.arange(1 + len(SIZES)) < 4)
    with pytest.raises(InputError, match="4 sizes to fit; time at least 5"):
        fit(GPU, SHAPE, few)
    assert not len(held_out_sizes(GPU, SHAPE, few))
