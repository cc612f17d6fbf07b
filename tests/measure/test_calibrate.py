"""Calibration against stepping token by token, and its ranks replayed against real decoding."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import tiny
from tests.strategies import trees
from treeopt.decode import GREEDY, Engine, Sampled
from treeopt.measure import calibrate as module
from treeopt.measure import states
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generate import generate
from treeopt.measure.generations import Generation
from treeopt.model.heads import rank_of
from treeopt.search.ranks import UNKNOWN, RankTable
from treeopt.search.replay import replay
from treeopt.tree import Tree

WIDTH = 13
FILTERED = Sampled(1.5, top_p=0.8, top_k=12)


@cache
def generations(family="llama", rule=GREEDY, count=6, limit=24):
    """The backbone's own answers to prompts of 1, 3, 5 ... tokens."""
    prompts = [
        EncodedPrompt(f"p{n}", "ab"[n % 2], tuple((7 * n + 3 * i) % 48 + 2 for i in range(2 * n + 1)))
        for n in range(count)
    ]
    with TemporaryDirectory() as directory:
        options = {"max_new_tokens": limit, "rule": rule, "seed": 5}
        return generate(tiny.backbone(family), prompts, Path(directory) / "g.jsonl", **options)


@torch.inference_mode()
def stepped_ranks(model, heads, generation):
    """Ranks [n, K] by plain decoding, one token at a time, each head's logits sorted in full."""
    answer = generation.answer_ids
    cache = model.new_cache(1, len(generation.prompt_ids) + len(answer) + 1)
    hidden = model.prefill(generation.prompt_ids, cache)
    rows = []
    for offset, token in enumerate(answer):
        row = []
        for head, logits in enumerate(heads(hidden[None])[:, 0], start=1):
            scores = logits.tolist()
            order = sorted(range(model.vocabulary), key=lambda token, of=scores: (-of[token], token))  # type: ignore[misc]
            known = offset + head < len(answer)
            row.append(min(order.index(answer[offset + head]), WIDTH) if known else UNKNOWN)
        rows.append(row)
        mask = model.additive(torch.ones(1, cache.lengths[0] + 1, dtype=torch.bool))[None, None]
        hidden = model.verify(torch.tensor([[token]]), torch.tensor([[cache.lengths[0]]]), mask, cache)[0, -1]
        cache.commit([[0]])
    return np.array(rows)


def same(one, other):
    """Whether two rank tables hold the same, whatever their origin."""
    names = ("ranks", "sequence", "offset", "probabilities")
    arrays = all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)
    return arrays and all(
        getattr(one, n) == getattr(other, n) for n in ("ids", "categories", "ended", "width")
    )


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.9)])
@pytest.mark.parametrize("layers", [1, 2])
def test_ranks_are_those_of_stepping_token_by_token(family, rule, layers):
    model, made = tiny.backbone(family), generations(family, rule)
    heads = tiny.heads_for(model, layers=layers, own=layers == 2)
    table = calibrate(model, heads, made, width=WIDTH)
    expected = [stepped_ranks(model, heads, generation) for generation in made]
    assert np.array_equal(table.ranks, np.concatenate(expected))
    assert table.sequence.tolist() == [i for i, rows in enumerate(expected) for _ in rows]
    assert table.offset.tolist() == [offset for rows in expected for offset in range(len(rows))]
    assert table.ids == tuple(g.id for g in made) and table.categories == tuple(g.category for g in made)
    assert table.ended == tuple(g.ended for g in made) and table.width == WIDTH


@pytest.mark.parametrize("tokens", [1, 50, 10**6])
@pytest.mark.parametrize("logits", [1, 400, 10**9])
def test_chunks_do_not_change_the_ranks(tokens, logits, monkeypatch):
    model = tiny.backbone()
    heads, made = tiny.heads_for(model), generations()
    whole = calibrate(model, heads, made)
    monkeypatch.setattr(states, "TOKENS_AT_ONCE", tokens)
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", logits)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 1)
    assert same(calibrate(model, heads, made), whole)


