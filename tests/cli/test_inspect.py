"""Inspecting what others wrote: tables of accuracies, compressed answers, names that would steer a terminal."""

import gzip
import json

import pytest

from tests.cli.command_line import fail, following, succeed


def test_a_matrix_of_accuracies_is_told_from_a_list_of_paths(tmp_path):
    matrix, paths = tmp_path / "matrix.json", tmp_path / "paths.json"
    matrix.write_text("[[0.6, 0.2], [0.4, 0.1]]")
    paths.write_text("[[0], [1]]")
    seen = succeed("inspect", matrix)
    assert "rank 1" in seen.stdout
    assert following(seen)[:3] == ["grow", "--accuracy", str(matrix)]
    assert succeed("inspect", paths).stdout.startswith("3 nodes")


def test_named_tables_of_accuracies(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"topk_accuracy": {"one": [[0.6, 0.7]], "two": [[0.5, 0.6]]}}))
    assert "NAME of one, two" in fail("inspect", path)
    assert json.loads(succeed("inspect", f"{path}:two", "--json").stdout)["accuracy"][0] == pytest.approx(
        [0.5, 0.1]
    )


def test_cumulative_is_heeded_or_refused(tmp_path):
    path, paths = tmp_path / "accuracy.csv", tmp_path / "paths.json"
    path.write_text("head,rank,accuracy\n1,0,0.6\n1,1,0.7\n")
    paths.write_text("[[0], [1]]")
    seen = succeed("inspect", path, "--cumulative")
    assert "0.100" in seen.stdout
    assert "--cumulative" in following(seen)
    assert "--cumulative is about a table of accuracies" in fail("inspect", paths, "--cumulative")


def test_compressed_answers(tmp_path):
    answer = {
        "id": "a",
        "category": "c",
        "turn": 0,
        "prompt_ids": [1],
        "answer_ids": [2, 3],
        "ended": "limit",
    }
    path = tmp_path / "answers.jsonl.gz"
    whole = gzip.compress(json.dumps(answer).encode())
    path.write_bytes(whole)
    assert succeed("inspect", path).stdout.startswith("1 answers of 2.0 tokens")
    path.write_bytes(whole[:-9])
    assert "answers.jsonl.gz: cannot be read" in fail("inspect", path)


def test_names_do_not_steer_the_terminal(tmp_path):
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({"trees": {"a\x1b[31mb": [[0]], "c\nd": [[0], [1]]}}))
    lines = succeed("inspect", path).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["a\\x1b[31mb", "c\\nd"]
    assert "has no tree '\\x1b[2J'" in fail("inspect", f"{path}:\x1b[2J")
