"""Latencies from the hardware model: of a bare GPU, or fitted to a measured profile."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from treeopt.artifact import provenance, sha256_file
from treeopt.cli.output import warn
from treeopt.cli.run import require_writable
from treeopt.cli.stages.grow import derived
from treeopt.errors import InputError
from treeopt.search.hardware import Gpu, Shape
from treeopt.search.latency import LatencyProfile
from treeopt.search.roofline import Floats, Roofline, simulate
from treeopt.search.roofline_fit import Points, errors, fit, held_out_settings, held_out_sizes

CONTEXT = 128
"""Context where none is named."""

SIZES = tuple(range(1, 129))


def make_simulation(
    output: Path,
    gpu: Gpu,
    shape: Shape,
    *,
    measured: Path | None = None,
    batches: Sequence[int] = (),
    contexts: Sequence[int] = (),
    sizes: Sequence[int] = (),
) -> LatencyProfile:
    """Simulate the steps of a model's shape and write latency.json to `output`.

    With `measured`, the hardware model is first fitted to that profile, and its batches and contexts are the defaults.
    InputError where `output` holds measured latencies: they are worth more than simulated ones.
    """
    require_writable(output)
    if output.exists() and not LatencyProfile.read(output).simulated:
        raise InputError(
            f"{output}: has measured latencies, which a simulation does not replace; name another -o"
        )
    facts: dict[str, Any] = {"gpu": gpu.name, "shape": shape.name}
    if measured is None:
        model, origin = Roofline(gpu), provenance(**facts, dtype="float16")
        usual: Sequence[Sequence[int]] = ((1,), (CONTEXT,))
        _warn_of_memory(gpu, shape, batches or usual[0], contexts or usual[1])
    else:
        profile = LatencyProfile.read(measured)
        if profile.simulated:
            raise InputError(f"{measured}: is simulated itself; fit to a profile that was measured")
        usual = [sorted(set(values)) for values in zip(*profile.settings(), strict=True)]
        model, found = _fitted(gpu, shape, profile)
        origin = derived(profile.provenance, **facts, fit=found, fit_sha256=sha256_file(measured))
    rows = simulate(
        model, shape, batches=batches or usual[0], contexts=contexts or usual[1], sizes=sizes or SIZES
    )
    made = LatencyProfile.from_rows(rows, simulated=True, provenance=origin)
    made.write(output)
    return made


def _fitted(gpu: Gpu, shape: Shape, profile: LatencyProfile) -> tuple[Roofline, dict[str, Any]]:
    """The model, and what is to be known of it: its unknowns, and its errors where it was fitted and where not."""
    points = Points.of(profile)
    model = fit(gpu, shape, points)
    unknowns = {name: value for name, value in asdict(model).items() if name != "gpu"}
    outcome = {
        "fitted": _error(errors(model, shape, points)),
        "held_out_sizes": _error(held_out_sizes(gpu, shape, points)),
        "held_out_settings": _error(held_out_settings(gpu, shape, points)),
    }
    return model, unknowns | {name: error for name, error in outcome.items() if error is not None}


def _error(relative: Floats) -> dict[str, float] | None:
    """Count, median and largest of absolute relative errors; None without any."""
    if not len(relative):
        return None
    size = np.abs(relative)
    return {"count": len(size), "median": float(np.median(size)), "largest": float(size.max())}


def _warn_of_memory(gpu: Gpu, shape: Shape, batches: Sequence[int], contexts: Sequence[int]) -> None:
    needed = shape.footprint_gb(max(batches), max(contexts))
    if needed > gpu.memory_gb:
        warn(
            f"{shape.name} at batch {max(batches)}, context {max(contexts)} takes at least {needed:,.0f} GB;"
            f" one {gpu.name} holds {gpu.memory_gb:g}"
        )
