"""How much of an answer merely repeats what it said before; heads look good on text that loops."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from treeopt.measure.generations import Generation

LOOPING = 0.4
"""Median share of repeated 4-grams above which heads look better than they are."""


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


def repetition(answers: Iterable[Generation]) -> dict[str, float]:
    """Median share of repeated 4-grams of the answers in each category."""
    shares: dict[str, list[float]] = {}
    for answer in answers:
        shares.setdefault(answer.category, []).append(repeated_share(answer.answer_ids))
    return {category: median(values) for category, values in shares.items()}


def looping(medians: Mapping[str, float]) -> str | None:
    """What to be warned of where answers repeat themselves too much; None where they do not."""
    categories = [category for category, value in medians.items() if value > LOOPING]
    if not categories:
        return None
    return (
        f"answers repeat themselves in {', '.join(categories)}: more than {LOOPING:.0%} of 4-grams; heads guess"
        " such text too easily, so acceptance is inflated (another --temperature may help)"
    )
