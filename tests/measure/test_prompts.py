"""Prompt files of every shape, and malformed ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeopt.errors import InputError
from treeopt.measure.prompts import Prompt, PromptFile, read_prompts

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
    assert read_prompts(write(tmp_path, [row], name)) == PromptFile([prompt], [], [])


def test_order_is_kept_and_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text('\ufeff\n{"prompt": "b", "id": "2"}\r\n\n{"prompt": "a", "id": "1"}', encoding="utf-8")
    assert [prompt.id for prompt in read_prompts(path).prompts] == ["2", "1"]


def test_a_missing_id_comes_from_the_content(tmp_path):
    rows = [{"instruction": "do"}, {"prompt": "else"}]
    first, second = read_prompts(write(tmp_path, rows)).prompts
    assert first.id != second.id
    reread = read_prompts(write(tmp_path, rows[::-1], "again.json")).prompts
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
        prompts = read_prompts(write(folder, rows, name)).prompts
        assert [(prompt.id, prompt.turns[0]) for prompt in prompts] == [(r["id"], r["prompt"]) for r in rows]


@pytest.mark.skipif(not MT_BENCH.exists(), reason="shared data absent")
def test_reads_the_mt_bench_questions():
    prompts = read_prompts(MT_BENCH).prompts
    assert len(prompts) == 80
    assert prompts[0].id == "81"
    assert prompts[0].category == "writing"
    assert len({prompt.category for prompt in prompts}) == 8
    assert all(len(prompt.turns) == 2 for prompt in prompts)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("text", "not a JSON object"),
        (["x"], "not a JSON object"),
        (None, "not a JSON object"),
        ({}, "none of prompt, turns, instruction, conversations"),
        ({"question": "x"}, "none of prompt, turns, instruction, conversations"),
        ({"prompt": ""}, "no text"),
        ({"prompt": " \n"}, "no text"),
        ({"prompt": None}, "no text"),
        ({"prompt": 5}, "no text"),
        ({"turns": []}, "no text"),
        ({"turns": "x"}, "turns is no list"),
        ({"turns": [None, "x"]}, "no text"),
        ({"instruction": " "}, "no text in instruction or input"),
        ({"instruction": "x", "input": 4}, "no text in instruction or input"),
        ({"conversations": "x"}, "conversations is no list"),
        ({"conversations": ["x"]}, "conversations is no list of {from, value}"),
        ({"conversations": []}, "nobody called human or user speaks"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "nobody called human or user speaks"),
        ({"conversations": [{"from": "human"}, {"from": "human", "value": "x"}]}, "no text"),
        ({"id": "first", "prompt": "fine"}, "the same as line 1"),
        ({"id": "first", "prompt": "fine", "category": "other"}, "the same as line 1"),
    ],
)
def test_a_row_that_says_nothing_usable_is_skipped_by_name(tmp_path, row, reason):
    first = {"id": "first", "prompt": "fine"}
    file = read_prompts(write(tmp_path, [first, row]))
    assert file == PromptFile([Prompt("first", "all", ("fine",))], [f"line 2 ({reason})"], [])


def test_rows_that_are_no_json_are_skipped_by_their_line(tmp_path):
    path = tmp_path / "prompts.jsonl"
    deep = "[" * 100_000
    path.write_text(f'[1]\n\n{{"prompt": "x", "id": 1}}\n{deep}\nid,prompt\n{"9" * 5000}\n{{"prompt": "y"')
    file = read_prompts(path)
    assert [prompt.id for prompt in file.prompts] == ["1"]
    assert file.skipped == [
        "line 1 (not a JSON object)",
        *(f"line {number} (not JSON)" for number in (4, 5, 6, 7)),
    ]


HUMAN = {"from": "human", "value": "one"}
MODEL = {"from": "gpt", "value": "answer"}
CHAT = "conversations"


@pytest.mark.parametrize(
    ("row", "turns", "repair"),
    [
        ({CHAT: [MODEL, HUMAN]}, ["one"], "what comes before the user's first message dropped"),
        (
            {CHAT: [{"from": "system", "value": "s"}, HUMAN, HUMAN]},
            ["one\n\none"],
            "messages of the user in a row",
        ),
        ({CHAT: [HUMAN, MODEL, {"from": "user", "value": ""}, MODEL, HUMAN]}, ["one"], "ends after turn 1"),
        ({CHAT: [HUMAN, {"from": "user"}, MODEL, HUMAN]}, ["one"], "ends after turn 1"),
        (
            {"turns": ["one", "two", None, "three"]},
            ["one", "two"],
            "ends after turn 2, as what follows is empty",
        ),
        ({"prompt": "a\ud83d"}, ["a\ufffd"], "half a surrogate pair, now U+FFFD"),
        ({"turns": ["\ude00", "\ud83d"]}, ["\ufffd", "\ufffd"], "half a surrogate pair, now U+FFFD"),
        ({"prompt": "x", "category": 3}, ["x"], "category is no text, now 'all'"),
        ({"prompt": "x", "category": ""}, ["x"], "category is no text, now 'all'"),
    ],
)
def test_what_can_be_repaired_is_repaired_by_name(tmp_path, row, turns, repair):
    file = read_prompts(write(tmp_path, [{"prompt": "first"}, {"id": "x"} | row]))
    assert file.prompts[1:] == [Prompt("x", "all", tuple(turns))]
    assert file.skipped == []
    assert len(file.repaired) == 1 and file.repaired[0].startswith(f"line 2 ({repair}")
    assert ";" not in file.repaired[0], "said once"


@pytest.mark.parametrize("given", ["", " ", 1.5, True, ["x"]])
def test_an_id_that_is_none_is_made_from_the_content(tmp_path, given):
    file = read_prompts(write(tmp_path, [{"id": given, "prompt": "x"}]))
    (without,) = read_prompts(write(tmp_path, [{"prompt": "x"}], "b.jsonl")).prompts
    assert file == PromptFile([without], [], [f"line 1 (id is no text, now '{without.id}')"])


def test_the_id_of_another_row_gets_the_first_free_number(tmp_path):
    texts = {"a": "1", "b": "2", "c": "3"}
    rows = [{"id": "x", "prompt": text} for text in texts.values()]
    rows += [{"id": "x-3", "prompt": "own"}, {"id": "x", "prompt": "2"}, {"id": "x", "prompt": "4"}]
    file = read_prompts(write(tmp_path, rows, "prompts.json"))
    assert [prompt.id for prompt in file.prompts] == ["x", "x-2", "x-4", "x-3", "x-5"]
    assert file.skipped == ["entry 5 (the same as entry 2)"]
    assert file.repaired == [
        f"entry {entry} (id of entry 1, now 'x-{number}')" for entry, number in ((2, 2), (3, 4), (6, 5))
    ]


def test_several_repairs_of_a_row_are_one_note(tmp_path):
    row = {"id": "\ud83d", "category": 1, CHAT: [MODEL, HUMAN, HUMAN, MODEL, {"from": "human", "value": " "}]}
    file = read_prompts(write(tmp_path, [row]))
    assert file.prompts == [Prompt("\ufffd", "all", ("one\n\none",))]
    (note,) = file.repaired
    assert note.startswith("line 1 (") and note.count(";") == 4 and "\n" not in note


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(alphabet=st.characters())
    | st.sampled_from(["\ud800", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({"from": st.sampled_from(["human", "gpt", "system", 1]), "value": inner})
        | st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                ("id", "category", "prompt", "turns", "instruction", "input", "conversations"), inner
            ),
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON))
def test_every_row_is_a_prompt_or_skipped_and_prompts_are_whole(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("prompts")
    whole = {"id": "whole", "category": "c", "prompt": "x"}
    files = [read_prompts(write(folder, [whole, *rows], name)) for name in ("a.jsonl", "a.json")]
    assert files[0].prompts == files[1].prompts
    for file in files:
        assert len(file.prompts) + len(file.skipped) == len(rows) + 1
        assert len({prompt.id for prompt in file.prompts}) == len(file.prompts)
        assert all("\n" not in note for note in [*file.skipped, *file.repaired])
        for prompt in file.prompts:
            assert prompt.turns and all(text.strip() for text in (prompt.id, prompt.category, *prompt.turns))
            "".join((prompt.id, prompt.category, *prompt.turns)).encode()
    again = [{"id": p.id, "category": p.category, "turns": p.turns} for p in files[0].prompts]
    assert read_prompts(write(folder, again, "b.jsonl")) == PromptFile(files[0].prompts, [], [])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no prompts in this file; a row is"),
        (b"[]", "no prompts"),
        (b"\n\n", "no prompts"),
        (b'[{"prompt": "x"}', "starts as a list but is not JSON"),
        (b'[\n{"prompt": "x"},\n{"prompt": ', "starts as a list but is not JSON"),
        (b"[" * 100_000, "starts as a list but is not JSON"),
        (b"id,prompt\n1,x\n", r"no prompts in this file: 2 skipped, the first line 1 \(not JSON\)"),
        (b'[{"prompt": null}]', r"no prompts in this file: 1 skipped, the first entry 1 \(no text\)"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_a_file_without_a_usable_row_is_refused_in_one_line(tmp_path, content, complaint):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_an_absent_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_prompts(path)


def test_reading_prompts_loads_no_torch():
    program = "import sys, treeopt.measure.prompts, treeopt.measure.repetition; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "False"
