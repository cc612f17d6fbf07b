"""Weights packed for the CPU: products with few rows, which decoding is made of, run up to five times as fast.

torch hands a float32 product to its general matrix library, which reads the weights in the order they are stored.
oneDNN, which is part of torch's CPU builds, reads them in blocks when they were laid out so once; torch uses that in
frozen compiled graphs, and here it is used directly. Small matrices do not pay for the call
(`benchmarks/packed.py`), and a packed weight has no gradient.
"""

import torch
from torch import nn

SMALLEST = 2**18  # weights of a matrix that is worth packing
ROWS = 64  # of the product that the layout is tuned for
DTYPES = (torch.float32, torch.bfloat16)


class PackedLinear(nn.Module):
    """A linear layer for inference on the CPU: [..., in] -> [..., out]."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().clone(), ROWS)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The product, as `nn.Linear` has it but for rounding."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._packed, self.bias, "none", [], ""
        )
        return product


def pack(model: nn.Module) -> None:
    """Replace, in place, the linear layers of a CPU model that gain by it; nothing where this torch cannot."""
    if not _available():
        return
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and _gains(child.weight):
                setattr(parent, name, PackedLinear(child))


def _gains(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype in DTYPES and weight.numel() >= SMALLEST


def _available() -> bool:
    """Whether this build has the two operations, which are not part of torch's public interface, and they work."""
    try:
        linear = nn.Linear(8, 8)
        rows = torch.ones(2, 8)
        with torch.inference_mode():
            return torch.allclose(PackedLinear(linear)(rows), linear(rows), atol=1e-5)
    except (AttributeError, RuntimeError, TypeError):
        return False
