"""Evaluation: every method's text is plain decoding's, counted alike."""

from typing import Any

import pytest
import torch

from tests import tiny
from treeopt.decode import GREEDY, Engine, Sampled, Typical
from treeopt.errors import InputError, MismatchError
from treeopt.measure import evaluate as module
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import HF_GENERATE, PLAIN, evaluate
from treeopt.measure.generate import generate
from treeopt.model.hf_generate import timed_generate
from treeopt.search.baselines import chain, dense
from treeopt.search.replay import replay
from treeopt.tree import ROOT

PROMPTS = [
    EncodedPrompt(f"p{n}", "all", tuple((7 * n + 3 * i) % 48 + 2 for i in range(2 * n + 1))) for n in range(4)
]
TREES = {"chain": chain(3), "dense": dense([3, 2])}


def steps(run):
    return sum(len(answer.step_tokens) for answer in run.answers)


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Sampled(2.0, top_p=0.8, top_k=9)])
def test_all_methods_give_the_same_text_and_are_counted_alike(family, rule):
    model, options = tiny.backbone(family), {"rule": rule, "seed": 4}
    runs = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, **options)
    assert [run.name for run in runs] == [PLAIN, "chain", "dense", HF_GENERATE]
    assert [run.tree for run in runs] == [ROOT, *TREES.values(), ROOT]
    texts = [tiny.plain_by_hand(model, p.ids, 15, p.id, **options) for p in PROMPTS]
    for run in runs:
        assert [answer.tokens for answer in run.answers] == texts and run.divergences == []
        assert [answer.ended for answer in run.answers] == [
            "eos" if text[-1] == tiny.END else "limit" for text in texts
        ]
        assert all(sum(a.step_tokens) == len(a.tokens) and a.seconds > 0 for a in run.answers)
        if run.tree == ROOT:
            assert all(set(a.step_tokens) == {1} for a in run.answers)


def test_typical_acceptance_stands_beside_greedy_decoding_and_is_not_compared():
    """A loose threshold takes whatever is drafted: fewer steps, another text, which is no divergence."""
    model, rule = tiny.backbone(), Typical(2.0, 1e-3, 1e-3)
    runs = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, rule=rule)
    plain, chained, _, theirs = runs
    for run in (plain, theirs):
        assert [a.tokens for a in run.answers] == [tiny.plain_by_hand(model, p.ids, 15) for p in PROMPTS]
        assert run.divergences == []
    assert [run.compared for run in runs] == [True, False, False, True]
    assert [a.tokens for a in chained.answers] != [a.tokens for a in plain.answers]
    greedy = evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=15, hf_generate=False)
    assert steps(chained) < steps(greedy[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_reports_where_it_parts_from_plain_decoding(dtype):
    """Rounding decides between near equals there: whatever parts does so by little, and says by how much."""
    model, prompts = (
        tiny.wrap(tiny.random_model(dtype=dtype)),
        [
            EncodedPrompt(f"p{n}", "all", tuple((7 * n + 3 * i) % 48 + 2 for i in range(n + 1)))
            for n in range(9)
        ],
    )
    for run in evaluate(model, tiny.heads_for(model), {"dense": dense([3, 2])}, prompts, max_new_tokens=60):
        parted = {found.id for found in run.divergences}
        assert run.name == "dense" or not parted
        for found in run.divergences:
            assert 0 <= found.position < 60 and 0 <= found.margin < 0.05


TALKS = [
    EncodedPrompt("t3", "c", (9, 4), ((13,), (14, 15))),
    EncodedPrompt("p", "all", (4, 9, 2)),
    EncodedPrompt("t2", "c", (7, 8), ((11, 12),)),
]


@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8)])
def test_every_method_answers_later_turns_behind_what_plain_decoding_said(rule, tmp_path):
    """Turns, their texts and the names of their answers are those that calibration has: replay stays exact."""
    model = tiny.backbone()
    options: dict[str, Any] = {"max_new_tokens": 9, "rule": rule, "seed": 4}
    heads = tiny.heads_for(model)
    made = generate(model, TALKS, tmp_path / "g.jsonl", **options)
    runs = evaluate(model, heads, TREES, TALKS, **options)
    for run in runs:
        assert [(p.key, p.id, p.category, list(p.ids)) for p in run.prompts] == [
            (g.key, g.id, g.category, g.prompt_ids) for g in made
        ]
        assert [(a.tokens, a.ended) for a in run.answers] == [(g.answer_ids, g.ended) for g in made]
        assert run.divergences == []
    assert runs[0].generations() == made
    table = calibrate(model, heads, made, width=16)
    for run in runs[1:3]:
        assert tuple(tuple(a.step_tokens) for a in run.answers) == replay(table, run.tree).step_tokens


