"""Recorded passes against decoding: the recorded tree itself, and its parts where their steps begin alike."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from tests.strategies import trees
from treeopt.decode import Engine, Typical
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.passes import record_passes
from treeopt.tree import ROOT, Tree, dense

PROMPTS = [EncodedPrompt("a", "x", (3, 9, 4)), EncodedPrompt("b", "x", (5,))]
NEW = 13


def recorded(model, tree, rule, **facts):
    return record_passes(model, tiny.heads_for(model), tree, PROMPTS, rule=rule, max_new_tokens=NEW, **facts)


@given(trees(max_depth=3), st.sampled_from([0.0, 0.7, 2.0]), st.sampled_from([0.01, 0.2]))
@settings(max_examples=20)
def test_the_recorded_tree_accepts_what_decoding_emitted(tree, temperature, epsilon):
    """Up to one thing: where the longest path lies behind an end token, a shorter one may have emitted more."""
    model, rule = tiny.backbone(), Typical(temperature, epsilon, 0.3)
    table = recorded(model, tree, rule)
    engine = Engine(model, tiny.heads_for(model), tree, rule=rule)
    for number, prompt in enumerate(PROMPTS):
        answer = engine.decode([prompt.ids], [prompt.id], NEW)[0]
        found = (table.accepted(tree)[table.prompt == number] + 1).tolist()
        assert len(found) == len(answer.step_tokens)
        assert found[:-1] == answer.step_tokens[:-1] and found[-1] >= answer.step_tokens[-1]
        assert answer.ended == "eos" or found == answer.step_tokens


def test_each_node_passes_by_its_own_parent_whatever_is_accepted():
    """Every node's parent path is scored by a plain forward pass of the bare model."""
    model, tree, rule = tiny.backbone(), dense([3, 3, 2]), Typical(0.7, 0.2, 0.45)
    heads = tiny.heads_for(model)
    table = record_passes(model, heads, tree, PROMPTS[:1], rule=rule, max_new_tokens=NEW)
    engine = Engine(model, heads, tree, rule=rule)
    state = engine.start([PROMPTS[0].ids], ["a"], NEW)
    text, checked, stray = list(PROMPTS[0].ids), 0, 0
    for step in range(2):
        tokens = engine._tokens(state)[0].tolist()
        for node in range(1, tree.size):
            above: list[int] = []
            parent = tree.parents[node]
            while parent >= 0:
                above.insert(0, tokens[parent])
                parent = tree.parents[parent]
            with torch.inference_mode():
                logits = model.model(input_ids=torch.tensor([text + above])).logits[0, -1]
            p = (logits / 0.7).softmax(-1)
            passes = bool(p[tokens[node]] > rule.threshold(p))
            if abs(float(p[tokens[node]] - rule.threshold(p))) > 1e-4:
                assert table.passes[step, node] == passes
                checked += 1
                stray += passes and not table.passes[step, tree.parents[node]]
        text += engine.step(state)[0]
    assert checked > tree.size and stray, "some node passes behind a parent that does not"


def test_nodes_past_the_limit_and_behind_an_end_token_do_not_pass():
    """Cycle is always right: of four heads' chain, what the last step has room for; nothing behind the end token."""
    heads, chain = tiny.cycle_heads(), Tree.from_choices([[0], [0, 0], [0, 0, 0]])
    prompts = [EncodedPrompt("a", "x", (3,))]
    rule = Typical(0.01, 0.09, 0.3)
    table = record_passes(tiny.cycle(), heads, chain, prompts, rule=rule, max_new_tokens=6)
    assert table.passes.tolist() == [[True] * 4, [True, True, False, False]]
    table = record_passes(tiny.cycle(end=5), heads, chain, prompts, rule=rule, max_new_tokens=6)
    assert table.passes.tolist() == [[True, True, False, False]], "4, then 5, which ends it"


def test_a_table_says_where_it_comes_from():
    model = tiny.backbone()
    table = recorded(model, ROOT, Typical(0.7), split="calibrate")
    assert table.ids == ("a", "b") and set(table.prompt.tolist()) == {0, 1}
    assert table.provenance["model"] == model.name and table.provenance["split"] == "calibrate"
