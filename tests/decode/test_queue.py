"""A batch that is refilled: each answer is what its prompt gets alone, whatever came before in its row."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from tests.strategies import trees
from treeopt.decode import GREEDY, Engine, Request, Sampled, decode_queue
from treeopt.errors import InputError
from treeopt.search.baselines import chain
from treeopt.tree import ROOT


@settings(max_examples=20)
@given(
    st.lists(tiny.text(), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 12),
    st.sampled_from([GREEDY, Sampled(0.9), Sampled(1.5, 0.8, 9)]),
    st.one_of(st.none(), trees(max_depth=3)),
)
def test_each_answer_is_that_of_its_prompt_alone(prompts, rows, limit, rule, tree):
    model = tiny.backbone()
    heads = tiny.heads_for(model) if tree else None
    engine = Engine(model, heads, tree or ROOT, rule=rule, seed=4)
    waiting = deque(Request(f"p{number}", tuple(prompt)) for number, prompt in enumerate(prompts))
    answers = {
        request.id: (request.tokens, answer)
        for request, answer in decode_queue(engine, waiting, rows=rows, max_new_tokens=limit)
    }
    assert sorted(answers) == sorted(f"p{number}" for number in range(len(prompts)))
    for name, (tokens, answer) in answers.items():
        alone = engine.decode([tokens], [name], limit)[0]
        assert (answer.tokens, answer.step_tokens, answer.ended) == (
            alone.tokens,
            alone.step_tokens,
            alone.ended,
        )


def test_what_is_added_on_the_way_is_answered_too_however_long():
    """A late prompt longer than all before it makes the cache grow."""
    engine = Engine(tiny.cycle(), tiny.cycle_heads(), chain(3))
    waiting, seen = deque([Request("a", (1,))]), []
    for request, answer in decode_queue(engine, waiting, rows=2, max_new_tokens=5):
        seen.append((request.id, answer.tokens))
        if request.id == "a":
            waiting.append(Request("b", tuple(i % 7 for i in range(40))))
    assert seen == [("a", [2, 3, 4, 5, 6]), ("b", [5, 6, 0, 1, 2])]


def test_nothing_waiting_is_no_answers_and_bad_prompts_are_refused():
    engine = Engine(tiny.backbone())
    assert not list(decode_queue(engine, deque(), rows=2, max_new_tokens=5))
    with pytest.raises(InputError, match="prompt x: no tokens"):
        list(decode_queue(engine, deque([Request("x", ())]), rows=2, max_new_tokens=5))
