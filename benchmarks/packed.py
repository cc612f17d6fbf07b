"""Packed weights against torch's own product, by shape and rows, on this CPU. Last line: JSON.

python benchmarks/packed.py
"""

import json
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from treeopt.model.packed import SMALLEST, PackedLinear

SHAPES = ((192, 192), (512, 192), (1024, 192), (192, 576), (576, 576), (1536, 576), (576, 1536), (49152, 576))
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


@torch.inference_mode()
def main() -> None:
    result = {}
    print("out x in, packed from here on or not, time of nn.Linear over time of PackedLinear by rows")
    for outputs, inputs in SHAPES:
        linear = nn.Linear(inputs, outputs, bias=False)
        packed = PackedLinear(linear)
        ratios = {}
        for rows in ROWS:
            hidden = torch.randn(1, rows, inputs)
            ratios[rows] = ratio(partial(linear, hidden), partial(packed, hidden))
        name = f"{outputs}x{inputs}"
        result[name] = {str(rows): round(value, 2) for rows, value in ratios.items()}
        worth = "packed" if outputs * inputs >= SMALLEST else "left"
        print(f"{name:>10} {worth:>6}  " + "  ".join(f"{r}: {v:.2f}" for r, v in ratios.items()))
    print(json.dumps({"threads": torch.get_num_threads(), "torch": torch.__version__, "ratio": result}))


def ratio(first: Callable[[], object], second: Callable[[], object], seconds: float = 0.3) -> float:
    """Median time of `first` over that of `second`, called in turn for about so long."""
    times: tuple[list[float], list[float]] = ([], [])
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times[0]) < 10:
        for call, taken in zip((first, second), times, strict=True):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
    return statistics.median(times[0][3:]) / statistics.median(times[1][3:])


if __name__ == "__main__":
    main()
