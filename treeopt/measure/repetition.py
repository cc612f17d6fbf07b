"""How much of an answer merely repeats what it said before; heads look good on text that loops."""

from collections.abc import Sequence


def repeated_share(ids: Sequence[int], n: int = 4) -> float:
    """Share of an answer's n-grams that occurred earlier in the same answer.

    Args:
        ids: token ids of one answer, in order.
        n: tokens in an n-gram.

    Returns:
        A number from 0 (nothing repeats) to almost 1 (a loop); 0.0 for fewer than n + 1 tokens.
    """
    grams = list(zip(*(ids[start:] for start in range(n)), strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
