"""Halves of the prompts."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from treeopt.search.split import half_of


@given(st.text())
def test_a_prompt_stays_in_its_half(name):
    first_bit = bin(int(hashlib.sha256(name.encode()).hexdigest(), 16) | 1 << 256)[3]
    assert half_of(name) == {"0": "calibrate", "1": "evaluate"}[first_bit]


def test_both_halves_are_about_as_large():
    halves = [half_of(f"prompt-{number}") for number in range(2000)]
    assert 900 < halves.count("calibrate") < 1100
