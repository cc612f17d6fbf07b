"""A damaged file is refused, or read as its runtime's own parser reads it: never as another tree.

The readings below stand for those parsers, and share no code with treeopt's readers.
"""

import ast
import json
import re
import shlex
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.limits import breaches
from treeopt.export.read import read_trees
from treeopt.tree import chain

HEADS = 3


def as_python(text):
    """The value of the last assignment, as running the file would leave it."""
    *_, last = (statement for statement in ast.parse(text).body if isinstance(statement, ast.Assign))
    return ast.literal_eval(last.value)


def argument(text, name, within=None):
    """What follows an argument, `=` or a blank between them; of `a=1;b=2` the value that is `within`."""
    words = [word for line in text.splitlines() for word in shlex.split(line, comments=True)]
    value = dict(zip(words, [*words[1:], ""], strict=True)).get(name)
    value = value or next(word.removeprefix(f"{name}=") for word in words if word.startswith(f"{name}="))
    return value if within is None else dict(pair.split("=") for pair in value.split(";"))[within]


def braces(value):
    """The vector of vectors of a string `{0}, {0, 1}`, number by number."""
    assert value.startswith("{")
    assert re.fullmatch(r"(\{\d+(, *\d+)*\}(, *|$))+", value) and not value.endswith(",")
    return [[int(rank) for rank in path.split(",")] for path in re.findall(r"\{(.*?)\}", value)]


def parameter(text):
    """The string of `medusa_choices` among the parameters of a pbtxt file without its comments."""
    plain = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    [value] = re.findall(r'"medusa_choices" value: \{ string_value: "([^"]*)" \}', plain)
    return braces(value)


def template(text):
    """As fill_template.py has it: pairs between commas that are not escaped."""
    pairs = dict(pair.split(":") for pair in re.split(r"(?<!\\),", text.strip()))
    return braces(pairs["medusa_choices"].replace("\\,", ","))


def guesses(number):
    return [[0] * length for length in range(1, int(number) + 1)]


OWN = {
    ("json", ""): json.loads,
    ("nxd", ""): json.loads,
    ("medusa", ""): as_python,
    ("hydra", ""): as_python,
    ("rtp-llm", ""): lambda text: json.loads(text)["medusa_config"]["medusa_choices"],
    ("trtllm", ""): import_module("yaml").safe_load,  # which comes with transformers
    ("trtllm", ".args"): lambda text: ast.literal_eval(argument(text, "--medusa_choices")),
    ("trtllm", ".llm_api.json"): lambda text: json.loads(text)["medusa_choices"],
    ("triton", ""): parameter,
    ("triton", ".template"): template,
    ("vllm", ""): lambda text: guesses(json.loads(text)["num_speculative_tokens"]),
    ("tgi", ""): lambda text: guesses(argument(text, "--speculate")),
    ("mlc", ""): lambda text: guesses(argument(text, "--overrides", "spec_draft_length")),
}
"""How each file that holds choices is read by the parser of its runtime."""


@st.composite
def damaged(draw, text):
    """A text with up to three characters or lines more, less, twice, or other, or cut off."""
    for _ in range(draw(st.integers(0, 3))):
        pieces = list(text) if draw(st.booleans()) else text.splitlines(keepends=True)
        place = draw(st.integers(0, len(pieces)))
        kept = pieces[place : place + 1]
        other = draw(st.sampled_from(["", "# ", *"[](){},:=;-#\"'\\ \n012x"]))
        after = {"less": [], "more": [other, *kept], "twice": kept * 2, "other": [other], "cut": []}
        kind = draw(st.sampled_from(sorted(after)))
        text = "".join([*pieces[:place], *after[kind], *(pieces[place + 1 :] if kind != "cut" else [])])
    return text


@pytest.mark.parametrize(("name", "suffix"), OWN, ids=lambda value: value or "file")
@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_file_is_never_another_tree(tmp_path_factory, name, suffix, data):
    format = FORMATS[name]
    shapes = st.integers(1, HEADS).map(chain)
    if not format.limits.chain:
        shapes |= trees(HEADS, 2).filter(lambda tree: not any(breaches(tree.choices, format.limits, HEADS)))
    if format.limits.all_heads:
        shapes = st.just(chain(HEADS))
    text = data.draw(damaged(format.write(data.draw(shapes), {"model": "demo"}, HEADS)[suffix]))
    try:
        own = {tuple(path) for path in OWN[name, suffix](text)}
    except Exception:
        return  # the runtime does not read it either
    path = tmp_path_factory.mktemp("damaged") / f"file{suffix}"
    path.write_text(text)
    try:
        [read] = read_trees(path).values()
    except (InputError, ValueError):
        return
    assert set(read.choices) == own


def test_every_file_with_choices_is_held_against_its_own_parser():
    for name, format in FORMATS.items():
        for suffix, text in format.write(chain(HEADS), {}, HEADS).items():
            if suffix != ".meta.json" and (name, suffix) != ("nxd", ".args"):
                assert len(list(OWN[name, suffix](text))) == HEADS


@given(data=st.data())
def test_garbage_through_each_reader_is_its_tree_nothing_or_one_clear_error(data):
    """Each reader by itself, so that none hides behind those that look first."""
    format = FORMATS[data.draw(st.sampled_from(sorted(FORMATS)))]
    fragments = [*"[](){},:=;-#\"'\\ \n012x", "--speculate", "medusa_choices:", "{0}", "- [0]", '"choices"']
    written = [text for other in FORMATS.values() for text in other.write(chain(HEADS), {}, HEADS).values()]
    text = data.draw(
        st.lists(st.sampled_from(fragments), max_size=12).map("".join) | st.sampled_from(written)
    )
    text, message = data.draw(damaged(text)), "somewhere: read"
    try:
        for listing in (format.read(text, "somewhere") or {}).values():
            assert listing.where.startswith("somewhere")
            listing.tree(close=True)
    except InputError as error:
        message = str(error)
    assert message.startswith("somewhere") and "\n" not in message
