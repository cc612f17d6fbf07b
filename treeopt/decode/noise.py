"""Gumbel noise that is a function of (seed, prompt, position) and of nothing else.

The token at answer position t is argmax(logits / T + g_t). Whatever draws it (plain decoding, any tree, any batch)
meets the same g_t, so the text has the backbone's own distribution and does not depend on how it was decoded.
"""

import hashlib

import numpy as np

BLOCK = 2**16
"""Numbers drawn at a time: 64 positions of a vocabulary of 1,024, one position of a large vocabulary."""


class PositionNoise:
    """Standard Gumbel noise over the vocabulary, by prompt and answer position.

    Philox (Salmon et al. 2011) is keyed by a hash of seed and prompt, and counts from the position; its raw output
    is stable between numpy releases. Positions are drawn in blocks, since a draw costs more than its numbers do for
    a small vocabulary. Recent blocks are kept, since a rejected draft's position comes up again: `keep` numbers in
    all, at least one block.
    """

    def __init__(self, seed: int, vocabulary: int, keep: int = 2**24) -> None:
        self.seed, self.vocabulary, self.keep = seed, vocabulary, keep
        self.block = max(1, BLOCK // vocabulary)  # positions
        self._blocks: dict[tuple[str, int], np.ndarray] = {}

    def row(self, prompt_id: str, position: int) -> np.ndarray:
        """float32 [V] for the token at this answer position (0 = the first of the answer)."""
        return self.rows(prompt_id, position, 1)[0]

    def rows(self, prompt_id: str, first: int, count: int) -> np.ndarray:
        """float32 [count, V] for consecutive positions."""
        blocks = range(first // self.block, (first + count - 1) // self.block + 1)
        parts = [self._block(prompt_id, block) for block in blocks]
        start = first - blocks[0] * self.block
        return (parts[0] if len(parts) == 1 else np.concatenate(parts))[start : start + count]

    def _block(self, prompt_id: str, block: int) -> np.ndarray:
        found = self._blocks.get((prompt_id, block))
        if found is None:
            if (len(self._blocks) + 1) * self.block * self.vocabulary > self.keep:
                self._blocks.clear()
            found = self._blocks[prompt_id, block] = self._draw(prompt_id, block)
        return found

    def _draw(self, prompt_id: str, block: int) -> np.ndarray:
        digest = hashlib.sha256(f"{self.seed}\0{prompt_id}".encode()).digest()
        stream = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=block << 128)
        raw = stream.random_raw(self.block * self.vocabulary)
        exponential = -np.log(((raw >> np.uint64(11)) + 0.5) * 2.0**-53)
        return -np.log(exponential.astype(np.float32)).reshape(self.block, self.vocabulary)
