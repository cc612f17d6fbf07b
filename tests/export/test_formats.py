"""Every format: what it writes it reads back, what it cannot express it refuses, and bytes come from the tree."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import UnsupportedError
from treeopt.export import FORMATS
from treeopt.export.limits import Limits, breaches
from treeopt.export.listing import SIDECAR
from treeopt.export.read import read_trees
from treeopt.tree import ROOT, Tree, chain

EXAMPLE = Tree.from_choices([[0], [1], [0, 0]])
FACTS = {"model": "demo", "template": "none", "dtype": "float32", "positions": 4096, "date": "2026-11-29"}


TREES = [name for name, format in FORMATS.items() if not format.limits.chain]
HEADS = 6


@st.composite
def any_tree(draw):
    """Small trees of any shape, wide and deep ones, chains, and trees as an accuracy table grows them."""
    return draw(
        st.one_of(trees(), trees(max_depth=9, max_rank=17, max_leaves=4), st.builds(chain, st.integers(0, 6)))
    )


@pytest.mark.parametrize("name", FORMATS)
@given(tree=any_tree())
def test_a_round_trip_is_the_identity_where_the_format_can_express_the_tree(tmp_path_factory, name, tree):
    directory = tmp_path_factory.mktemp("export")
    try:
        files = FORMATS[name].write(tree, FACTS, HEADS)
    except UnsupportedError:
        assert any(breaches(tree.choices, FORMATS[name].limits, HEADS))
        return
    for suffix, text in files.items():
        if suffix in (SIDECAR, ".args") and (name, suffix) != ("trtllm", ".args"):
            continue
        (directory / f"tree{suffix}").write_text(text)
        assert list(read_trees(directory / f"tree{suffix}").values()) == [tree]


@pytest.mark.parametrize("name", FORMATS)
@given(tree=any_tree(), data=st.data())
def test_bytes_depend_on_the_tree_and_not_on_how_or_when_it_was_made(name, tree, data):
    format = FORMATS[name]
    if any(breaches(tree.choices, format.limits, HEADS)):
        return
    shuffled = Tree.from_choices(data.draw(st.permutations([list(path) for path in tree.choices])))
    written = format.write(tree, FACTS, HEADS)
    assert format.write(shuffled, FACTS, HEADS) == written
    later = format.write(tree, FACTS | {"date": "2027-01-01", "python": "3.14"}, HEADS)
    assert {suffix: text for suffix, text in later.items() if suffix != SIDECAR} == {
        suffix: text for suffix, text in written.items() if suffix != SIDECAR
    }


@pytest.mark.parametrize("name", FORMATS)
def test_its_origin_is_in_the_file_or_beside_it(name):  # pitfall 5
    files = FORMATS[name].write(chain(3), FACTS, 3)
    origin = json.loads(files[SIDECAR]) if SIDECAR in files else files[""]
    assert origin == FACTS if SIDECAR in files else all(f"# {fact}: " in origin for fact in list(FACTS)[:-1])


@pytest.mark.parametrize("name", TREES)
@given(tree=any_tree(), heads=st.integers(1, 9))
def test_a_refusal_names_the_first_path_that_is_beyond_a_limit(name, tree, heads):
    limits = FORMATS[name].limits

    def fine(paths):
        return not any(breaches(paths, limits, heads))

    first = next((n for n in range(1, tree.size) if not fine(tree.choices[:n])), None)
    if first is None or limits.siblings_first:
        return
    with pytest.raises(
        UnsupportedError, match=rf"^{name}: path {re.escape(str(list(tree.choices[first - 1])))} "
    ):
        FORMATS[name].write(tree, {}, heads)


def test_nodes_are_a_limit_too():
    few = replace(FORMATS["json"], limits=Limits(max_nodes=2))
    few.check(Tree.from_choices([[0], [1]]))
    with pytest.raises(
        UnsupportedError, match=r"path \[0, 0\] is choice 3, .* takes 2; grow with --budget 3"
    ):
        few.check(EXAMPLE)


def test_what_runtimes_are_given_is_their_documented_form():
    tree = Tree.from_choices([[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]])
    written = {name: FORMATS[name].write(tree, {}, heads=4) for name in TREES}
    listed = "[[0],[1],[0,0],[0,1],[1,0],[0,0,0]]"
    assert written["trtllm"][""].endswith("\n- [0]\n- [1]\n- [0, 0]\n- [0, 1]\n- [1, 0]\n- [0, 0, 0]\n")
    assert f'\n--medusa_choices="{listed}"\n' in written["trtllm"][".args"]
    assert "--num_medusa_heads 4 --max_medusa_token_len 6\n" in written["trtllm"][".args"]
    assert json.loads(written["trtllm"][".llm_api.json"]) == {
        "decoding_type": "Medusa",
        "max_draft_len": 6,
        "num_medusa_heads": 4,
        "medusa_choices": json.loads(listed),
    }
    parameter = (
        'parameters: { key: "medusa_choices" value: '
        '{ string_value: "{0}, {1}, {0, 0}, {0, 1}, {1, 0}, {0, 0, 0}" } }\n'
    )
    assert written["triton"][""].endswith(parameter)
    assert "medusa_choices:{0}\\, {1}\\, {0\\, 0}" in written["triton"][".template"]
    assert written["nxd"][""] == listed + "\n"
    assert "--num-medusa-heads 4 --medusa-speculation-length 7 " in written["nxd"][".args"]
    config = json.loads(written["rtp-llm"][""])["medusa_config"]
    assert (config["medusa_choices"], config["medusa_num_heads"]) == (json.loads(listed), 4)
    assert written["hydra"] == written["medusa"]


def test_chains_are_numbers():
    assert json.loads(FORMATS["vllm"].write(chain(3), {}, 5)[""])["num_speculative_tokens"] == 3
    assert FORMATS["tgi"].write(chain(3), {}, 5)[""] == "--speculate 3\n"
    assert FORMATS["mlc"].write(chain(5), {}, 5)[""].endswith('--overrides "spec_draft_length=5"\n')
    with pytest.raises(UnsupportedError, match=r"mlc: path \[0, 0, 0\] has 3 guesses, .* all 5 heads"):
        FORMATS["mlc"].write(chain(3), {}, 5)
    for name in ("vllm", "tgi", "mlc"):
        with pytest.raises(UnsupportedError, match=rf"{name}: path \[1\] is off the chain .* --fit"):
            FORMATS[name].write(EXAMPLE, {}, 5)


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
        "treeopt_4 = [(0,), (1,), (0, 0)]\n"
    )


@given(st.text())
def test_no_provenance_breaks_out_of_its_comment(model):
    *comments, line = FORMATS["medusa"].write(EXAMPLE, {"model": model})[""].splitlines()
    assert len(comments) == 1
    assert comments[0].startswith("# ")
    assert line == "treeopt_4 = [(0,), (1,), (0, 0)]"


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
    with pytest.raises(UnsupportedError, match=rf"^{name}: path \[0, 0, 0\] needs 3 heads, the model has 2"):
        FORMATS[name].write(chain(4), {}, heads=2)


def test_plain_decoding_is_no_tree_for_medusa():
    assert FORMATS["json"].write(ROOT, {})[""] == "[]\n"
    with pytest.raises(UnsupportedError, match="plain decoding"):
        FORMATS["medusa"].write(ROOT, {})


def test_formats_are_found_by_name():
    assert {"json", "medusa"} <= set(FORMATS)
    for name, format in FORMATS.items():
        assert (format.name, bool(format.versions)) == (name, True)
        assert format.description


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.command])
def test_the_line_to_type_names_the_file_or_says_what_is_in_it(name):
    chained = FORMATS[name].limits.chain
    line = FORMATS[name].command_line("a b.json", chain(2) if chained else EXAMPLE, HEADS)
    assert "'a b.json" in line or "[[0],[1],[0,0]]" in line or (chained and "2" in line)
    assert not re.search(r"[{}]", line)


def test_every_runtime_but_the_plain_list_has_a_line_to_type():
    assert [name for name, format in FORMATS.items() if not format.command] == ["json"]
