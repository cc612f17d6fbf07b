"""Generating: the text is plain decoding's whatever the batch, and an interrupted run goes on."""

from typing import Any

import pytest

from tests import tiny
from treeopt.decode import GREEDY, Sampled, decode_queue
from treeopt.errors import MismatchError
from treeopt.measure import generate as module
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generate import generate
from treeopt.measure.generations import read_generations, read_provenance


def prompts(count=7):
    return [
        EncodedPrompt(f"p{n}", "ab"[n % 2], tuple((5 * n + 3 * i) % 48 + 2 for i in range(1 + 2 * n)))
        for n in range(count)
    ]


@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Sampled(2.0, 0.8, 9)])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_answers_are_those_of_plain_decoding(rule, batch_size, tmp_path):
    model, path = tiny.backbone(), tmp_path / "g.jsonl"
    options = {"max_new_tokens": 12, "rule": rule, "seed": 9}
    made = generate(model, prompts(), path, batch_size=batch_size, **options)
    assert [(g.id, g.category, g.prompt_ids) for g in made] == [
        (p.id, p.category, list(p.ids)) for p in prompts()
    ]
    for prompt, generation in zip(prompts(), made, strict=True):
        expected = tiny.plain_by_hand(model, prompt.ids, 12, prompt.id, rule, 9)
        assert generation.answer_ids == expected
        assert generation.ended == ("eos" if expected[-1] == tiny.END else "limit")
    assert sorted(read_generations(path), key=lambda g: g.id) == made


def test_the_answer_of_cycle_ends_with_its_end_token(tmp_path):
    made = generate(
        tiny.cycle(end=5), [EncodedPrompt("a", "c", (2,))], tmp_path / "g.jsonl", max_new_tokens=20
    )
    assert made[0].answer_ids == [3, 4, 5] and made[0].ended == "eos"


class Interrupted:
    """Decoding that is stopped from outside after so many answers; notes which it was asked for and gave."""

    def __init__(self, after):
        self.after, self.asked, self.given = after, [], []

    def __call__(self, engine, waiting, **options):
        self.asked = [request.id for request in waiting]
        for request, answer in decode_queue(engine, waiting, **options):
            if len(self.given) == self.after:
                raise KeyboardInterrupt
            self.given.append(request.id)
            yield request, answer


@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_an_interrupted_run_goes_on(after, tmp_path, monkeypatch):
    model, path = tiny.backbone(), tmp_path / "g.jsonl"
    asked = [*prompts(), *talks()]
    options: dict[str, Any] = {"max_new_tokens": 8, "batch_size": 2}
    whole = generate(model, asked, tmp_path / "whole.jsonl", **options)
    first, second = Interrupted(after), Interrupted(None)
    monkeypatch.setattr(module, "decode_queue", first)
    with pytest.raises(KeyboardInterrupt):
        generate(model, asked, path, **options)
    assert [g.key for g in read_generations(path)] == first.given if after else not path.exists()
    monkeypatch.setattr(module, "decode_queue", second)
    assert generate(model, asked, path, **options) == whole
    assert set(second.given).isdisjoint(first.given), "nothing is answered twice"
    assert generate(model, asked, path, **options) == whole and second.asked == []


def talks():
    """Conversations of two and three turns."""
    return [
        EncodedPrompt("t2", "c", (7, 8), ((11, 12),)),
        EncodedPrompt("t3", "c", (9,), ((13,), (14, 15))),
    ]


def test_later_turns_follow_what_the_model_itself_said(tmp_path):
    """Each turn's prompt is all before it, without the end token of an answer, which the template writes itself."""
    model = tiny.cycle(end=5)
    talk = EncodedPrompt("t", "c", (2,), ((0,), (6, 1)))
    made = generate(model, [talk], tmp_path / "g.jsonl", max_new_tokens=4)
    assert [(g.key, g.turn, g.prompt_ids, g.answer_ids, g.ended) for g in made] == [
        ("t", 0, [2], [3, 4, 5], "eos"),
        ("t#1", 1, [2, 3, 4, 0], [1, 2, 3, 4], "limit"),
        ("t#2", 2, [2, 3, 4, 0, 1, 2, 3, 4, 6, 1], [2, 3, 4, 5], "eos"),
    ]


@pytest.mark.parametrize("rule", [GREEDY, Sampled(0.8), Sampled(2.0, 0.8, 9)])
def test_turns_are_those_of_plain_decoding(rule, tmp_path):
    model = tiny.backbone()
    options = {"max_new_tokens": 6, "rule": rule, "seed": 3}
    made = generate(model, [*talks(), *prompts()], tmp_path / "g.jsonl", batch_size=3, **options)
    assert [g.key for g in made[:5]] == ["t2", "t2#1", "t3", "t3#1", "t3#2"]
    for g in made:
        assert g.answer_ids == tiny.plain_by_hand(model, g.prompt_ids, 6, g.key, rule, 3)


def test_a_turn_without_room_is_left_out(tmp_path):
    model = tiny.backbone()
    long = EncodedPrompt("t", "c", (7,) * (tiny.LIMIT - 4), ((8,) * 9, (8,)))
    made = generate(model, [long], tmp_path / "g.jsonl", max_new_tokens=3)
    assert [g.key for g in made] == ["t"]


def test_the_origin_is_kept(tmp_path):
    generate(tiny.backbone(), prompts(1), tmp_path / "g.jsonl", max_new_tokens=3, seed=2, template="none")
    origin = read_provenance(tmp_path / "g.jsonl")
    facts = {
        "model": "llama",
        "model_sha256": "tiny",
        "dtype": "float32",
        "device": "cpu",
        "template": "none",
    }
    assert facts.items() <= origin.items() and (origin["seed"], origin["max_new_tokens"]) == (2, 3)


def test_other_settings_and_other_prompts_are_refused(tmp_path):
    path = tmp_path / "g.jsonl"
    generate(tiny.backbone(), prompts(2), path, max_new_tokens=3)
    for options in (
        {"max_new_tokens": 4},
        {"max_new_tokens": 3, "rule": Sampled(1.0)},
        {"max_new_tokens": 3, "rule": Sampled(0.0, top_k=3)},
    ):
        with pytest.raises(MismatchError, match="do not belong together"):
            generate(tiny.backbone(), prompts(2), path, **options)
    changed = [EncodedPrompt("p1", "b", (9, 9, 9))]
    with pytest.raises(MismatchError, match=r"g\.jsonl: answers another prompt with the id 'p1'"):
        generate(tiny.backbone(), changed, path, max_new_tokens=3)