def test_only_a_chunk_of_logits_exists_at_once(monkeypatch):
    model, seen = tiny.backbone(), []
    heads = tiny.heads_for(model)
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 3 * tiny.VOCABULARY * 4)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 1)

    def noted(logits, truth):
        seen.append(logits.numel())
        return rank_of(logits, truth)

    monkeypatch.setattr(module, "rank_of", noted)
    calibrate(model, heads, generations())
    assert max(seen) == module.LOGITS_AT_ONCE


@torch.inference_mode()
def stepped_probabilities(model, heads, generation):
    """Probabilities [n, K, WIDTH] of each head's best tokens, one hidden state at a time, by sorting."""
    text = torch.tensor([generation.prompt_ids + generation.answer_ids])
    states = model.states(text[:, :-1], use_cache=False)[0, len(generation.prompt_ids) - 1 :]
    rows = []
    for state in states:
        logits = heads(state[None])[:, 0].double()
        rows.append(logits.softmax(dim=-1).sort(dim=-1, descending=True).values[:, :WIDTH])
    return torch.stack(rows).numpy()


def recorded(table):
    """Its probabilities, which it has."""
    assert table.probabilities is not None
    return table.probabilities


def test_probabilities_are_those_of_the_guesses_in_their_order():
    model, made = tiny.backbone(), generations()
    heads = tiny.heads_for(model)
    table = calibrate(model, heads, made, width=WIDTH, probabilities=True)
    expected = np.concatenate([stepped_probabilities(model, heads, generation) for generation in made])
    np.testing.assert_allclose(recorded(table), expected, rtol=1e-4, atol=1e-7)
    assert same(replace(table, probabilities=None), calibrate(model, heads, made, width=WIDTH))


