"""The key/value cache of tree decoding: preallocated, written in place, committed by moving rows.

Row b holds `lengths[b]` committed tokens in columns 0 .. lengths[b]-1. A forward pass writes its tokens behind the
longest row, at columns `start` .. `start + N - 1` of every row; `commit` then moves the accepted ones to the end of
their own row. Columns between a row's end and `start` hold nothing and are masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import Cache


@dataclass(frozen=True)
class CacheShape:
    """What one token takes in the cache of a model."""

    layers: int
    key_heads: int
    key_size: int
    value_heads: int
    value_size: int
    dtype: torch.dtype
    device: torch.device


class TreeCache(Cache):
    """Keys [layers, B, heads, capacity, size] and values alike, for a backbone with full attention."""

    def __init__(self, shape: CacheShape, batch: int, capacity: int) -> None:
        super().__init__(layers=[])
        keys = (shape.layers, batch, shape.key_heads, capacity, shape.key_size)
        values = (shape.layers, batch, shape.value_heads, capacity, shape.value_size)
        self.keys = torch.zeros(keys, dtype=shape.dtype, device=shape.device)
        self.values = torch.zeros(values, dtype=shape.dtype, device=shape.device)
        self.lengths = [0] * batch
        self._rows = slice(0, batch)
        self._start = 0

    @property
    def batch(self) -> int:
        """B."""
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        """Columns of each row."""
        return self.keys.shape[3]

    @property
    def start(self) -> int:
        """The column that the next tree is written to: the longest row's length."""
        return max(self.lengths)

    def open(self, row: int | None = None) -> None:
        """Say where the next forward pass writes: behind one row, or behind the longest of all rows."""
        self._rows = slice(0, self.batch) if row is None else slice(row, row + 1)
        self._start = self.start if row is None else self.lengths[row]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by each attention layer: store its new keys and values, return all columns up to them."""
        end = self._start + key_states.shape[2]
        keys = self.keys[layer_idx, self._rows]
        values = self.values[layer_idx, self._rows]
        keys[:, :, self._start : end] = key_states
        values[:, :, self._start : end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """What models ask for to number tokens; treeopt gives all positions itself."""
        return self._start

    def commit(self, accepted: Sequence[Sequence[int]]) -> None:
        """Keep, of each row, the nodes named (indices into the last forward pass, in order); forget the rest."""
        start = self.start
        if self.batch == 1:
            nodes = list(accepted[0])
            if nodes != list(range(len(nodes))):
                index = torch.tensor(nodes, device=self.keys.device) + start
                for store in (self.keys, self.values):
                    store[:, :, :, start : start + len(nodes)] = store.index_select(3, index)
        else:
            rows = [b for b, nodes in enumerate(accepted) for _ in nodes]
            source = [start + node for nodes in accepted for node in nodes]
            target = [self.lengths[b] + i for b, nodes in enumerate(accepted) for i in range(len(nodes))]
            if source != target:
                row, column, new = torch.tensor([rows, source, target], device=self.keys.device)
                for store in (self.keys, self.values):
                    store[:, row, :, new] = store[:, row, :, column]
        self.lengths = [length + len(nodes) for length, nodes in zip(self.lengths, accepted, strict=True)]

    def drop_rows(self, dropped: Sequence[int]) -> list[int]:
        """Drop rows of the batch; the last ones move into the gaps, so that little is copied.

        Returns, for each row that is left, its index before.
        """
        gone = set(dropped)
        left = self.batch - len(gone)
        movers = [row for row in range(left, self.batch) if row not in gone]
        order = [movers.pop() if row in gone else row for row in range(left)]
        for row, before in enumerate(order):
            if row != before:
                for store in (self.keys, self.values):
                    store[:, row] = store[:, before]
        self.keys, self.values = self.keys[:, :left], self.values[:, :left]
        self.lengths = [self.lengths[row] for row in order]
        return order

    def clear(self, row: int) -> None:
        """Forget what a row holds."""
        self.lengths[row] = 0

    def reserve(self, capacity: int) -> None:
        """Make room for at least `capacity` columns."""
        missing = capacity - self.capacity
        if missing > 0:
            self.keys, self.values = (functional.pad(s, (0, 0, 0, missing)) for s in (self.keys, self.values))

    def truncate(self, length: int) -> None:
        """Forget what lies behind the first `length` tokens of every row (the profiler's rewind)."""
        assert all(length <= held for held in self.lengths)
        self.lengths = [length] * self.batch


class CacheProbe(TreeCache):
    """Records in `seen` the (heads, size) of the keys and values that each layer stores, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(CacheShape(0, 1, 1, 1, 1, torch.float32, torch.device("cpu")), 1, 0)
        self.seen: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Note a layer's shapes; it attends to its own token alone."""
        sizes = tuple((states.shape[1], states.shape[3]) for states in (key_states, value_states))
        self.seen[layer_idx] = sizes  # type: ignore[assignment]
        return key_states, value_states

    def get_mask_sizes(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """(columns, offset) that transformers plans a mask for."""
        return 1, 0
