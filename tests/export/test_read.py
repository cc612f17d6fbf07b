"""Reading trees: all spellings reach one form, nothing is executed, and garbage is one clear error."""

import json
import keyword
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.errors import InputError
from treeopt.export import FORMATS
from treeopt.export.read import parse_tree_option, parse_trees_option, read_trees
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choose import choose, write_choice
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.tree import ROOT, Tree, chain

SHARED = Path(__file__).parents[2] / ".." / "shared"
EXAMPLE = Tree.from_choices([[0], [1], [0, 0]])


def write(tmp_path: Path, text: str, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "[[0],[1],[0,0]]",
        " \n[[0, 0], [1],\n [0]]\n",
        "[(0,), (1,), (0, 0)]",
        "((0,), (1,), (0, 0))",
        "[[0], (1,), [0, 0], (0,), [1]]",
        "\ufeff[[0],[1],[0,0]]",
        "# a comment\nmine = [(0,), (0, 0), (1,)]  # another\n",
        '"""A docstring."""\n\nmine = [\n    [1],\n    [0],\n    [0, 0],\n]\n',
        '{"choices": [[0], [0, 0], [1]]}',
        '{"trees": {"any": [[0, 0], [0], [1]]}}',
        '{"nodes": [{"path": []}, {"path": [0]}, {"path": [1]}, {"path": [0, 0]}]}',
        "- [0]\n- [0, 0]\n\n# the last\n- [1]\n",
        '--num_medusa_heads 4\n--medusa_choices="[[0],[1],[0,0]]"\n',
        "--medusa_choices [[0],[1],[0,0]]",
        '{"decoding_type": "Medusa", "medusa_choices": [[0], [1], [0, 0]]}',
        '{"medusa_config": {"medusa_choices": [[0], [1], [0, 0]], "top_k": 10}}',
        "{0}, {1}, {0, 0}",
        'parameters: { key: "medusa_choices" value: { string_value: "{0}, {0,0}, {1}" } }',
        'name: "x"\nparameters: {\n key: "medusa_choices"\n value: {\n string_value: "{0}, {0,0}, {1}"\n }\n}\n',
        "engine_dir:/e,medusa_choices:{0}\\, {1}\\, {0\\, 0}",
        "medusa_choices:{0}\\, {1}\\, {0\\, 0},engine_dir:/e",
        '# key: "medusa_choices" value: { string_value: "{0}" }\n{0}, {1}, {0, 0}\n',
        '{"runs": [{"name": "plain", "choices": null}, {"name": "t", "choices": [[0], [1], [0, 0]]}]}',
    ],
)
def test_every_spelling_reaches_the_canonical_tree(tmp_path, text):  # pitfall 8
    assert list(read_trees(write(tmp_path, text)).values()) == [EXAMPLE]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("[1, 2]", Tree.from_choices([[0], [1]])),
        ("(1, 2, 1)", Tree.from_choices([[0], [1], [0, 0], [1, 0]])),
        ("old = [1, 1, 2]", Tree.from_choices([[0], [0, 0], [0, 1]])),
        ("--speculate 2", chain(2)),
        ("# more\n\n--speculate=2\n", chain(2)),
        ('--speculative-mode medusa --overrides "spec_draft_length=3"', chain(3)),
        ('{"method": "medusa", "num_speculative_tokens": 1}', chain(1)),
    ],
)
def test_trees_that_are_given_as_numbers(tmp_path, text, tree):
    assert list(read_trees(write(tmp_path, text)).values()) == [tree]