def test_guesses_beyond_the_vocabulary_have_no_probability():
    made = [Generation("p", "all", 0, [2], [3, 4, 5], "limit")]
    table = calibrate(tiny.cycle(), tiny.cycle_heads(2), made, width=tiny.CYCLE + 2, probabilities=True)
    assert (recorded(table)[:, :, : tiny.CYCLE] > 0).all()
    assert (recorded(table)[:, :, tiny.CYCLE :] == 0).all()
    np.testing.assert_allclose(recorded(table).sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("probabilities", [False, True])
def test_an_interrupted_run_goes_on(probabilities, tmp_path, monkeypatch):
    model, partial = tiny.backbone(), tmp_path / "ranks.partial"
    heads, made = tiny.heads_for(model), generations()
    whole = calibrate(model, heads, made, probabilities=probabilities)
    monkeypatch.setattr(states, "TOKENS_AT_ONCE", 1)
    monkeypatch.setattr(module, "SAVE_EVERY", 1)
    score, scored = module.score, []

    def interrupted(*arguments):
        scored.append([generation.id for generation in arguments[2]])
        if len(scored) == 4:
            raise KeyboardInterrupt
        return score(*arguments)

    monkeypatch.setattr(module, "score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        calibrate(model, heads, made, probabilities=probabilities, partial=partial)
    assert partial.is_file()
    table = calibrate(model, heads, made, probabilities=probabilities, partial=partial)
    assert (
        same(replace(table, probabilities=None), replace(whole, probabilities=None)) and not partial.exists()
    )
    if probabilities:  # other batches round differently
        np.testing.assert_allclose(recorded(table), recorded(whole), rtol=1e-4)
    assert len(scored) == len(made) + 1, "only the interrupted batch was scored again"


@pytest.mark.parametrize(
    "change", ["width", "probabilities", "model_sha256", "heads_sha256", "generations_sha256", "dtype"]
)
def test_what_another_run_left_is_not_taken(change, tmp_path):
    model, partial = tiny.backbone(), tmp_path / "ranks.partial"
    heads, made = tiny.heads_for(model), generations()
    expected = calibrate(model, heads, made, generations_sha256="g")
    origin = (
        expected.provenance
        | {"scored": list(expected.ids)}
        | ({change: "other"} if change not in ("width", "probabilities") else {})
    )
    RankTable(
        ranks=np.where(expected.ranks >= 0, 0, UNKNOWN),
        sequence=expected.sequence,
        offset=expected.offset,
        ids=expected.ids,
        categories=expected.categories,
        ended=expected.ended,
        width=expected.width - (change == "width"),
        provenance=origin,
        probabilities=np.zeros((*expected.ranks.shape, expected.width))
        if change == "probabilities"
        else None,
    ).save(partial)
    assert same(calibrate(model, heads, made, partial=partial, generations_sha256="g"), expected)


def test_perfect_heads_have_an_accuracy_of_one_over_their_own_trials():
    """Cycle, 3 prompts x 20 tokens."""
    made = [
        Generation(f"p{n}", "all", 0, [n], [(n + 1 + i) % 7 for i in range(20)], "limit") for n in range(3)
    ]
    table = calibrate(tiny.cycle(), tiny.cycle_heads(4), made)
    assert table.trials().tolist() == [3 * (20 - k) for k in (1, 2, 3, 4)]
    assert table.accuracy().values[:, 0].tolist() == [1.0] * 4
    wrong = calibrate(tiny.cycle(), tiny.cycle_heads(4, wrong=(2,)), made)
    assert wrong.accuracy().values[:, 0].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_an_answer_adds_positions_up_to_its_end():
    """Three tokens, the last one the end: two trials for head 1, one for head 2, none for heads 3 and 4."""
    made = [Generation("p", "all", 0, [2], [3, 4, 5], "eos")]
    table = calibrate(tiny.cycle(end=5), tiny.cycle_heads(4), made)
    assert table.ranks.tolist() == [[0, 0, -1, -1], [0, -1, -1, -1], [-1, -1, -1, -1]]
    assert table.trials().tolist() == [2, 1, 0, 0] and table.ended == ("eos",)


def test_heads_that_give_no_numbers_are_never_right():
    heads = tiny.heads_for(tiny.backbone())
    heads.weight[0, 1] = torch.nan
    table = calibrate(tiny.backbone(), heads, generations(), width=8, probabilities=True)
    known = table.ranks[:, 1][table.ranks[:, 1] != UNKNOWN]
    assert len(known) and (known == 8).all() and (table.ranks[:, 0] == 0).any()
    assert (recorded(table)[:, 1] == 0).all() and (recorded(table)[:, 0] > 0).all()


def test_the_origin_of_a_table():
    model = tiny.backbone()
    heads = tiny.heads_for(model)
    heads.sha256 = "h"
    origin = calibrate(model, heads, generations(), template="none").provenance
    facts = {"model_sha256": "tiny", "heads_sha256": "h", "dtype": "float32", "template": "none"}
    assert facts.items() <= origin.items()


@cache
def calibrated(family, rule):
    model = tiny.backbone(family)
    return calibrate(model, tiny.heads_for(model), generations(family, rule), width=WIDTH)


@pytest.mark.parametrize("family", tiny.FAMILIES)
@settings(max_examples=10)
@given(tree=trees(max_depth=3, max_rank=WIDTH - 1), rule=st.sampled_from([GREEDY, Sampled(0.9), FILTERED]))
@example(tree=tiny.SAMPLE_TREE, rule=FILTERED)
@example(tree=Tree.from_choices([[12]]), rule=Sampled(0.9))
def test_replay_is_real_decoding_step_for_step(family, tree, rule):
    model, made = tiny.backbone(family), generations(family, rule)
    engine = Engine(model, tiny.heads_for(model), tree, rule=rule, seed=5)
    answers = engine.decode([g.prompt_ids for g in made], [g.id for g in made], 24)
    assert [answer.tokens for answer in answers] == [g.answer_ids for g in made]
    replayed = replay(calibrated(family, rule), tree)
    assert replayed.step_tokens == tuple(tuple(answer.step_tokens) for answer in answers)
