"""The key/value cache: commits against a list of tokens a row, kept by hand."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from treeopt.model.cache import CacheShape, TreeCache

SHAPE = CacheShape(2, 2, 3, 1, 4, torch.float32, torch.device("cpu"))  # keys and values of unlike shape
CAPACITY = 40


def write(cache, count, random):
    """A forward pass of `count` tokens over the open rows: what each layer was given and saw."""
    rows = range(cache.batch)[cache._rows]
    seen = []
    for layer in range(SHAPE.layers):
        keys = torch.randn(len(rows), SHAPE.key_heads, count, SHAPE.key_size, generator=random)
        values = torch.randn(len(rows), SHAPE.value_heads, count, SHAPE.value_size, generator=random)
        seen.append((keys, values, *cache.update(keys, values, layer)))
    return seen


def held(cache, row):
    """All that the cache holds of a row: for each token, its keys and values of every layer."""
    return [
        torch.cat([cache.keys[:, row, :, column].flatten(), cache.values[:, row, :, column].flatten()])
        for column in range(cache.lengths[row])
    ]


def tokens(seen, row):
    """The same for the tokens of a forward pass."""
    keys, values = torch.stack([s[0] for s in seen]), torch.stack([s[1] for s in seen])
    return [
        torch.cat([keys[:, row, :, i].flatten(), values[:, row, :, i].flatten()])
        for i in range(keys.shape[3])
    ]


@st.composite
def histories(draw):
    """Lengths of the prompts, then steps: the nodes that each row accepts of a tree, in any rising order."""
    batch, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    path = st.lists(st.integers(1, nodes - 1), unique=True).map(sorted) if nodes > 1 else st.just([])
    step = st.lists(path.map(lambda rest: [0, *rest]), min_size=batch, max_size=batch)
    lengths = draw(st.lists(st.integers(1, 6), min_size=batch, max_size=batch))
    return nodes, lengths, draw(st.lists(step, max_size=4))


@given(histories(), st.integers(0, 99))
def test_commits_keep_the_accepted_tokens_of_each_row_in_order(history, seed):
    nodes, lengths, steps = history
    random = torch.Generator().manual_seed(seed)
    cache = TreeCache(SHAPE, len(lengths), CAPACITY)
    expected = []
    for row, length in enumerate(lengths):
        cache.open(row)
        expected.append(tokens(write(cache, length, random), 0))
        cache.lengths[row] += length
    for accepted in steps:
        start = max(map(len, expected))
        cache.open()
        assert cache.start == cache.get_seq_length() == start
        seen = write(cache, nodes, random)
        for _, _, keys, values in seen:
            assert keys.shape[2] == values.shape[2] == start + nodes
        cache.commit(accepted)
        for row, path in enumerate(accepted):
            expected[row] += [tokens(seen, row)[node] for node in path]
        assert cache.lengths == [len(row) for row in expected]
        for row, of_row in enumerate(expected):
            assert torch.equal(torch.stack(held(cache, row)), torch.stack(of_row))


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.data())
def test_rows_that_stay_are_unchanged(lengths, data):
    cache = TreeCache(SHAPE, len(lengths), CAPACITY)
    cache.keys.normal_()
    cache.values.normal_()
    cache.lengths = list(lengths)
    dropped = data.draw(st.sets(st.sampled_from(range(len(lengths)))))
    before = [torch.stack(held(cache, row)) for row in range(len(lengths))]
    order = cache.drop_rows(sorted(dropped))
    assert sorted(order) == sorted(set(range(len(lengths))) - dropped)
    assert cache.batch == len(order) and cache.lengths == [lengths[row] for row in order]
    assert all(torch.equal(torch.stack(held(cache, new)), before[old]) for new, old in enumerate(order))


def test_truncation_goes_back_to_a_shorter_text():
    cache = TreeCache(SHAPE, 2, CAPACITY)
    cache.lengths = [7, 5]
    cache.truncate(5)
    assert cache.lengths == [5, 5] and cache.start == 5