@pytest.mark.parametrize(
    "text",
    [
        *("[1]", "[2, 3]", "[1, 0]", "[1, -2]", "[1, 2, 0]", "[1, 9, 8, 7, 6, 5]", "[1, 10001]"),
        *("[1" + ", 1" * 65 + "]", "[0x" + "f" * 9_000 + ", 1]", "[1, 99999999999999999999]"),
        *("--speculate 0", "--speculate 65", "--speculate 9999", "--speculate 1 2", "--speculate x"),
        *(
            '{"method": "medusa", "num_speculative_tokens": "4"}',
            '{"method": "eagle", "num_speculative_tokens": 4}',
        ),
        *("- [0]\n- 1\n", "- [0]\n[1]\n", "- [0]\n- [0", "- [0]\nmine: 3\n"),
        *('--medusa_choices="[[0]"', "--medusa_choices=", "{0}, {1", "{0}, x, {1}", "{0},", "{{0}}"),
        *(
            '{"medusa_config": 3}',
            '{"medusa_config": {}}',
            '{"medusa_choices": null}',
            '{"medusa_choices": {}}',
        ),
        'parameters: { key: "medusa_choices" value: { string_value: "[0], [1" } }',
        'parameters: { key: "medusa_choices" value: { string_value: "[0], {1}" } }',
        '# parameters: { key: "medusa_choices" value: { string_value: "{0}, {1}" } }',
        *("medusa_choices:{0}, {1}", "a:b,medusa_choices:{0},medusa_choices:{1}"),
        *("[(0,)]\n[(1,)]", "mine = [(0,)]\nmine = [(1,)]"),
        '--speculative-mode medusa --overrides "spec_draft_length=3;spec_draft_length=4"',
        *('{"choices": [[0]], "choices": [[1]]}', '{"trees": {"a": [[0]], "a": [[1]]}}'),
        *("medusa_choices:{0}\nmedusa_choices:{1}\n", '--medusa_choices="[[0]]"\n--medusa_choices="[[1]]"\n'),
    ],
    ids=lambda text: text[:24],
)
def test_a_runtimes_file_that_is_wrong_is_one_clear_error(tmp_path, text):
    with pytest.raises(InputError) as error:
        read_trees(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300 + len(str(tmp_path))
    assert str(tmp_path / "file") in str(error.value)


@given(st.data())
def test_a_runtimes_file_that_is_damaged_is_a_tree_or_one_clear_error(tmp_path_factory, data):
    """One character more, less or other is never a traceback."""
    format = FORMATS[data.draw(st.sampled_from(sorted(FORMATS)))]
    tree = chain(2) if format.limits.chain else EXAMPLE
    text = data.draw(st.sampled_from(sorted(format.write(tree, {}, 2).values())))
    place = data.draw(st.integers(0, len(text)))
    other = data.draw(st.sampled_from(["", *"[](){},:=-#\"'\\ \n", "x"]))
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_text(text[:place] + other + text[place + data.draw(st.integers(0, 1)) :])
    message = f"{path}: read"
    try:
        read = list(read_trees(path).values())
        assert all(isinstance(one, Tree) for one in read)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert str(path) in message


def test_a_missing_ancestor_is_refused_by_name(tmp_path):  # pitfall 8
    for text in ("[[0,0,1]]", "mine = [(0, 0, 1)]", '{"choices": [[0,0,1]]}'):
        with pytest.raises(InputError, match=r"file.*\[0, 0, 1\] has no parent \[0, 0\]"):
            read_trees(write(tmp_path, text))


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), trees(), min_size=1))
def test_a_choices_file_with_several_trees(tmp_path_factory, named):
    named = {name: tree for name, tree in named.items() if not keyword.iskeyword(name)} or {"t": ROOT}
    text = "\n".join(f"{name} = {list(tree.choices)}" for name, tree in named.items())
    path = write(tmp_path_factory.mktemp("several"), text, "medusa_choices.py")
    assert read_trees(path) == named
    for name, tree in named.items():
        assert read_trees(path, name) == {name: tree}
        assert parse_tree_option(f"{path}:{name}") == (name, tree)
    if len(named) > 1:
        with pytest.raises(InputError, match="several trees") as error:
            parse_tree_option(str(path))
        assert all(name in str(error.value) for name in named)
    with pytest.raises(InputError, match="has no tree 'NONE'"):
        parse_tree_option(f"{path}:NONE")


