"""Generating: the text is plain decoding's whatever the batch, and an interrupted run goes on."""

import pytest

from tests import tiny
from treeopt.decode import Engine
from treeopt.errors import MismatchError
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.generate import generate
from treeopt.measure.generations import read_generations, read_provenance


def prompts(count=7):
    return [
        EncodedPrompt(f"p{n}", "ab"[n % 2], tuple((5 * n + 3 * i) % 48 + 2 for i in range(1 + 2 * n)))
        for n in range(count)
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_answers_are_those_of_plain_decoding(temperature, batch_size, tmp_path):
    model, path = tiny.backbone(), tmp_path / "g.jsonl"
    options = {"max_new_tokens": 12, "temperature": temperature, "seed": 9}
    made = generate(model, prompts(), path, batch_size=batch_size, **options)
    assert [(g.id, g.category, g.prompt_ids) for g in made] == [
        (p.id, p.category, list(p.ids)) for p in prompts()
    ]
    for prompt, generation in zip(prompts(), made, strict=True):
        expected = tiny.plain_by_hand(model, prompt.ids, 12, prompt.id, temperature, 9)
        assert generation.answer_ids == expected
        assert generation.ended == ("eos" if expected[-1] == tiny.END else "limit")
    assert sorted(read_generations(path), key=lambda g: g.id) == made


def test_the_answer_of_cycle_ends_with_its_end_token(tmp_path):
    made = generate(
        tiny.cycle(end=5), [EncodedPrompt("a", "c", (2,))], tmp_path / "g.jsonl", max_new_tokens=20
    )
    assert made[0].answer_ids == [3, 4, 5] and made[0].ended == "eos"


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    model, path, decode = tiny.backbone(), tmp_path / "g.jsonl", Engine.decode
    whole = generate(model, prompts(), tmp_path / "whole.jsonl", max_new_tokens=8, batch_size=2)
    calls = []

    def interrupted(self, batch, names, limit):
        calls.append(names)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return decode(self, batch, names, limit)

    monkeypatch.setattr(Engine, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(model, prompts(), path, max_new_tokens=8, batch_size=2)
    assert len(read_generations(path)) == 4
    assert generate(model, prompts(), path, max_new_tokens=8, batch_size=2) == whole
    again = [name for names in calls[3:] for name in names]
    assert set(again).isdisjoint(name for names in calls[:2] for name in names), "nothing is answered twice"
    assert generate(model, prompts(), path, max_new_tokens=8) == whole and len(calls) == 5


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
    for options in ({"max_new_tokens": 4}, {"max_new_tokens": 3, "temperature": 1.0}):
        with pytest.raises(MismatchError, match="do not belong together"):
            generate(tiny.backbone(), prompts(2), path, **options)
    changed = [EncodedPrompt("p1", "b", (9, 9, 9))]
    with pytest.raises(MismatchError, match=r"g\.jsonl: answers another prompt with the id 'p1'"):
        generate(tiny.backbone(), changed, path, max_new_tokens=3)
