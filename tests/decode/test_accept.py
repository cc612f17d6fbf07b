"""Drawing and accepting, on numbers that a reader can check."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import trees
from treeopt.decode.accept import draw, follow


def test_greedy_drawing_takes_the_first_of_equals():
    assert draw(torch.tensor([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]])).tolist() == [1, 0]


def test_noise_decides_at_a_temperature():
    logits, noise = torch.tensor([1.0, 2.0]), torch.tensor([1.5, 0.0])
    assert draw(logits, 1.0, noise) == 0
    assert draw(logits, 0.5, noise) == 1


@given(trees(), st.data())
def test_the_accepted_path_is_the_longest_that_the_draws_allow(tree, data):
    token = st.lists(st.integers(0, 4), min_size=tree.size, max_size=tree.size)
    tokens, drawn = data.draw(token), data.draw(token)
    for parent in range(tree.size):
        for place, node in enumerate(tree.children(parent)):
            tokens[node] = (tokens[parent] + place) % 5  # a head's guesses differ

    def accepted(node):
        parent = tree.parents[node]
        return node == 0 or (tokens[node] == drawn[parent] and accepted(parent))

    expected = max((node for node in range(tree.size) if accepted(node)), key=lambda node: tree.depths[node])
    path = follow([tree.children(node) for node in range(tree.size)], tokens, drawn)
    assert [tree.nodes[node] for node in path] == [tree.nodes[expected][:n] for n in range(len(path))]
    assert path[-1] == expected
