"""What runtimes do with choices that they cannot express, held against small models of their index arithmetic.

The models are written from the facts in `../shared/reference/runtimes.md`, and share no code with `check`.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.check import FINE, check
from treeopt.export.format import REFUSED, WRONG
from treeopt.export.limits import breaches
from treeopt.export.listing import Listing
from treeopt.export.read import read_listings
from treeopt.tree import Tree, chain

SHARED = Path(__file__).parents[2] / ".." / "shared"


def verdict(name, paths, heads=4, top_k=None):
    return check(FORMATS[name], Listing(paths, "file"), heads, top_k)


def medusa_model(paths, heads, top_k=10):
    """The guess (head, rank), from 0, that each node takes: all heads' guesses lie in one row behind the root."""
    row = [None, *((head, rank) for head in range(heads) for rank in range(top_k))]
    nodes = sorted(paths, key=lambda path: (len(path), path))
    taken = {}
    for path in nodes:
        for length in range(1, len(path)):
            nodes.index(path[:length])  # ValueError where an ancestor is missing
        taken[tuple(path)] = row[1 + top_k * (len(path) - 1) + path[-1]]
    return taken


def packed(path):
    """Four bits a rank, in 32 bits."""
    key = 0
    for rank in path:
        key = (key << 4 | rank) & 0xFFFFFFFF
    return key


def trtllm_cpp_model(paths, heads):
    """The node that each is attached to: found by its packed path among those one shorter, else the root."""
    nodes = sorted(map(tuple, paths), key=lambda path: (len(path), path))
    assert max(map(len, nodes)) <= heads
    assert max(map(max, nodes)) <= 16
    assert {len(path) for path in nodes} == set(range(1, len(nodes[-1]) + 1))
    seen = {(len(path), packed(path)): path for path in nodes}
    return {path: seen.get((len(path) - 1, packed(path[:-1])), ()) for path in nodes}


def trtllm_python_model(paths):
    """The guess (head, rank) at each node's place: places count nodes, but head 1's guesses come up to the highest."""
    nodes = sorted(map(tuple, paths), key=lambda path: (len(path), path))
    first = [path for path in nodes if len(path) == 1]
    drafted = [(0, rank) for rank in range(max(path[0] for path in first) + 1)]
    drafted += [(len(path) - 1, path[-1]) for path in nodes[len(first) :]]
    places = {path: path[0] if len(path) == 1 else place for place, path in enumerate(nodes)}
    return {path: drafted[place] for path, place in places.items()}, len(drafted)


def hydra_model(paths):
    """The path that each node drafts: guesses are counted through its siblings, parents through those with children."""
    nodes = sorted(map(tuple, paths))
    parents = sorted({node[:-1] for node in nodes if len(node) > 1})

    def place(path, among):
        return [other for other in among if other[:-1] == path[:-1]].index(path)

    return {
        path: (*(place(path[:depth], parents) for depth in range(1, len(path))), place(path, nodes))
        for path in nodes
    }


def intended(paths):
    return {tuple(path): (len(path) - 1, path[-1]) for path in paths}


@st.composite
def choices(draw, max_depth=4, max_rank=12):
    """Choices without a path twice, most often with all ancestors."""
    tree = draw(trees(max_depth, max_rank, max_leaves=5).filter(lambda tree: tree.choices))
    paths = [list(path) for path in tree.choices]
    if len(paths) > 1 and draw(st.integers(0, 3)) == 0:
        del paths[draw(st.integers(0, len(paths) - 1))]
    return draw(st.permutations(paths))


@pytest.mark.parametrize("name", ["medusa", "nxd"])
@given(paths=choices(), heads=st.integers(1, 5))
def test_medusa_reads_what_check_says(name, paths, heads):
    try:
        taken = medusa_model(paths, heads)
    except (ValueError, IndexError):
        assert verdict(name, paths, heads).outcome == REFUSED
        return
    assert verdict(name, paths, heads).outcome == (FINE if taken == intended(paths) else WRONG)


@given(paths=choices(max_depth=3), top_k=st.integers(1, 14))
def test_where_the_number_of_guesses_is_a_setting_the_limit_moves_with_it(paths, top_k):
    try:
        expected = FINE if medusa_model(paths, 3, top_k) == intended(paths) else WRONG
    except (ValueError, IndexError):
        expected = REFUSED
    assert verdict("rtp-llm", paths, 3, top_k).outcome == expected


@given(paths=choices(max_depth=5, max_rank=12), heads=st.integers(1, 6))
def test_rtp_llm_drops_long_paths_and_reads_the_rest_as_check_says(paths, heads):
    kept = [path for path in paths if len(path) <= 3]
    try:
        expected = FINE if kept and medusa_model(kept, heads) == intended(paths) else WRONG
    except (ValueError, IndexError):
        expected = REFUSED
    assert verdict("rtp-llm", paths, heads).outcome == expected


@given(trees(max_rank=4).filter(lambda tree: tree.choices))
def test_hydra_reads_what_check_says(tree):
    right = all(path == drafted for path, drafted in hydra_model(tree.choices).items())
    assert verdict("hydra", tree.choices).outcome == (FINE if right else WRONG)


def test_hydra_gives_a_path_the_parent_and_the_guess_that_its_place_says():
    assert hydra_model([[0], [1], [1, 0]])[(1, 0)] == (0, 0)
    assert hydra_model([[0], [2]])[(2,)] == (1,)


def test_which_guess_is_taken_is_said():
    found = verdict("medusa", [[0], [12], [0, 0]])
    assert found.outcome == WRONG
    [finding] = found.findings
    assert finding.path == (12,) and finding.why == "takes guess 2 of head 2 for guess 12 of head 1"
    assert medusa_model([[12]], 4)[(12,)] == (1, 2)


