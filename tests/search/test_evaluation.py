"""Evaluations are read whole, or refused with the run and the field named."""

import copy
import json
import math

import pytest

from treeopt.errors import InputError
from treeopt.search.evaluation import category_speedups, read_evaluation

RUN = {
    "name": "tree_3",
    "choices": [[0], [0, 0]],
    "tokens": 3,
    "steps": 2,
    "emitted": 5,
    "step_tokens": [[3, 2]],
    "ids": ["a"],
    "tokens_per_step": 2.5,
    "tokens_per_s": None,
    "acceptance": [1.0, None],
    "divergences": [{"id": "a", "position": 1, "margin": 1e-5, "excused": True}],
    "categories": {"x": {"tokens_per_step": 2.5, "speedup": None}},
}


def write(path, run, **content):
    path.write_text(json.dumps({"runs": [run], **content}))
    return path


def test_what_is_there_is_kept_and_null_is_plain_decoding(tmp_path):
    assert read_evaluation(write(tmp_path / "e.json", RUN))["runs"] == [RUN]
    plain = {"name": "plain", "choices": None, "tokens": 1, "steps": 5, "emitted": 5, "tokens_per_step": 1}
    assert read_evaluation(write(tmp_path / "e.json", plain))["runs"][0]["choices"] == []


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("name", 3, "name is 3"),
        ("choices", [[0, 0]], "run 0"),
        ("steps", 0, "steps is 0"),
        ("emitted", True, "emitted is True"),
        ("step_tokens", [[0]], "step_tokens"),
        ("ids", ["a", "b"], "different length"),
        ("tokens_per_s", "fast", "tokens_per_s is 'fast'"),
        ("tokens_per_s", -1.0, "tokens_per_s"),
        ("acceptance", 1.0, "acceptance"),
        ("divergences", [3], "divergences"),
        ("categories", {"x": {"speedup": "y"}}, "categories"),
    ],
)
def test_a_field_of_another_kind_is_named(tmp_path, field, value, named):
    with pytest.raises(InputError, match=named):
        read_evaluation(write(tmp_path / "e.json", copy.deepcopy(RUN) | {field: value}))


@pytest.mark.parametrize("field", ["name", "steps", "emitted", "tokens", "tokens_per_step"])
def test_what_every_run_has_is_asked_for(tmp_path, field):
    with pytest.raises(InputError, match=f"has no {field}"):
        read_evaluation(write(tmp_path / "e.json", {key: RUN[key] for key in RUN if key != field}))


def test_runs_and_provenance_are_of_their_kind(tmp_path):
    (tmp_path / "e.json").write_text('{"runs": []}')
    with pytest.raises(InputError, match="not a list of runs"):
        read_evaluation(tmp_path / "e.json")
    with pytest.raises(InputError, match="provenance"):
        read_evaluation(write(tmp_path / "e.json", RUN, provenance=3))


def test_speedups_by_category_have_their_intervals_where_they_are_known():
    timed = {"tokens_per_step": 2.5, "speedup": 1.5, "speedup_interval": [1.2, 1.8]}
    older = {"tokens_per_step": 2.5, "speedup": 1.4}
    found = category_speedups(RUN | {"categories": {"x": timed, "y": older, "z": {"speedup": None}}})
    assert found["x"] == (1.5, 1.2, 1.8)
    assert found["y"][0] == 1.4 and all(map(math.isnan, found["y"][1:]))
    assert set(found) == {"x", "y"} and category_speedups({"name": "plain"}) == {}


def test_intervals_by_category_have_two_ends(tmp_path):
    run = RUN | {"categories": {"x": {"speedup": 1.5, "speedup_interval": [1.0]}}}
    with pytest.raises(InputError, match="categories"):
        read_evaluation(write(tmp_path / "e.json", run))
