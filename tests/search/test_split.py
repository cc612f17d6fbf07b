"""Halves of the prompts."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from treeopt.search.split import folds_by_prompt, half_of


@given(st.text())
def test_a_prompt_stays_in_its_half(name):
    first_bit = bin(int(hashlib.sha256(name.encode()).hexdigest(), 16) | 1 << 256)[3]
    assert half_of(name) == {"0": "calibrate", "1": "evaluate"}[first_bit]


def test_both_halves_are_about_as_large():
    halves = [half_of(f"prompt-{number}") for number in range(2000)]
    assert 900 < halves.count("calibrate") < 1100


@given(st.lists(st.sampled_from([f"prompt-{number}" for number in range(9)])), st.integers(1, 4))
def test_folds_are_of_whole_prompts_and_even(ids, folds):
    found = folds_by_prompt(ids, folds).tolist()
    of_prompt = dict(zip(ids, found, strict=True))
    assert found == [of_prompt[name] for name in ids]
    sizes = [list(of_prompt.values()).count(fold) for fold in range(folds)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == len(set(ids))


def test_folds_do_not_depend_on_the_order_of_prompts():
    ids = [f"prompt-{number}" for number in range(20)]
    assert folds_by_prompt(ids, 5).tolist() == folds_by_prompt(ids[::-1], 5).tolist()[::-1]
