"""The two halves of the prompts: one to grow, choose and fit on, one to judge on."""

import hashlib

CALIBRATE, EVALUATE, ALL = "calibrate", "evaluate", "all"
SPLITS = (CALIBRATE, EVALUATE, ALL)


def half_of(prompt_id: str) -> str:
    """The half a prompt belongs to, whatever other prompts there are: the first bit of its id's SHA-256."""
    return EVALUATE if hashlib.sha256(prompt_id.encode()).digest()[0] & 0x80 else CALIBRATE
