"""The demo's prompts: well formed, spread over both halves, and not part of its model's training text."""

import ast
import importlib.util
import json
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from treeopt.search.split import half_of

ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (files("treeopt") / "demo" / "prompts.jsonl").read_text().splitlines()]
CATEGORIES = ("strings", "files", "numbers", "collections", "classes", "parsing", "network", "dates")


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    """The training text's module, which is a script's neighbour and not part of the package."""
    spec = importlib.util.spec_from_file_location("corpus", ROOT / "calibration" / "demo" / "corpus.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def signature_lines(source: str) -> set[str]:
    """Each `def` line, dedented."""
    return set(re.findall(r"^ *((?:async )?def .*)$", source, flags=re.MULTILINE))


def test_no_prompt_occurs_in_the_training_text(corpus):
    documents = corpus.documents()
    assert len(documents) > 5_000
    text = "\n\0".join(documents)
    trained_on = signature_lines(text)
    assert "def lower(self):" in trained_on
    for row in ROWS:
        assert row["prompt"] not in text, row["id"]
        assert signature_lines(row["prompt"]), row["id"]
        assert not signature_lines(row["prompt"]) & trained_on, row["id"]


def test_ids_and_texts_are_unique():
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert len({row["prompt"] for row in ROWS}) == len(ROWS)
    assert all(set(row) == {"id", "category", "prompt"} for row in ROWS)


def test_every_category_has_twelve_prompts():
    assert Counter(row["category"] for row in ROWS) == dict.fromkeys(CATEGORIES, 12)


def test_both_halves_get_a_fair_share_of_every_category():
    shares = Counter((row["category"], half_of(row["id"])) for row in ROWS)
    assert {half for _, half in shares} == {"calibrate", "evaluate"}
    for category in CATEGORIES:
        for half in ("calibrate", "evaluate"):
            assert shares[category, half] >= 4, (category, half)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_prompt_is_in_the_canonical_layout_of_the_training_text(row, corpus):
    """With the shortest body added, it is one function just as `corpus.functions` would write it.

    The line break behind its last line is the model's to write: it shares a token with the next indentation.
    """
    prompt = row["prompt"]
    assert prompt == prompt.rstrip()
    last = prompt.splitlines()[-1]
    indent = len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0)
    document = prompt + "\n" + " " * indent + "pass"
    assert list(corpus.functions(document)) == [document]
    assert isinstance(ast.parse(document).body[0], ast.FunctionDef | ast.AsyncFunctionDef)
