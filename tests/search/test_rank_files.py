"""Rank tables of other drafters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import rank_tables
from treeopt.errors import InputError
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import UNKNOWN


def csv_lines(table):
    """The table as CSV, an answer's own id in front, in any of the spellings."""
    lines = []
    for row, number, offset in zip(table.ranks.tolist(), table.sequence, table.offset, strict=True):
        cells = [{UNKNOWN: "", table.width: "miss"}.get(rank, str(rank)) for rank in row]
        lines.append(",".join([f"answer-{number}", table.categories[number], str(offset), *cells, "eos"]))
    return lines


def assert_same_rows(read, table):
    for name in ("ranks", "sequence", "offset"):
        np.testing.assert_array_equal(getattr(read, name), getattr(table, name))
    assert (read.width, read.categories, read.ended) == (table.width, table.categories, table.ended)


@given(rank_tables(), st.randoms())
def test_csv_round_trip_in_any_order_of_rows(tmp_path_factory, table, random):
    table = table.select(np.flatnonzero(table.lengths).tolist())  # CSV cannot say that an answer is empty
    path = tmp_path_factory.mktemp("ranks") / "ranks.csv"
    lines = csv_lines(table)
    rest = [line for line, offset in zip(lines, table.offset, strict=True) if offset]
    random.shuffle(rest)
    first = [line for line, offset in zip(lines, table.offset, strict=True) if not offset]
    header = ",".join(["id,category,offset", *(f"rank_{head + 1}" for head in range(table.heads)), "ended"])
    path.write_text("\n".join([header, *first, *rest]))
    read = read_ranks(path, width=table.width)
    assert_same_rows(read, table)
    assert read.ids == tuple(f"answer-{number}" for number in range(len(table.ids)))


@given(rank_tables())
def test_npz_round_trip(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("ranks") / "ranks.npz"
    names = {"ids": table.ids, "categories": table.categories, "ended": table.ended}
    given = np.full((table.positions, table.heads, table.width), 0.25)
    np.savez(
        path, ranks=table.ranks, sequence=table.sequence, width=table.width, probabilities=given, **names
    )
    read = read_ranks(path)
    assert_same_rows(read, table)
    np.testing.assert_array_equal(read.probabilities, given)
    assert read.ids == table.ids


@given(rank_tables())
def test_safetensors_round_trip(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("ranks") / "ranks.safetensors"
    table.save(path)
    assert_same_rows(read_ranks(path), table)


def test_the_least_a_file_may_say(tmp_path):
    (tmp_path / "a.csv").write_text("id,offset,rank_1,rank_2\nx,0,2,0\nx,1,0,\nx,2,-1,-1\n")
    np.savez(tmp_path / "a.npz", ranks=[[2, 0], [0, -1], [-1, -1]], sequence=[0, 0, 0])
    for name, title in (("a.csv", "x"), ("a.npz", "0")):
        table = read_ranks(tmp_path / name)
        np.testing.assert_array_equal(table.ranks, [[2, 0], [0, UNKNOWN], [UNKNOWN, UNKNOWN]])
        assert (table.width, table.ids, table.categories, table.ended) == (3, (title,), ("all",), ("limit",))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no column id, offset, rank_1"),
        ("id,offset\n", "no column rank_1"),
        ("id,offset,rank_2\nx,0,0\n", "no column rank_1"),
        ("id,offset,rank_1\nx,0,first\n", "line 2: rank_1 is 'first'; give a whole number, miss"),
        ("id,offset,rank_1\nx,,0\n", "line 2: offset is ''; give a whole number"),
        ("id,offset,rank_1\nx,0,0\nx,0,-1\n", "ranks: row 1, answer x has offset 0"),
        ("id,offset,rank_1\nx,1,-1\n", "ranks: row 0, answer x has offset 1"),
        ("id,offset,rank_1\nx,0,0\n", "ranks: row 0 .* past the answer's end"),
        ("id,offset,rank_1,ended\nx,0,,stop\n", "ranks: answer x ended 'stop'"),
        ("id,offset,rank_1\nx,0,-2\nx,1,\n", "ranks: row 0 .* head 1 has rank -2; ranks count from 0"),
    ],
)
def test_wrong_csv_is_refused_in_one_line(tmp_path, text, complaint):
    path = tmp_path / "ranks.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"^[^\n]*ranks\.csv: {complaint}[^\n]*$"):
        read_ranks(path)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"ranks": [[0]]}, "no array sequence"),
        ({"ranks": [[0.5]], "sequence": [0]}, "whole numbers"),
        (
            {"ranks": [[-1]], "sequence": [0], "ids": ["a", "b"], "ended": ["eos"]},
            "2 ids, 2 categories and 1",
        ),
        ({"ranks": [[-1]], "sequence": [0], "ids": np.array(["a", None])}, "cannot be read"),
    ],
)
def test_wrong_npz_is_refused_in_one_line(tmp_path, arrays, complaint):
    np.savez(tmp_path / "ranks.npz", **arrays)
    with pytest.raises(InputError, match=rf"^[^\n]*ranks\.npz: [^\n]*{complaint}[^\n]*$"):
        read_ranks(tmp_path / "ranks.npz")


@pytest.mark.parametrize("name", ["ranks.csv", "ranks.npz", "ranks.safetensors"])
def test_absent_and_broken_files_are_named(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: cannot be read"):
        read_ranks(tmp_path / name)
    for content in (b"\xff\xfe\x00", b""):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"^[^\n]*{name}: [^\n]*$"):
            read_ranks(tmp_path / name)
