"""Prompt files and answers with flaws, as a user meets them: named in a line, and never in the way of the rest."""

import json

import pytest

from tests.cli.command_line import fail, following, prompt_rows, succeed, write_lines
from treeopt.measure.generations import read_generations

SKIPPED = ["line 21 (not a JSON object)", "line 22 (no text)", "line 23 (the same as line 1)"]
REPAIRED = ["line 24 (id of line 1, now 'p0-2')"]


@pytest.fixture
def flawed(tmp_path):
    """Twenty good rows, three that are skipped, one that is repaired, and 9 that are no JSON."""
    rows = prompt_rows()
    flaws = ["text", {"prompt": ""}, rows[0], {"id": "p0", "prompt": "x"}]
    path = write_lines(tmp_path / "flawed.jsonl", rows)
    with path.open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in flaws) + '{"prompt": \n' * 9)
    return path


NO_JSON = [f"line {number} (not JSON)" for number in range(25, 34)]


def generate(run, tiny, prompts):
    arguments = ["--template", "none", "--max-new-tokens", 2]
    return ["generate", "--run", run, "--model", tiny, "--prompts", prompts, *arguments]


def test_the_rest_of_a_flawed_file_is_answered_after_a_warning_of_each_kind(tmp_path, tiny, flawed):
    run = tmp_path / "run"
    warnings = [
        line for line in succeed(*generate(run, tiny, flawed)).stderr.splitlines() if f"{flawed}: " in line
    ]
    assert warnings == [
        f"warning: {flawed}: 12 rows skipped: {', '.join([*SKIPPED, *NO_JSON[:2]])}, ...",
        f"warning: {flawed}: 1 row repaired: {REPAIRED[0]}",
    ]
    ids = {answer.id for answer in read_generations(run / "generations.jsonl")}
    assert ids == {*(row["id"] for row in prompt_rows()), "p0-2"}


def test_a_command_of_several_stages_warns_once(tmp_path, tiny, heads, flawed):
    run = tmp_path / "run"
    succeed(*generate(run, tiny, flawed))
    model = ["--model", tiny, "--heads", heads]
    said = succeed("optimize", "--run", run, *model, "--repeats", 2).stderr
    assert said.count("rows skipped") == said.count("row repaired") == 1


@pytest.mark.parametrize("name", ["all.jsonl", "all.json"])
def test_inspect_lists_all_of_them(tmp_path, flawed, name):
    entries = [json.loads(line) for line in flawed.read_text().splitlines()[:24]]
    path = flawed.rename(tmp_path / name)
    expected = [*SKIPPED, *NO_JSON]
    if name.endswith(".json"):
        path.write_text(json.dumps(entries))
        expected = [note.replace("line", "entry") for note in SKIPPED]
    repaired = [note.replace("line", "entry") if name.endswith(".json") else note for note in REPAIRED]
    content = json.loads(succeed("inspect", path, "--json").stdout)
    assert content == {
        "prompts": 21,
        "categories": {"words": 10, "sums": 10, "all": 1},
        "skipped": expected,
        "repaired": repaired,
    }
    shown = succeed("inspect", path)
    for note in [f"{len(expected)} skipped:", *expected, "1 repaired:", *repaired]:
        assert note in shown.stdout
    assert following(shown) == ["generate", "--prompts", str(path)]


def test_inspect_says_nothing_of_flaws_where_there_are_none(prompts):
    shown = succeed("inspect", prompts).stdout
    assert "skipped" not in shown and "repaired" not in shown
    content = json.loads(succeed("inspect", prompts, "--json").stdout)
    assert content["skipped"] == content["repaired"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,prompt\n1,x\n", "no prompts in this file: 2 skipped, the first line 1 (not JSON)"),
        ('[{"prompt": "x"},\n{"prompt": "y"}', "starts as a list but is not JSON"),
    ],
)
def test_a_file_of_nothing_usable_is_refused_in_one_line(tmp_path, tiny, content, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    for arguments in (generate(tmp_path / "run", tiny, path), ["inspect", path]):
        line = fail(*arguments)
        assert str(path) in line and said in line
    assert not (tmp_path / "run" / "generations.jsonl").exists()


def test_an_absent_file_is_named():
    assert "absent.jsonl: cannot be read (No such file or directory)" in fail("inspect", "absent.jsonl")


@pytest.mark.parametrize(
    ("ids", "ended", "said"),
    [
        ([5, 6], "eos", "line 2: ended is eos, but the last of answer_ids is 6"),
        ([5, 1], "limit", "line 2: ended is limit, but answer_ids ends with the end token 1"),
        ([5, 1, 6], "limit", "line 2: answer_ids goes on behind the end token 1"),
        ([5, 999], "limit", "line 2: answer_ids holds 999, outside the vocabulary"),
        ([], "limit", "line 2: answer_ids must be a list of token ids, at least one"),
    ],
)
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_answers_made_elsewhere_are_held_against_the_model(tmp_path, tiny, heads, command, ids, ended, said):
    rows = [
        {"id": "a", "prompt_ids": [5], "answer_ids": [6, 1], "ended": "eos"},
        {"id": "b", "prompt_ids": [5], "answer_ids": ids, "ended": ended},
    ]
    path = write_lines(tmp_path / "generations.jsonl", rows)
    tree = tmp_path / "tree.json"
    tree.write_text("[[0]]")
    arguments = {
        "train": ["train", "medusa1", "--generations", path, "-o", tmp_path / "new"],
        "evaluate": ["evaluate", "--heads", heads, "--tree", tree],
    }[command]
    line = fail(*arguments, "--run", tmp_path, "--model", tiny)
    assert str(path) in line and said in line


def test_later_turns_that_plain_text_cannot_have_are_counted(tmp_path, tiny):
    prompts = write_lines(
        tmp_path / "turns.jsonl", [{"id": "a", "turns": ["one", "two", "three"]}, {"prompt": "b"}]
    )
    asked = succeed(*generate(tmp_path / "run", tiny, prompts)).stderr
    assert "2 later turns left out, as --template none knows none" in asked
    assert "left out" not in succeed(*generate(tmp_path / "one", tiny, prompts), "--turns", 1).stderr
