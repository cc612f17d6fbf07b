"""Artifacts: whole or not at all, named by kind, refused in one line."""

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt import __version__, artifact
from treeopt.errors import InputError, MismatchError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(st.dictionaries(st.text(), JSON))
def test_the_readable_layout_says_the_same(content):
    text = artifact.format_json(content)
    assert json.loads(text) == content
    assert text.endswith("\n")


def test_long_lists_take_a_line_for_each_entry():
    nodes = [{"path": [0] * length, "value": 0.5} for length in range(12)]
    lines = artifact.format_json({"nodes": nodes, "values": list(range(100))}).splitlines()
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith('  {"path"')] == nodes
    assert sum(line.startswith(' "values": [0, 1,') for line in lines) == 1


def test_json_round_trip(tmp_path):
    path = tmp_path / "new" / "growth.json"
    artifact.write_json(path, {"sizes": np.arange(3), "best": np.float32(0.5)}, "growth")
    content = artifact.read_json(path, "growth", ["sizes"])
    assert content == {"kind": "growth", "schema": artifact.SCHEMA, "sizes": [0, 1, 2], "best": 0.5}
    assert os.listdir(path.parent) == ["growth.json"]


def test_arrays_round_trip(tmp_path):
    path = tmp_path / "ranks.safetensors"
    ranks = np.arange(6, dtype=np.int16).reshape(2, 3)
    artifact.save_arrays(path, {"ranks": ranks.T}, "ranks", {"width": np.int64(4)})
    arrays, metadata = artifact.load_arrays(path, "ranks")
    np.testing.assert_array_equal(arrays["ranks"], ranks.T)
    assert arrays["ranks"].dtype == np.int16
    assert metadata["width"] == 4


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "choice.json"
    artifact.write_text(path, "old")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        InputError, match=r"^[^\n]*choice\.json: cannot be written \(No space left on device\)"
    ):
        artifact.write_text(path, "new")
    assert os.listdir(tmp_path) == ["choice.json"]
    assert path.read_text() == "old"


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        artifact.write_text(tmp_path / "file" / "growth.json", "{}")
    with pytest.raises(InputError, match="cannot be written"):
        artifact.write_text(tmp_path, "{}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("\udcff", "not JSON"),
        ("[1]", "holds a JSON list"),
        ('{"kind": "latency"}', "is a latency file, not a growth file"),
        ('{"schema": 99}', "has schema 99"),
        ('{"schema": "x"}', "has schema 'x'"),
        ('{"schema": true}', "has schema True"),
        ('{"schema": -3}', "has schema -3"),
        ('{"kind": "growth"}', "has no nodes"),
    ],
)
def test_wrong_json_is_refused_in_one_line(tmp_path, text, complaint):
    path = tmp_path / "growth.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=rf"^[^\n]*growth\.json: {complaint}[^\n]*$"):
        artifact.read_json(path, "growth", ["nodes"])


def test_an_absent_file_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(InputError, match=r"growth\.json: cannot be read .*`treeopt grow` makes this file"):
        artifact.read_json(tmp_path / "growth.json", "growth")
    with pytest.raises(InputError, match="`treeopt calibrate` makes this file"):
        artifact.load_arrays(tmp_path / "ranks.safetensors", "ranks")
    with pytest.raises(InputError, match="cannot be read"):
        artifact.sha256_file(tmp_path / "ranks.safetensors")


def test_other_arrays_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_text("no tensors")
    with pytest.raises(InputError, match="not a safetensors file"):
        artifact.load_arrays(path, "ranks")
    artifact.save_arrays(path, {}, "heads", {})
    with pytest.raises(InputError, match="is a heads file, not a ranks file"):
        artifact.load_arrays(path, "ranks")


def test_hashes_are_of_the_content(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert artifact.sha256_file(path) == artifact.sha256_bytes(b"abc")
    assert artifact.sha256_bytes(b"abc").startswith("ba7816bf")


def test_provenance_keeps_facts_that_are_known():
    made = artifact.provenance(model="demo", device=None)
    assert made["treeopt"] == __version__
    assert made["model"] == "demo"
    assert "device" not in made
    assert made["date"].endswith("+00:00")


def test_artifacts_of_other_models_are_refused_by_name():
    ranks, latency = {"model_sha256": "a" * 64}, {"model_sha256": "b" * 64}
    artifact.require_match("ranks", ranks, "latency", ranks)
    artifact.require_match("ranks", ranks, "latency", {})
    with pytest.raises(
        MismatchError, match="ranks and latency do not belong together: model_sha256 is aaaaaaaaaaaa "
    ):
        artifact.require_match("ranks", ranks, "latency", latency)