def test_the_tree_option_labels_a_tree_by_its_name_else_by_its_file(tmp_path):
    assert parse_tree_option(str(write(tmp_path, "[[0]]", "mine.json"))) == ("mine", Tree(((0,),)))
    assert parse_tree_option(str(write(tmp_path, "best = [(0,)]", "some.py"))) == ("best", Tree(((0,),)))
    colon = write(tmp_path, "[[0]]", "with:colon.json")
    assert parse_tree_option(str(colon)) == ("with:colon", Tree(((0,),)))
    with pytest.raises(InputError, match="absent"):
        parse_tree_option(str(tmp_path / "absent.json:64"))


def test_a_growth_holds_a_tree_of_every_size(tmp_path):
    growth = grow(Independent(AccuracyTable(np.array([[0.6, 0.2], [0.5, 0.3]]))), 6)
    path = tmp_path / "growth.json"
    growth.write(path)
    assert read_trees(path) == {"growth": growth.tree(6)}
    for size in range(1, 7):
        assert parse_tree_option(f"{path}:{size}") == (str(size), growth.tree(size))
    for name in ("0", "7", "-1", "every", "1.5", "²"):
        with pytest.raises(InputError, match=r"growth\.json: no tree '.*'; .* 1 to 6"):
            parse_tree_option(f"{path}:{name}")


def test_a_choice_holds_a_tree_for_every_setting(tmp_path):
    growth = grow(Independent(AccuracyTable(np.array([[0.6, 0.2], [0.5, 0.3]]))), 6)
    path = tmp_path / "choice.json"
    latencies = [(1, 1, 10), (1, 4, 11), (8, 1, 10), (8, 4, 99)]
    rows = [{"batch": b, "context": 64, "tokens": n, "latency_ms": ms} for b, n, ms in latencies]
    write_choice(path, choose(LatencyProfile.from_rows(rows), growth, None), {})
    assert read_trees(path) == {"batch1-context64": growth.tree(4), "batch8-context64": ROOT}
    write_choice(path, choose(LatencyProfile.from_rows(rows[:2]), growth, None), {})
    assert parse_tree_option(str(path)) == ("choice", growth.tree(4))


def test_tokens_that_contradict_the_choices_beside_them_are_refused(tmp_path):
    for text in (
        '{"choices": [[0], [1]], "tokens": 4}',
        '{"points": [{"batch": 1, "context": 9, "choices": null, "tokens": 4}]}',
        '{"runs": [{"name": "t", "choices": [[0]], "tokens": 4}]}',
    ):
        with pytest.raises(InputError, match=r"file: tokens is 4, but the root and its choices are [123];"):
            read_trees(write(tmp_path, text))


def test_the_published_trees(tmp_path):
    published = SHARED / "data" / "published_trees.json"
    if not published.exists():
        pytest.skip("the published trees are not here")
    trees_by_name = read_trees(published)
    assert len(trees_by_name) == 9
    text = ""
    for name, tree in trees_by_name.items():
        assert (tree.size, tree.max_rank) == (64, 9)
        text += FORMATS["medusa"].write(tree, {}, heads=4)[""].replace("treeopt_64", name)
        assert parse_tree_option(f"{published}:{name}") == (name, tree)
    assert read_trees(write(tmp_path, text)) == trees_by_name


SIDE_EFFECTS = [
    "open({path!r}, 'w')",
    "mine = open({path!r}, 'w') and [(0,)]",
    "mine = [(0,), (open({path!r}, 'w'),)]",
    "mine = [(0,)]\nopen({path!r}, 'w')",
    "import os\nmine = [(0,)]",
    "__import__('os').system('touch ' + {path!r})",
    "[open({path!r}, 'w') for _ in (0,)]",
    "mine = f'{{open({path!r})}}'",
    "def mine():\n    [(0,)]",
    "mine: open({path!r}, 'w') = [(0,)]",
    "mine = yours = [(0,)]",
    "mine = [(0,)]\nmine += [(1,)]",
    "mine[0] = [(0,)]",
]