@given(paths=choices(max_depth=9, max_rank=17), heads=st.integers(1, 9))
def test_the_cpp_runtime_of_tensorrt_llm_reads_what_check_says(paths, heads):
    outcome = verdict("triton", paths, heads).outcome
    try:
        parents = trtllm_cpp_model(paths, heads)
    except AssertionError:
        assert outcome == REFUSED
        return
    if parents != {path: path[:-1] for path in parents}:
        assert outcome == WRONG
    elif max(map(max, paths)) <= 15 and max(map(len, paths)) <= 8:
        assert outcome == FINE


def test_rank_16_is_taken_for_another_path():
    paths = [[0], [1], [0, 16], [1, 0], [0, 16, 0]]
    assert trtllm_cpp_model(paths, 4)[(0, 16, 0)] == (1, 0)
    assert verdict("triton", paths).outcome == WRONG
    assert verdict("trtllm", paths).outcome == WRONG
    assert verdict("triton", [[0], [17]]).outcome == REFUSED


@given(trees(max_rank=5).filter(lambda tree: tree.choices))
def test_the_python_runtime_of_tensorrt_llm_reads_what_check_says(tree):
    taken, drafted = trtllm_python_model(tree.choices)
    right = taken == intended(tree.choices) and drafted == len(tree.choices)
    found = verdict("trtllm", tree.choices)
    assert found.outcome == (FINE if right else WRONG)
    assert {finding.reader for finding in found.findings} == (set() if right else {"Python"})


def test_a_gap_at_depth_1_shifts_what_lies_below():
    taken, _ = trtllm_python_model([(0,), (2,), (0, 0)])
    assert taken[(0, 0)] == (0, 2)


@pytest.mark.parametrize("name", FORMATS)
@given(tree=trees(max_rank=17))
def test_what_is_written_is_fine_and_what_is_fine_is_written(name, tree):
    format = FORMATS[name]
    if tree.choices or not format.limits.bare_root:
        fine = check(format, Listing(tree.choices, "file"), 4).outcome == FINE
        assert fine == (not any(breaches(tree.choices, format.limits, 4)))


EXAMPLES = {
    ("medusa", "[[0],[1],[0,0]]"): FINE,
    ("medusa", "[(0, 0), (1,), (0,)]"): FINE,
    ("medusa", "[[0], (1,)]"): REFUSED,
    ("medusa", "[[0,0,1]]"): REFUSED,
    ("medusa", "[[0],[0]]"): WRONG,
    ("medusa", "[1, 7, 6]"): REFUSED,
    ("medusa", "[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0]]"): REFUSED,
    ("medusa", "[[0],[2]]"): FINE,
    ("json", "[[0,0]]"): REFUSED,
    ("trtllm", "[[0],[2]]"): WRONG,
    ("trtllm", "[[0],[0,2]]"): FINE,
    ("trtllm", "[[0],[1],[1,0],[0,1,0]]"): WRONG,
    ("trtllm", "[[0],[0,0,0]]"): REFUSED,
    ("triton", "[[0],[2]]"): FINE,
    ("triton", "[1, 7, 6]"): WRONG,
    ("triton", "[]"): WRONG,
    ("rtp-llm", "[[0],[0,0],[0,0,0],[0,0,0,0]]"): WRONG,
    ("rtp-llm", "[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0],[0,0,0,0,0,12]]"): WRONG,
    ("rtp-llm", "[]"): WRONG,
    ("trtllm", "[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0]]"): REFUSED,
    ("hydra", "[[0],[2]]"): WRONG,
    ("hydra", "[[0],[1],[1,0]]"): WRONG,
    ("hydra", "[[0],[1],[0,0],[0,1],[1,0],[0,0,0]]"): FINE,
    ("nxd", "[[10]]"): WRONG,
    ("vllm", "[[0],[0,0]]"): FINE,
    ("vllm", "[[0],[1]]"): REFUSED,
    ("tgi", "[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0]]"): REFUSED,
    ("mlc", "[[0],[0,0]]"): REFUSED,
    ("mlc", "--speculate 4"): FINE,
}


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=lambda value: value[:24])
def test_examples(tmp_path, name, text):
    (tmp_path / "file").write_text(text)
    [listing] = read_listings(tmp_path / "file").values()
    found = check(FORMATS[name], listing, 4)
    assert found.outcome == EXAMPLES[name, text]
    assert bool(found.findings) == (found.outcome != FINE)
    assert all(finding.why for finding in found.findings)


def test_the_published_trees_are_fine_for_medusa():
    published = SHARED / "data" / "published_trees.json"
    if not published.is_file():
        pytest.skip("no published trees here")
    for name, listing in read_listings(published).items():
        assert check(FORMATS["medusa"], listing, 4).outcome == FINE, name


def test_what_no_runtime_could_take_is_an_error():
    for paths in ([[-1]], [["0"]], 3, [[0], None], [2, 3]):
        with pytest.raises(InputError, match="file: "):
            verdict("medusa", paths)


def test_each_kind_of_finding_comes_once():
    assert len(verdict("vllm", [[0], [1], [2], [0, 1], [0, 2]]).findings) == 1
    assert len(verdict("medusa", [[0], [0], [12], [12], [13], [13, 0], [13, 0]]).findings) == 3


def test_chains_of_all_heads():
    assert verdict("mlc", chain(4).choices).outcome == FINE
    assert isinstance(Listing([1, 1], "file").tree(), Tree)
