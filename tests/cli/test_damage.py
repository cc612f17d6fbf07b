"""Artifacts that someone edited: read as far as they make sense, else refused in one line; never a traceback."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command_line import run_cli

DAMAGE: st.SearchStrategy[object] = st.sampled_from([None, -1, 1.5, "x", [], {}, [[]], [1], True, {"a": 1}])
COMMANDS = {
    "choose": ["choose", "--run", "{run}"],
    "grow": ["grow", "--run", "{run}"],
    "replay": ["replay", "--run", "{run}"],
    "export": ["export", "--run", "{run}", "--format", "json"],
    "export that file": ["export", "--run", "{run}", "--format", "json", "--tree", "{file}"],
    "inspect": ["inspect", "{file}"],
}


def damaged(value, draw):
    """A JSON value with one entry, somewhere in it, replaced or removed."""
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 5))
    key = draw(st.sampled_from(list(keys)))
    if value[key] and isinstance(value[key], (dict, list)) and draw(st.booleans()):
        damaged(value[key], draw)
    elif draw(st.booleans()):
        value[key] = draw(DAMAGE)
    else:
        del value[key]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory, complete):
    return shutil.copytree(complete, tmp_path_factory.mktemp("damage") / "run")


@settings(max_examples=150)
@given(data=st.data())
def test_damage_is_one_line_or_harmless(data, scratch, complete):
    name = data.draw(st.sampled_from(["choice", "growth", "latency", "evaluation", "generations.meta"]))
    file = scratch / f"{name}.json"
    for artifact in complete.glob("*.json"):
        shutil.copy(artifact, scratch)
    content = json.loads(file.read_text())
    damaged(content, data.draw)
    file.write_text(json.dumps(content))
    arguments = COMMANDS[data.draw(st.sampled_from(sorted(COMMANDS)))]
    result = run_cli(*(word.format(run=scratch, file=file) for word in arguments))
    assert result.exit_code in (0, 1)
    assert "unexpected" not in result.stderr
    assert (
        len([line for line in result.stderr.splitlines() if line.startswith("treeopt:")]) == result.exit_code
    )