@pytest.mark.parametrize("code", SIDE_EFFECTS)
def test_code_is_refused_and_never_executed(tmp_path, code):
    trace = tmp_path / "trace"
    path = write(tmp_path, code.format(path=str(trace)), "medusa_choices.py")
    with pytest.raises(InputError, match=r"medusa_choices\.py"):
        read_trees(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment\n",
        "hello",
        "[" * 100_000,
        '{"trees":' * 100_000,
        "[" + "-" * 100_000 + "1]",
        "mine = " + "(" * 5_000,
        "[" + "9" * 10_000 + "]",
        "[[" + "9" * 10_000 + "]]",
        "mine = [(0,), (0",
        "mine = [(0,)]\n  yours = [(0,)]",
        "[(0,)]\0",
        "{",
        "{}",
        '{"choices": 3}',
        '{"trees": [[0]]}',
        '{"trees": {"a": "b"}}',
        '{"nodes": {}}',
        '{"nodes": [3]}',
        '{"nodes": [{"path": []}, {"value": 1}]}',
        '{"points": [[0]]}',
        '{"runs": 3}',
        '{"runs": []}',
        '{"kind": "latency", "samples": []}',
        '{"schema": 99, "choices": [[0]]}',
        "[[0], null]",
        "[0, 1]",
        "[[]]",
        "[[true]]",
        "[[0.0]]",
        "[[-1]]",
        '["0"]',
        "mine = {(0,)}",
        "mine = '[(0,)]'",
        "mine = [(0,), (1j,)]",
        "mine = [(0,), {[]: 1}]",
    ],
    ids=lambda text: text[:24],
)
def test_what_holds_no_tree_is_one_clear_error(tmp_path, text):
    with pytest.raises(InputError) as error:
        read_trees(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    assert str(tmp_path / "file") in str(error.value)


fragments = st.lists(
    st.sampled_from(
        [
            *"[](){},:=-#0123 \n",
            "mine",
            "null",
            '"choices"',
            '"trees"',
            '"nodes"',
            "(0,)",
            "[0]",
            "[[",
            "- ",
            "{0}",
            "--speculate ",
        ]
    )
).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from("trees choices nodes path points runs name medusa_config medusa_choices".split()),
            inner,
        )
    ),
    max_leaves=12,
).map(json.dumps)


@given(st.one_of(st.binary(max_size=80), fragments.map(str.encode), json_values.map(str.encode)))
def test_garbage_gives_trees_or_one_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("garbage") / "garbage"
    path.write_bytes(data)
    message = f"{path}: read"
    try:
        assert all(isinstance(tree, Tree) for tree in read_trees(path).values())
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert str(path) in message


def test_reading_takes_no_longer_on_odd_files(tmp_path):
    """Each of these would take hours if the time grew with the square of the size."""
    for text in ("\n" * 1_000_000, "," * 1_000_000, "a" * 1_000_000, "a" + " " * 1_000_000, "a\n" * 500_000):
        with pytest.raises(InputError, match="holds no tree"):
            read_trees(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path):
    for path in (tmp_path, tmp_path / "absent", tmp_path / "absent" / "below"):
        with pytest.raises(InputError, match="cannot be read"):
            read_trees(path)


def test_all_is_every_tree_of_a_file_and_every_size_of_a_growth(tmp_path):
    nodes = [{"path": path} for path in ([], [0], [0, 0])]
    growth = write(tmp_path, json.dumps({"nodes": nodes}), "growth.json")
    assert parse_trees_option(f"{growth}:all") == {
        "1": Tree(()),
        "2": Tree(((0,),)),
        "3": Tree(((0,), (0, 0))),
    }
    assert parse_trees_option(f"{growth}:2") == {"2": Tree(((0,),))}
    several = write(tmp_path, json.dumps({"trees": {"a": [[0]], "b": [[1]]}}), "several.json")
    assert parse_trees_option(f"{several}:all") == {"a": Tree(((0,),)), "b": Tree(((1,),))}
    called = write(tmp_path, json.dumps({"trees": {"all": [[0]], "b": [[1]]}}), "called.json")
    assert parse_trees_option(f"{called}:all") == {"all": Tree(((0,),))}
