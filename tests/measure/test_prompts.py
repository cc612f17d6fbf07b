"""Prompt files of every shape, and malformed ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.errors import InputError
from treeopt.measure.prompts import Prompt, read_prompts

MT_BENCH = Path(__file__).parents[2] / ".." / "shared" / "data" / "mt_bench_questions.jsonl"


def write(folder: Path, rows: list, name: str = "prompts.jsonl") -> Path:
    """JSON lines, or a list for a name that ends in .json."""
    path = folder / name
    lines = "\n".join(json.dumps(row) for row in rows)
    path.write_text(json.dumps(rows, indent=1) if name.endswith(".json") else lines + "\n")
    return path


SHAPES = {
    "own": ({"id": "x", "category": "c", "prompt": "p"}, Prompt("x", "c", ("p",))),
    "own with defaults": ({"id": 3, "category": None, "prompt": " p\n"}, Prompt("3", "all", (" p\n",))),
    "mt-bench": (
        {"question_id": 81, "category": "writing", "turns": ["one", "two"], "reference": []},
        Prompt("81", "writing", ("one", "two")),
    ),
    "alpaca": ({"id": "x", "instruction": "do", "input": "", "output": "o"}, Prompt("x", "all", ("do",))),
    "alpaca with input": (
        {"id": "x", "instruction": "do", "input": "this", "output": "o"},
        Prompt("x", "all", ("do\n\nthis",)),
    ),
    "sharegpt": (
        {
            "id": "x_0",
            "conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "one"},
                {"from": "gpt", "value": ""},
                {"from": "user", "value": "two"},
            ],
        },
        Prompt("x_0", "all", ("one", "two")),
    ),
}


@pytest.mark.parametrize("name", ["prompts.jsonl", "prompts.json"])
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_every_shape_as_lines_and_as_a_list(tmp_path, shape, name):
    row, prompt = SHAPES[shape]
    assert read_prompts(write(tmp_path, [row], name)) == [prompt]


def test_order_is_kept_and_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text('\ufeff\n{"prompt": "b", "id": "2"}\r\n\n{"prompt": "a", "id": "1"}', encoding="utf-8")
    assert [prompt.id for prompt in read_prompts(path)] == ["2", "1"]


def test_a_missing_id_comes_from_the_content(tmp_path):
    rows = [{"instruction": "do"}, {"prompt": "else"}]
    first, second = read_prompts(write(tmp_path, rows))
    assert first.id != second.id
    reread = read_prompts(write(tmp_path, rows[::-1], "again.json"))
    assert reread == [second, first]


@given(
    st.lists(
        st.fixed_dictionaries({"id": st.text(min_size=1), "prompt": st.text(min_size=1)}),
        min_size=1,
        unique_by=lambda row: row["id"],
    )
)
def test_any_text_survives_both_spellings(tmp_path_factory, rows):
    rows = [row for row in rows if row["id"].strip() and row["prompt"].strip()] or [
        {"id": "a", "prompt": "b"}
    ]
    folder = tmp_path_factory.mktemp("prompts")
    for name in ("a.json", "a.jsonl"):
        prompts = read_prompts(write(folder, rows, name))
        assert [(prompt.id, prompt.turns[0]) for prompt in prompts] == [(r["id"], r["prompt"]) for r in rows]


@pytest.mark.skipif(not MT_BENCH.exists(), reason="shared data absent")
def test_reads_the_mt_bench_questions():
    prompts = read_prompts(MT_BENCH)
    assert len(prompts) == 80
    assert prompts[0].id == "81"
    assert prompts[0].category == "writing"
    assert len({prompt.category for prompt in prompts}) == 8
    assert all(len(prompt.turns) == 2 for prompt in prompts)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("text", "line 2: not a JSON object but 'text'"),
        (["x"], "line 2: not a JSON object"),
        ({}, "line 2: no prompt among its fields []"),
        ({"question": "x"}, "line 2: no prompt among its fields ['question']"),
        ({"prompt": ""}, "line 2: prompt must be a text"),
        ({"prompt": " \n"}, "line 2: prompt must be a text"),
        ({"prompt": 5}, "line 2: prompt must be a text that is not empty, not 5"),
        ({"prompt": "\ud83d"}, "line 2: prompt has half a surrogate pair"),
        ({"turns": []}, "line 2: turns must be a list"),
        ({"turns": "x"}, "line 2: turns must be a list"),
        ({"turns": ["x", None]}, "line 2: turn 2 must be a text"),
        ({"instruction": None}, "line 2: instruction must be a text"),
        ({"instruction": "x", "input": 4}, "line 2: input must be a text"),
        ({"conversations": "x"}, "line 2: conversations must be a list"),
        ({"conversations": ["x"]}, "line 2: conversations must be a list"),
        ({"conversations": []}, "line 2: nobody called human or user"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "line 2: nobody called human or user"),
        ({"conversations": [{"from": "human"}]}, "line 2: the value of message 1 must be a text"),
        ({"id": "", "prompt": "x"}, "line 2: id must be a text"),
        ({"id": 1.5, "prompt": "x"}, "line 2: id must be a text"),
        ({"id": True, "prompt": "x"}, "line 2: id must be a text"),
        ({"prompt": "x", "category": 3}, "line 2: category must be a text"),
        ({"id": "first", "prompt": "x"}, "line 2: id 'first' is that of line 1"),
        ({"prompt": "fine"}, "line 2: id"),  # the same text twice, neither with an id
    ],
)
def test_malformed_rows_are_named_in_one_line(tmp_path, row, complaint):
    first = {"prompt": "fine"} if row == {"prompt": "fine"} else {"id": "first", "prompt": "fine"}
    path = write(tmp_path, [first, row])
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(f"{path}, {complaint}")
    assert "\n" not in str(caught.value)


def test_rows_of_a_list_are_named_by_their_entry(tmp_path):
    path = write(tmp_path, [{"prompt": "x"}, {"prompt": None}], "prompts.json")
    with pytest.raises(InputError, match=r"prompts\.json, entry 2: prompt must be"):
        read_prompts(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no prompts"),
        (b"[]", "no prompts"),
        (b"\n\n", "no prompts"),
        (b'[{"prompt": "x"}', "not JSON"),
        (b'{"prompt": "x"}\n{"prompt": ', "line 2: not JSON"),
        (b"id,prompt\n1,x\n", "line 1: not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_unreadable_content_is_refused(tmp_path, content, complaint):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(str(path))


def test_an_absent_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_prompts(path)


def test_reading_prompts_loads_no_torch():
    program = "import sys, treeopt.measure.prompts, treeopt.measure.repetition; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "False"
