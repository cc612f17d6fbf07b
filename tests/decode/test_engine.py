"""Decoding with any tree is plain decoding, faster: the root test, the cache after each step, ends and limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from tests.strategies import trees
from treeopt.decode import GREEDY, Engine, Sampled, Typical
from treeopt.errors import InputError, MismatchError
from treeopt.search.baselines import chain, dense
from treeopt.tree import ROOT, Tree

RULES = st.sampled_from(
    [GREEDY, Sampled(0.7), Sampled(1.5), Sampled(1.5, top_p=0.8), Sampled(2.0, top_k=4), Sampled(2.0, 0.7, 6)]
)


def decode(model, prompt, tree=None, *, limit=16, name="p", rule=GREEDY, seed=0, heads=None):
    """One prompt's answer, with random heads unless told otherwise."""
    heads = heads or (tiny.heads_for(model) if tree else None)
    engine = Engine(model, heads, *([tree] if tree else []), rule=rule, seed=seed)
    return engine.decode([prompt], [name], limit)[0]


@pytest.mark.parametrize("family", tiny.FAMILIES)
@settings(max_examples=15)
@given(prompt=tiny.text(), tree=trees(max_depth=3), rule=RULES, seed=st.integers(0, 99))
def test_any_tree_gives_the_text_of_plain_decoding(family, prompt, tree, rule, seed):
    model = tiny.backbone(family)
    options = {"rule": rule, "seed": seed}
    by_hand = tiny.plain_by_hand(model, prompt, 16, "p", **options)
    assert decode(model, prompt, **options).tokens == by_hand
    answer = decode(model, prompt, tree, **options)
    assert answer.tokens == by_hand
    assert sum(answer.step_tokens) == len(answer.tokens) and max(answer.step_tokens) <= tree.depth + 1


@pytest.mark.parametrize("family", tiny.FAMILIES)
@settings(max_examples=5)
@given(prompt=tiny.text(), tree=trees(max_depth=3))
def test_greedy_text_is_that_of_transformers_generate(family, prompt, tree):
    model = tiny.backbone(family)
    ids = torch.tensor([prompt])
    options = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": 0}
    theirs = model.model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, len(prompt) :]
    assert decode(model, prompt, tree).tokens == theirs.tolist()


@settings(max_examples=15)
@given(st.lists(tiny.text(), min_size=2, max_size=4), trees(max_depth=3), RULES, st.data())
def test_a_ragged_batch_decodes_as_its_prompts_do_alone(prompts, tree, rule, data):
    model, names = tiny.backbone(), [f"p{number}" for number in range(len(prompts))]
    limit = data.draw(st.integers(1, 20))
    engine = Engine(model, tiny.heads_for(model), tree, rule=rule)
    together = engine.decode(prompts, names, limit)
    for prompt, name, answer in zip(prompts, names, together, strict=True):
        alone = decode(model, prompt, tree, limit=limit, name=name, rule=rule)
        assert (alone.tokens, alone.step_tokens, alone.ended) == (
            answer.tokens,
            answer.step_tokens,
            answer.ended,
        )


@pytest.mark.parametrize("lengths", [(3, 9), (9, 3), (1, 80)])
def test_prompts_of_unlike_length_go_together(lengths):
    model = tiny.backbone("gpt2")
    prompts = [[(7 * i) % 48 + 2 for i in range(length)] for length in lengths]
    together = Engine(model, tiny.heads_for(model), tiny.SAMPLE_TREE).decode(prompts, ["a", "b"], 30)
    alone = [decode(model, prompt, limit=30) for prompt in prompts]
    assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Typical(0.8)], ids=lambda rule: rule.name)
def test_after_each_step_the_cache_is_that_of_a_fresh_prefill(family, rule):
    model = tiny.backbone(family)
    prompts, names = [[5, 9, 12], [8, 3, 41, 7, 7, 20, 33, 2, 6]], ["a", "b"]
    heads = tiny.heads_for(model)
    tree = dense([16, 4])
    engine = Engine(model, heads, tree, rule=rule)
    state = engine.start(prompts, names, 24)
    texts = [list(prompt) for prompt in prompts]
    moved = 0
    for _ in range(8):
        emitted = engine.step(state)
        moved += sum(len(tokens) - 1 for tokens in emitted)
        for row, tokens in enumerate(emitted):
            texts[row] += tokens
            fresh = model.new_cache(1, len(texts[row]))
            with torch.inference_mode():
                hidden = model.prefill(texts[row], fresh)
            length = state.cache.lengths[row]
            assert length == len(texts[row])
            for ours, theirs in ((state.cache.keys, fresh.keys), (state.cache.values, fresh.values)):
                assert (ours[:, row, :, :length] - theirs[:, 0]).abs().max() < 1e-5
            best = heads(hidden[None])[:, 0].sort(descending=True, stable=True).indices
            assert state.drafts is not None
            assert state.drafts[row].tolist() == best[: tree.depth, : engine.buffers.width].flatten().tolist()
    assert moved, "guesses were accepted, so rows were moved"


@settings(max_examples=20)
@given(prompt=tiny.text(), small=trees(max_depth=3), more=trees(max_depth=3), rule=RULES)
def test_more_nodes_never_lower_what_a_step_accepts(prompt, small, more, rule):
    """At every prefix of an answer, the first step of a larger tree emits at least as much."""
    model = tiny.backbone("qwen2")
    large = Tree.from_choices([*small.choices, *more.choices])
    answer = decode(model, prompt, limit=8, rule=rule).tokens
    engines = [Engine(model, tiny.heads_for(model), tree, rule=rule) for tree in (small, large)]
    for length in range(len(answer)):
        prefix = prompt + answer[:length]
        few, many = (engine.step(engine.start([prefix], ["p"], 8))[0] for engine in engines)
        assert many[: len(few)] == few


