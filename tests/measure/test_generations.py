"""The generations file: written as answers finish, taken up again, refused where something does not belong."""

import gzip
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.errors import InputError, MismatchError
from treeopt.measure.generations import (
    Generation,
    GenerationsFile,
    meta_path,
    read_generations,
    read_provenance,
)
from treeopt.search.split import half_of

SETTINGS = {
    "model_sha256": "m",
    "template": "none",
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "seed": 1,
    "max_new_tokens": 4,
}
ROW: dict[str, Any] = {
    "id": "a",
    "category": "c",
    "turn": 0,
    "prompt_ids": [3],
    "answer_ids": [4, 5],
    "ended": "limit",
}


def answer(name, **changes):
    return Generation(**(ROW | {"id": name} | changes))


def write(tmp_path, *rows):
    path = tmp_path / "generations.jsonl"
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def test_what_was_appended_is_read(tmp_path):
    path = tmp_path / "new" / "generations.jsonl"
    file = GenerationsFile(path, SETTINGS)
    file.append([answer("a"), answer("b", ended="eos")])
    file.append([answer("c", turn=1)])
    assert read_generations(path) == [answer("a"), answer("b", ended="eos"), answer("c", turn=1)]
    assert [generation.key for generation in read_generations(path)] == ["a", "b", "c#1"]
    assert read_provenance(path) == SETTINGS
    assert meta_path(path).name == "generations.meta.json"


def test_a_run_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "generations.jsonl"
    GenerationsFile(path, SETTINGS).append([answer("a")])
    again = GenerationsFile(path, SETTINGS | {"date": "later"})
    assert list(again.done) == ["a"]
    again.append([answer("b")])
    assert [generation.id for generation in read_generations(path)] == ["a", "b"]
    assert read_provenance(path) == SETTINGS, "the origin of the first run stays"


def test_a_half_written_last_line_is_dropped(tmp_path):
    path = tmp_path / "generations.jsonl"
    GenerationsFile(path, SETTINGS).append([answer("a"), answer("b")])
    whole = path.read_bytes()
    for cut in range(len(whole) // 2 + 1, len(whole)):
        path.write_bytes(whole[:cut])
        if cut < len(whole) - 1:  # without its line break alone, the last row is still a row
            assert [generation.id for generation in read_generations(path)] == ["a"]
        file = GenerationsFile(path, SETTINGS)
        assert list(file.done) == ["a"]
        file.append([answer("b")])
        assert path.read_bytes() == whole
        del file  # and its lock


@pytest.mark.parametrize("name", SETTINGS)
def test_other_settings_are_refused_by_name(name, tmp_path):
    path = tmp_path / "generations.jsonl"
    GenerationsFile(path, SETTINGS).append([answer("a")])
    with pytest.raises(MismatchError, match=f"do not belong together: {name} is"):
        GenerationsFile(path, SETTINGS | {name: 7})


def test_a_file_made_elsewhere_needs_little(tmp_path):
    path = write(tmp_path, {"id": 7, "category": None, "prompt_ids": [1], "answer_ids": [2]}, "\n")
    assert read_generations(path) == [Generation("7", "all", 0, [1], [2], "limit")]
    assert read_provenance(path) == {}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{not json}\n", "line 2: not JSON"),
        ("[1]\n", "line 2: not an object"),
        ({"id": "b"}, "line 2: no prompt_ids, answer_ids"),
        (ROW | {"answer_ids": []}, "line 2: answer_ids must be a list of token ids"),
        (ROW | {"answer_ids": "text"}, "line 2: answer_ids must be"),
        (ROW | {"prompt_ids": [1.5]}, "line 2: prompt_ids must be"),
        (ROW | {"prompt_ids": [True]}, "line 2: prompt_ids must be"),
        (ROW | {"prompt_ids": [-1]}, "line 2: prompt_ids must be"),
        (ROW | {"answer_ids": [50]}, "line 2: answer_ids holds 50, outside the vocabulary of 50"),
        (ROW | {"ended": "stopped"}, "line 2: ended is 'stopped'"),
        (ROW | {"turn": "first"}, "line 2: turn is 'first'"),
        (ROW | {"turn": None}, "line 2: turn is None"),
        (ROW | {"id": ""}, "line 2: id is ''; it is a text"),
        (ROW | {"id": None}, "line 2: id is None"),
        (ROW | {"id": 1.5}, "line 2: id is 1.5"),
        (ROW | {"id": "\ud83d"}, "line 2: id '.ud83d' has half a surrogate pair"),
        ("[" * 100_000 + "\n", "line 2: not JSON"),
        (ROW | {"id": "x"}, "two answers have the id 'x'"),
    ],
)
def test_a_malformed_row_is_refused_by_file_and_line(row, message, tmp_path):
    path = write(tmp_path, ROW | {"id": "x"}, row, ROW | {"id": "z"})
    with pytest.raises(InputError, match=message) as caught:
        read_generations(path, vocabulary=50)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


