"""Latency profiles: what they say of their samples, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.errors import InputError, MismatchError
from treeopt.search.latency import COLUMNS, PARTS, LatencyProfile

HEADER = "batch,context,tokens,latency_ms"


def csv(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, object]]:
    part = draw(st.sampled_from(PARTS))
    tokens = 1 if part == "plain" else draw(st.integers(1, 4))
    settings = {"batch": draw(st.integers(1, 2)), "context": draw(st.sampled_from([0, 512]))}
    latencies = draw(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=5))
    return [{**settings, "tokens": tokens, "part": part, "latency_ms": latency} for latency in latencies]


profiles = st.lists(rows(), min_size=1, max_size=8).map(
    lambda groups: [row for group in groups for row in group]
)


@given(profiles)
def test_statistics_are_those_of_the_matching_rows(samples):
    profile = LatencyProfile.from_rows(samples)
    for sample in samples:
        keys = [sample[name] for name in COLUMNS[:-1]]
        values = [row["latency_ms"] for row in samples if [row[name] for name in COLUMNS[:-1]] == keys]
        assert profile.median(*keys) == np.median(values)
        assert profile.quartiles(*keys) == tuple(np.quantile(values, (0.25, 0.75)))
    assert profile.settings() == sorted({(row["batch"], row["context"]) for row in samples})
    for batch, context in profile.settings():
        steps = {
            row["tokens"]
            for row in samples
            if (row["batch"], row["context"], row["part"]) == (batch, context, "step")
        }
        assert profile.sizes(batch, context) == sorted(steps)


@given(samples=profiles, simulated=st.booleans())
def test_a_profile_is_written_and_read_back(tmp_path_factory, samples, simulated):
    path = tmp_path_factory.mktemp("latency") / "latency.json"
    profile = LatencyProfile.from_rows(samples, simulated=simulated, provenance={"device": "cpu"})
    profile.write(path)
    again = LatencyProfile.read(path)
    assert again.samples.equals(profile.samples)
    assert (again.simulated, again.provenance) == (simulated, {"device": "cpu"})


def test_the_file_has_the_fields_that_other_programs_read(tmp_path):
    sample = {"batch": 1, "context": 64, "tokens": 8, "part": "verify", "latency_ms": 2.5}
    LatencyProfile.from_rows([sample]).write(tmp_path / "latency.json")
    content = json.loads((tmp_path / "latency.json").read_text())
    assert content["samples"] == [sample]
    assert content["simulated"] is False


def test_a_csv_has_plain_rows_where_tokens_is_one_and_repeats_are_samples(tmp_path):
    path = csv(
        tmp_path, "\ufeff" + HEADER + ", remark", "1, 512, 1, 10, ", "1,512,8,12,x", "1,512,8,14,y", ""
    )
    profile = LatencyProfile.read(path)
    assert profile.plain_ms(1, 512) == 10
    assert profile.sizes(1, 512) == [8]
    assert profile.median(1, 512, 8) == 13
    assert not profile.simulated


def test_a_csv_may_say_which_part_it_timed(tmp_path):
    path = csv(tmp_path, HEADER + ",part", "1,0,1,10,plain", "1,0,8,9,verify", "1,0,8,12,step")
    assert LatencyProfile.from_csv(path).median(1, 0, 8) == 12


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["batch,context,latency_ms", "1,512,10"], "no column tokens (found 'batch, context, latency_ms')"),
        ([""], "no column batch, context, tokens, latency_ms"),
        ([HEADER], "no rows"),
        ([HEADER, "1,512,1,10", "1,512,8,nan"], "line 3: latency_ms is 'nan'"),
        ([HEADER, "1,512,1,0"], "line 2: latency_ms is '0'"),
        ([HEADER, "1,512,1,-3"], "line 2: latency_ms is '-3'"),
        ([HEADER, "1,512,1,inf"], "line 2: latency_ms is 'inf'"),
        ([HEADER, "1,512,1,fast"], "line 2: latency_ms is 'fast'"),
        ([HEADER, "1,512,1.5,10"], "line 2: tokens is '1.5'"),
        ([HEADER, "1,512,0,10"], "line 2: tokens is '0'"),
        ([HEADER, "0,512,1,10"], "line 2: batch is '0'"),
        ([HEADER, "1,-1,1,10"], "line 2: context is '-1'"),
        ([HEADER, "1,512,1"], "line 2: 3 values under 4 columns"),
        ([HEADER, "1,512,1,10,11"], "line 2: 5 values under 4 columns"),
        ([HEADER + ",part", "1,512,8,10,drafting"], "line 2: part is 'drafting'"),
        ([HEADER + ",part", "1,512,8,10,plain"], "line 2: a plain step of 8 tokens"),
    ],
)
def test_a_bad_csv_is_refused_in_one_line_that_says_where(tmp_path, lines, message):
    with pytest.raises(InputError) as error:
        LatencyProfile.from_csv(csv(tmp_path, *lines))
    assert message in str(error.value)
    assert "mine.csv" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "samples",
    [
        None,
        {},
        [1],
        [{}],
        [{"batch": True, "context": 0, "tokens": 1, "part": "plain", "latency_ms": 1}],
        [{"batch": 1, "context": 0, "tokens": 1, "part": ["plain"], "latency_ms": 1}],
        [{"batch": 1, "context": 0, "tokens": 1, "part": "plain", "latency_ms": [1]}],
        [{"batch": 1, "context": 0, "tokens": 1, "part": "plain", "latency_ms": 10**400}],
    ],
)
def test_a_bad_latency_json_is_refused(tmp_path, samples):
    path = tmp_path / "latency.json"
    path.write_text(json.dumps({"kind": "latency", "samples": samples}))
    with pytest.raises(InputError, match=r"latency\.json"):
        LatencyProfile.read(path)


@given(st.binary(max_size=200))
def test_garbage_is_one_error(tmp_path_factory, data):
    for name in ("garbage.csv", "garbage.json"):
        path = tmp_path_factory.mktemp("garbage") / name
        path.write_bytes(data)
        with pytest.raises(InputError) as error:
            LatencyProfile.read(path)
        assert "\n" not in str(error.value)


def test_an_absent_file_is_one_error(tmp_path):
    for name in ("absent.csv", "absent.json"):
        with pytest.raises(InputError, match=name):
            LatencyProfile.read(tmp_path / name)


def test_plain_decoding_is_what_was_timed_as_such_else_a_step_of_one_token():
    step = {"batch": 1, "context": 0, "tokens": 1, "part": "step", "latency_ms": 12}
    plain = step | {"part": "plain", "latency_ms": 10}
    assert LatencyProfile.from_rows([step]).plain_ms(1, 0) == 12
    assert LatencyProfile.from_rows([step, plain]).plain_ms(1, 0) == 10


def test_without_plain_decoding_the_setting_and_the_remedy_are_named(tmp_path):
    profile = LatencyProfile.from_csv(csv(tmp_path, HEADER, "1,0,1,10", "4,512,8,12"))
    with pytest.raises(InputError, match=r"mine\.csv: no plain decoding at batch 4, context 512.*tokens = 1"):
        profile.plain_ms(4, 512)


def test_an_unmeasured_size_is_never_made_up():
    profile = LatencyProfile.from_rows(
        [{"batch": 1, "context": 0, "tokens": n, "latency_ms": n} for n in (1, 8, 16)]
    )
    with pytest.raises(InputError, match="no step latency for 12 tokens at batch 1, context 0"):
        profile.median(1, 0, 12)


def test_merging_keeps_all_samples_of_one_machine_and_model():
    row = {"batch": 1, "context": 0, "tokens": 8, "latency_ms": 10}
    first = LatencyProfile.from_rows([row], provenance={"model_sha256": "a", "device": "cpu"})
    second = LatencyProfile.from_rows(
        [row | {"latency_ms": 20}], provenance={"model_sha256": "a", "device": "cpu"}
    )
    assert first.merge(second).latencies(1, 0, 8).tolist() == [10, 20]
    for other, name in [
        ({"model_sha256": "b"}, "model_sha256"),
        ({"heads_sha256": "b", "device": "gpu"}, "device"),
    ]:
        with pytest.raises(MismatchError, match=name):
            first.merge(LatencyProfile.from_rows([row], provenance=other))
    with pytest.raises(MismatchError, match="simulated"):
        first.merge(LatencyProfile.from_rows([row], simulated=True))
