"""The two halves of the prompts: one to grow, choose and fit on, one to judge on; and folds within a half."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CALIBRATE, EVALUATE, ALL = "calibrate", "evaluate", "all"
SPLITS = (CALIBRATE, EVALUATE, ALL)


def half_of(prompt_id: str) -> str:
    """The half a prompt belongs to, whatever other prompts there are: the first bit of its id's SHA-256."""
    return EVALUATE if hashlib.sha256(prompt_id.encode()).digest()[0] & 0x80 else CALIBRATE


def folds_by_prompt(ids: Sequence[str], folds: int) -> NDArray[np.int64]:
    """The fold, 0 to `folds` - 1, of each of these answers; all answers to one prompt are in the same.

    Prompts are dealt out in the order of their ids' SHA-256, so folds differ by one prompt at most.
    """
    ordered = sorted(set(ids), key=lambda name: hashlib.sha256(name.encode()).digest())
    fold = {name: place % folds for place, name in enumerate(ordered)}
    return np.array([fold[name] for name in ids], np.int64)
