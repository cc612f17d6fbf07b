"""Gumbel noise that is a function of (seed, prompt, position) and of nothing else.

The token at answer position t is argmax(logits / T + g_t). Whatever draws it (plain decoding, any tree, any batch)
meets the same g_t, so the text has the backbone's own distribution and does not depend on how it was decoded.
"""

import hashlib

import numpy as np


class PositionNoise:
    """Standard Gumbel noise over the vocabulary, by prompt and answer position.

    Philox (Salmon et al. 2011) is keyed by a hash of seed and prompt, and counts from the position; its raw output
    is stable between numpy releases. Recent rows are kept, since a rejected draft's position comes up again: `keep`
    numbers in all, at least one row.
    """

    def __init__(self, seed: int, vocabulary: int, keep: int = 2**24) -> None:
        self.seed, self.vocabulary, self.keep = seed, vocabulary, keep
        self._rows: dict[tuple[str, int], np.ndarray] = {}

    def row(self, prompt_id: str, position: int) -> np.ndarray:
        """float32 [V] for the token at this answer position (0 = the first of the answer)."""
        found = self._rows.get((prompt_id, position))
        if found is None:
            if (len(self._rows) + 1) * self.vocabulary > self.keep:
                self._rows.clear()
            found = self._rows[prompt_id, position] = self._draw(prompt_id, position)
        return found

    def rows(self, prompt_id: str, first: int, count: int) -> np.ndarray:
        """float32 [count, V] for consecutive positions."""
        return np.stack([self.row(prompt_id, position) for position in range(first, first + count)])

    def _draw(self, prompt_id: str, position: int) -> np.ndarray:
        digest = hashlib.sha256(f"{self.seed}\0{prompt_id}".encode()).digest()
        stream = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=position << 128)
        uniform = ((stream.random_raw(self.vocabulary) >> np.uint64(11)) + 0.5) * 2.0**-53
        return -np.log(-np.log(uniform)).astype(np.float32)
