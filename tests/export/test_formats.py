"""Every format: what it writes it reads back, what it cannot express it refuses, and bytes come from the tree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import UnsupportedError
from treeopt.export import FORMATS
from treeopt.export.read import read_trees
from treeopt.tree import ROOT, Tree

EXAMPLE = Tree.from_choices([[0], [1], [0, 0]])
FACTS = {"model": "demo", "template": "none", "dtype": "float32", "positions": 4096, "date": "2026-11-29"}


@pytest.mark.parametrize("name", FORMATS)
@given(tree=trees())
def test_a_round_trip_is_the_identity_where_the_format_can_express_the_tree(tmp_path_factory, name, tree):
    path = tmp_path_factory.mktemp("export") / "tree"
    try:
        files = FORMATS[name].write(tree, FACTS)
    except UnsupportedError:
        assert tree == ROOT
        return
    for suffix, text in files.items():
        path.with_name(path.name + suffix).write_text(text)
    assert list(read_trees(path).values()) == [tree]


@pytest.mark.parametrize("name", FORMATS)
@given(tree=trees(), data=st.data())
def test_bytes_depend_on_the_tree_and_not_on_how_or_when_it_was_made(name, tree, data):
    if not tree.choices:
        return
    format = FORMATS[name]
    shuffled = Tree.from_choices(data.draw(st.permutations([list(path) for path in tree.choices])))
    assert format.write(shuffled, FACTS) == format.write(tree, FACTS)
    later = format.write(tree, FACTS | {"date": "2027-01-01", "python": "3.14"})
    assert later[""] == format.write(tree, FACTS)[""]


def test_json_is_the_canonical_list_and_its_provenance_stands_beside_it():  # pitfall 5
    files = FORMATS["json"].write(EXAMPLE, FACTS)
    assert files[""] == "[[0],[1],[0,0]]\n"
    assert json.loads(files[".meta.json"]) == FACTS


def test_medusa_is_a_line_of_its_choices_file_below_its_provenance():  # pitfall 5
    text = FORMATS["medusa"].write(EXAMPLE, FACTS)[""]
    assert text == (
        '# model: "demo"\n'
        '# template: "none"\n'
        "# positions: 4096\n"
        '# dtype: "float32"\n'
        "treeopt_3 = [(0,), (1,), (0, 0)]\n"
    )


@given(st.text())
def test_no_provenance_breaks_out_of_its_comment(model):
    *comments, line = FORMATS["medusa"].write(EXAMPLE, {"model": model})[""].splitlines()
    assert len(comments) == 1
    assert comments[0].startswith("# ")
    assert line == "treeopt_3 = [(0,), (1,), (0, 0)]"


def test_medusa_refuses_ranks_that_would_read_the_next_heads_guesses():  # pitfall 3
    medusa = FORMATS["medusa"]
    medusa.check(Tree.from_choices([[9], [9, 9]], close=True))
    tree = Tree.from_choices([[0], [12], [11], [0, 10]], close=True)
    with pytest.raises(UnsupportedError, match=r"medusa: path \[11\] has rank 11.*up to 9.*--max-rank 9"):
        medusa.write(tree, {})
    with pytest.raises(UnsupportedError, match=r"path \[0, 10\]"):
        medusa.write(Tree.from_choices([[0], [0, 10]]), {})


@pytest.mark.parametrize("name", FORMATS)
def test_a_tree_deeper_than_the_heads_is_refused_by_its_first_such_path(name):  # pitfall 2
    tree = Tree.from_choices([[0, 0, 0, 0], [1, 0, 0, 0]], close=True)
    FORMATS[name].check(tree, heads=4)
    with pytest.raises(
        UnsupportedError, match=rf"{name}: path \[0, 0, 0, 0\] needs 4 heads, the model has 3"
    ):
        FORMATS[name].write(tree, {}, heads=3)


def test_plain_decoding_is_no_tree_for_medusa():
    assert FORMATS["json"].write(ROOT, {})[""] == "[]\n"
    with pytest.raises(UnsupportedError, match="plain decoding"):
        FORMATS["medusa"].write(ROOT, {})


def test_formats_are_found_by_name():
    assert {"json", "medusa"} <= set(FORMATS)
    for name, format in FORMATS.items():
        assert format.name == name
        assert format.description