END = frozenset({7, 9})


@pytest.mark.parametrize(
    ("ids", "ended", "message"),
    [
        (
            [4, 5],
            "eos",
            "ended is eos, but the last of answer_ids is 5 and the model's end tokens are 7, 9; ",
        ),
        ([4, 7], "limit", "ended is limit, but answer_ids ends with the end token 7; set ended to eos"),
        ([4, 9, 5], "limit", "goes on behind the end token 9, its number 2 of 3; cut it there"),
        ([7, 7], "eos", "goes on behind the end token 7, its number 1 of 2; cut it there"),
    ],
)
def test_an_answer_that_did_not_end_as_it_says_is_refused_by_line(ids, ended, message, tmp_path):
    row = ROW | {"answer_ids": ids, "ended": ended}
    path = write(tmp_path, ROW | {"id": "x"}, row)
    assert len(read_generations(path)) == 2, "nobody knows the end tokens"
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_generations(path, end_tokens=END)
    assert str(caught.value).startswith(f"{path}, line 2: ") and "\n" not in str(caught.value)


def test_a_compressed_file_is_read_with_its_origin(tmp_path):
    path = tmp_path / "shard.01.jsonl"
    GenerationsFile(path, SETTINGS).append([answer("a"), answer("é")])
    packed = path.with_name("shard.01.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_generations(packed) == read_generations(path) == [answer("a"), answer("é")]
    assert meta_path(packed) == meta_path(path) and read_provenance(packed) == SETTINGS
    packed.write_bytes(gzip.compress(b"{}\n{}\n"))
    with pytest.raises(InputError, match=r"shard.01.jsonl.gz, line 1: no id, prompt_ids, answer_ids"):
        read_generations(packed)


@pytest.mark.parametrize("content", [b"", b"{}", gzip.compress(b"x" * 99)[:-9], b"\x1f\x8b" + b"\x00" * 30])
def test_a_damaged_compressed_file_is_named(content, tmp_path):
    path = tmp_path / "answers.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"answers.jsonl.gz: (cannot be read|holds no answers)") as caught:
        read_generations(path)
    assert "\n" not in str(caught.value)


def test_a_model_without_end_tokens_ends_no_answer(tmp_path):
    with pytest.raises(InputError, match="end tokens are none"):
        read_generations(write(tmp_path, ROW | {"ended": "eos"}), end_tokens=frozenset())
    assert read_generations(write(tmp_path, ROW), end_tokens=frozenset()) == [answer("a")]


@given(st.lists(st.integers(0, 9), min_size=1))
def test_how_an_answer_ended_is_told_by_its_ids(tmp_path_factory, ids):
    cut = next((i + 1 for i, token in enumerate(ids) if token in END), len(ids))
    row = {"id": "a", "prompt_ids": [7], "answer_ids": ids[:cut]}
    path = write(tmp_path_factory.mktemp("answers"), row)
    (made,) = read_generations(path, end_tokens=END)
    assert made.ended == ("eos" if ids[cut - 1] in END else "limit")
    path = write(path.parent, row | {"ended": made.ended})
    assert read_generations(path, end_tokens=END) == [made]


def test_files_that_hold_nothing(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read.*`treeopt generate` makes this file"):
        read_generations(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match="holds no answers"):
        read_generations(write(tmp_path, "\n"))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        read_generations(tmp_path / "binary.jsonl")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    file = GenerationsFile(tmp_path / "generations.jsonl", SETTINGS)
    file.path.mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        file.append([answer("a")])


def test_halves_are_by_prompt(tmp_path):
    names = [f"p{number}" for number in range(20)]
    path = write(tmp_path, *(ROW | {"id": name, "turn": turn} for name in names for turn in (0, 1)))
    halves = {half: read_generations(path, split=half) for half in ("calibrate", "evaluate")}
    for half, generations in halves.items():
        assert generations and all(half_of(generation.id) == half for generation in generations)
    assert sum(map(len, halves.values())) == len(read_generations(path)) == 40


def test_two_runs_do_not_write_one_file(tmp_path):
    path = tmp_path / "generations.jsonl"
    first = GenerationsFile(path, {"model_sha256": "a"})
    with pytest.raises(InputError, match="another run is writing it"):
        GenerationsFile(path, {"model_sha256": "a"})
    del first
    GenerationsFile(path, {"model_sha256": "a"})