def test_adding_a_sibling_never_lowers_acceptance():
    model, accepted = tiny.backbone("gpt2"), []
    heads, prompt = tiny.heads_for(model), [7, 8, 9, 10, 11]
    answer = decode(model, prompt, limit=60).tokens
    for length in range(len(answer)):
        prefix = prompt + answer[:length]
        for choices in ([[0], [0, 0]], [[0], [1], [0, 0]]):
            engine = Engine(model, heads, Tree.from_choices(choices))
            accepted.append(len(engine.step(engine.start([prefix], ["p"], 4))[0]))
        assert accepted[-1] >= accepted[-2]
    assert max(accepted) == 3


def test_perfect_heads_emit_depth_plus_one_tokens_a_step():
    model = tiny.cycle()
    answer = decode(model, [3], chain(4), limit=20, heads=tiny.cycle_heads())
    assert answer.tokens == [(4 + i) % 7 for i in range(20)] and answer.step_tokens == [5] * 4
    answer = decode(model, [3], chain(4), limit=20, heads=tiny.cycle_heads(wrong=(3,)))
    assert answer.step_tokens == [3] * 6 + [2], "the last step is cut at the limit"


def test_a_rank_is_always_the_heads_own():
    """A head whose worst guess is right: rank 6 of 7 finds it, whatever the next head guesses."""
    heads = tiny.cycle_heads(heads=2)
    heads.lm_weight[0].neg_()
    cases = {
        ((6,),): [2] * 5,
        ((0,), (6,)): [2] * 5,
        ((0,), (5,)): [1] * 10,
        ((6,), (6, 0)): [3, 3, 3, 1],
    }
    for choices, steps in cases.items():
        tree = Tree.from_choices(choices)
        assert decode(tiny.cycle(), [2], tree, limit=10, heads=heads).step_tokens == steps
    with pytest.raises(MismatchError, match=r"\[7\] takes rank 7"):
        Engine(tiny.cycle(), heads, Tree.from_choices([[7]]))


def test_a_tree_deeper_than_the_heads_is_refused_before_any_pass():
    model = tiny.backbone()
    with pytest.raises(MismatchError, match=r"\[0, 0, 0, 0\] has depth 4, but there are 3 heads"):
        Engine(model, tiny.heads_for(model), chain(4))
    with pytest.raises(MismatchError, match=r"\[0\] has depth 1, but there are 0 heads"):
        Engine(model, None, chain(1))


@pytest.mark.parametrize("depth", range(5))
@pytest.mark.parametrize("start", range(7))
def test_nothing_follows_the_first_end_token(depth, start):
    model = tiny.cycle(end=5)
    answer = decode(model, [start], chain(depth) if depth else None, limit=20, heads=tiny.cycle_heads())
    assert answer.tokens == [(start + 1 + i) % 7 for i in range((4 - start) % 7 + 1)]
    assert answer.tokens[-1] == 5 and answer.tokens.count(5) == 1 and answer.ended == "eos"
    assert sum(answer.step_tokens) == len(answer.tokens) and 0 not in answer.step_tokens


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("tree", [None, chain(3), dense([2, 2])], ids=["plain", "chain", "dense"])
def test_limits_are_kept_exactly(limit, tree):
    answer = decode(tiny.cycle(), [3], tree, limit=limit, heads=tiny.cycle_heads())
    assert len(answer.tokens) == sum(answer.step_tokens) == limit and answer.ended == "limit"
    if tree is None:
        assert answer.step_tokens == [1] * limit


def test_an_end_token_at_the_limit_is_an_end():
    assert decode(tiny.cycle(end=5), [3], limit=2).ended == "eos"
    assert decode(tiny.cycle(end=5), [3], limit=1).ended == "limit"


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_an_answer_stops_at_the_context_limit(family):
    model = tiny.backbone(family)
    prompt = [(5 * i) % 48 + 2 for i in range(tiny.LIMIT - 6)]
    plain = decode(model, prompt, limit=50)
    assert len(plain.tokens) == 6 or plain.ended == "eos"
    assert (
        plain.tokens
        == tiny.plain_by_hand(model, prompt, 6)
        == decode(model, prompt, chain(3), limit=50).tokens
    )


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt x: no tokens"),
        ([3] * tiny.LIMIT, f"prompt x: {tiny.LIMIT} tokens, but llama takes {tiny.LIMIT}"),
        ([3, tiny.VOCABULARY], f"prompt x: token ids outside the vocabulary of {tiny.VOCABULARY}"),
        ([-1], "prompt x: token ids outside the vocabulary"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(prompt, message):
    with pytest.raises(InputError, match=message):
        Engine(tiny.backbone()).decode([prompt], ["x"], 4)


@pytest.mark.parametrize(
    ("tree", "parts"),
    [
        (chain(1), ["accept", "verify", "accept", "heads", "accept"]),
        (ROOT, ["accept", "verify", "accept"]),
    ],
)
def test_a_step_tells_its_parts(tree, parts):
    model = tiny.backbone()
    marks: list[str] = []
    engine = Engine(model, tiny.heads_for(model), tree)
    engine.step(engine.start([[4, 5]], ["p"], 4), marks.append)
    assert marks == parts