def test_beside_typical_acceptance_turns_follow_plain_decoding_too():
    model = tiny.backbone()
    loose = Typical(2.0, 1e-3, 1e-3)
    plain, chained, *_ = evaluate(
        model, tiny.heads_for(model), TREES, TALKS, max_new_tokens=9, rule=loose, hf_generate=False
    )
    assert chained.prompts == plain.prompts and len(plain.prompts) == 6
    assert [a.tokens for a in chained.answers] != [a.tokens for a in plain.answers]
    said = plain.answers[0]
    assert plain.prompts[1].ids == (9, 4, *said.tokens[: -1 if said.ended == "eos" else None], 13)


def test_what_the_context_has_no_room_for_is_left_out():
    model = tiny.backbone("gpt2")
    full = EncodedPrompt("full", "all", (5,) * tiny.LIMIT)
    talk = EncodedPrompt("t", "all", (7,) * (tiny.LIMIT - 4), ((8,) * 9, (8,)))
    runs = evaluate(model, tiny.heads_for(model), TREES, [full, talk, PROMPTS[0]], max_new_tokens=3)
    assert {tuple(p.key for p in run.prompts) for run in runs} == {("t", "p0")}
    with pytest.raises(InputError, match="no prompt leaves room for an answer: gpt2 takes 96 tokens"):
        evaluate(model, None, {}, [full], max_new_tokens=3)


def test_a_tree_that_does_not_fit_the_heads_is_named():
    model = tiny.backbone()
    with pytest.raises(MismatchError, match=r"tree deep: choice \[0, 0, 0, 0\] has depth 4"):
        evaluate(
            model, tiny.heads_for(model), {"good": chain(2), "deep": chain(4)}, PROMPTS, max_new_tokens=3
        )


def test_methods_take_turns(monkeypatch):
    model, order = tiny.backbone(), []
    decode = Engine.decode

    def noted(self, prompts, names, limit):
        order.append((names[0], self.buffers.tree.size))
        return decode(self, prompts, names, limit)

    monkeypatch.setattr(Engine, "decode", noted)
    evaluate(model, tiny.heads_for(model), TREES, PROMPTS, max_new_tokens=2, hf_generate=False)
    untimed, timed = order[:3], order[3:]
    assert [name for name, _ in untimed] == ["p0"] * 3
    assert [name for name, _ in timed] == [p.id for p in PROMPTS for _ in range(3)]
    assert [size for _, size in timed[::3]] == [1, 4, 10, 1], "another one first, prompt by prompt"


def test_a_divergence_is_reported(monkeypatch):
    model = tiny.backbone()
    wrong = lambda *_: ([3, 3], [0.0, 0.1])  # noqa: E731
    monkeypatch.setattr(module, "timed_generate", wrong)
    runs = {r.name: r for r in evaluate(model, None, {}, PROMPTS[:2], max_new_tokens=2)}
    assert not runs[PLAIN].divergences
    assert [found.id for found in runs[HF_GENERATE].divergences] == ["p0", "p1"]


def test_transformers_loop_is_timed_token_by_token():
    model = tiny.backbone()
    tokens, times = timed_generate(model, PROMPTS[2].ids, 9)
    assert tokens == tiny.plain_by_hand(model, PROMPTS[2].ids, 9)
    assert len(times) == len(tokens) and times == sorted(times)


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.8},
        {"no_repeat_ngram_size": 1},
        {"suppress_tokens": [25, 20]},
        {"min_new_tokens": 8, "eos_token_id": 1},
        {"do_sample": True, "temperature": 0.1, "top_k": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_models_own_generation_settings_do_not_bend_the_comparison(settings):
    """Instruct models come with penalties, which neither the engine nor a runtime of tree decoding applies."""
    model = tiny.wrap(tiny.random_model())
    model.model.generation_config.update(**settings)
    before = model.model.generation_config.to_dict()
    for prompt in PROMPTS:
        assert timed_generate(model, prompt.ids, 12)[0] == tiny.plain_by_hand(model, prompt.ids, 12)
    assert model.model.generation_config.to_dict() == before


def test_a_long_prompt_is_cut_at_the_context_limit():
    model = tiny.backbone("gpt2")
    prompt = EncodedPrompt("long", "all", tuple((5 * i) % 48 + 2 for i in range(tiny.LIMIT - 4)))
    runs = evaluate(model, tiny.heads_for(model), TREES, [prompt], max_new_tokens=50)
    assert {len(run.answers[0].tokens) for run in runs} == {4} and not any(run.divergences for run in runs)
