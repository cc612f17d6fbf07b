"""GPUs and model shapes that are known by name, for the hardware model. Loads nothing."""

from dataclasses import dataclass

BYTES = 2
"""Of a value in half precision, in which the rates below are given."""


@dataclass(frozen=True)
class Gpu:
    """Peak rates: memory in GB/s, dense half-precision products in TFLOP/s; `memory_gb` is what it holds."""

    name: str
    bandwidth_gb_s: float
    compute_tflop_s: float
    memory_gb: float


@dataclass(frozen=True)
class Shape:
    """What the operators of a decoder need to know; `gated` MLPs have three matrices, others two.

    `kv_heads` < `heads` is grouped-query attention.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    gated: bool = True

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of each linear operator of a block: W_Q, W_K, W_V, up, gate where there is one, down.

        These are the operators of Cai et al. 2024, App. G: its block has no output projection.
        """
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        up, down = (self.hidden, self.intermediate), (self.intermediate, self.hidden)
        attention = (self.hidden, query), (self.hidden, key), (self.hidden, key)
        return (*attention, up, up, down) if self.gated else (*attention, up, down)

    def footprint_gb(self, batch: int, context: int) -> float:
        """GB of the blocks' weights and of the keys and values of `batch` sequences, in half precision."""
        weights = sum(inputs * outputs for inputs, outputs in self.matrices)
        cache = 2 * batch * context * self.kv_heads * self.head_size
        return BYTES * self.layers * (weights + cache) / 1e9


GPUS = {
    gpu.name: gpu
    for gpu in (
        # Cai et al. 2024, App. G
        Gpu("a100-80gb-pcie", 1935, 312, 80),
        Gpu("a40", 696, 149.7, 48),
        Gpu("a6000", 768, 181, 48),
        # NVIDIA's data sheets of the SXM boards, "H100 Tensor Core GPU" and "H200 Tensor Core GPU": 3.35 and 4.8 TB/s;
        # both say 1,979 TFLOP/s for half precision with 2:4 sparsity, of which dense products reach one half
        Gpu("h100-sxm", 3350, 989.5, 80),
        Gpu("h200-sxm", 4800, 989.5, 141),
    )
}

SHAPES = {
    shape.name: shape
    for shape in (
        # the config.json of each model
        Shape("llama-7b", 32, 4096, 11008, 32, 32, 128),
        Shape("llama-13b", 40, 5120, 13824, 40, 40, 128),
        Shape("llama-33b", 60, 6656, 17920, 52, 52, 128),
        Shape("smollm2-135m", 30, 576, 1536, 9, 3, 64),
    )
}
