"""What lies under calibration/: prompts that are what they claim, heads and rank tables that load."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from treeopt.measure.generations import read_generations
from treeopt.measure.prompts import read_prompts
from treeopt.model.checkpoints import find_heads, read_config
from treeopt.model.tensor_files import read_tensors
from treeopt.search.ranks import RankTable

SMOLLM2 = Path(__file__).parents[1] / "calibration" / "smollm2-135m"
MT_BENCH = Path(__file__).parents[2] / "shared" / "data" / "mt_bench_questions.jsonl"
CATEGORIES = {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}


def prompts(name):
    read = read_prompts(SMOLLM2 / name)
    assert not read.skipped and not read.repaired
    return read.prompts


def words(text):
    return frozenset(re.findall(r"[a-z0-9']+", text.lower()))


def overlap(one, other):
    return len(one & other) / len(one | other)


def test_prompts_are_many_distinct_and_of_all_categories():
    train, held_out = prompts("prompts.jsonl"), prompts("held_out.jsonl")
    assert len(train) >= 1000 and len(held_out) == 80
    assert Counter(p.category for p in held_out) == dict.fromkeys(CATEGORIES, 10)
    assert {p.category for p in train} == CATEGORIES
    every = [*train, *held_out]
    assert len({p.id for p in every}) == len({p.turns[0].strip().lower() for p in every}) == len(every)


def test_no_held_out_prompt_is_much_like_a_training_prompt():
    train = [words(p.turns[0]) for p in prompts("prompts.jsonl")]
    for held in prompts("held_out.jsonl"):
        assert max(overlap(words(held.turns[0]), other) for other in train) <= 0.5, held.id


@pytest.mark.skipif(not MT_BENCH.is_file(), reason="needs ../shared")
def test_mt_bench_is_not_trained_on():
    bench = [words(turn) for p in read_prompts(MT_BENCH).prompts for turn in p.turns]
    for prompt in prompts("prompts.jsonl"):
        for turn in prompt.turns:
            assert max(overlap(words(turn), other) for other in bench) <= 0.5, prompt.id


def test_the_answers_are_the_prompts_and_enough():
    shards = sorted((SMOLLM2 / "answers").glob("*.jsonl.gz"))
    answers = [answer for shard in shards for answer in read_generations(shard, vocabulary=49152)]
    assert {answer.id for answer in answers} <= {p.id for p in prompts("prompts.jsonl")}
    assert sum(len(answer.answer_ids) for answer in answers) >= 400_000
    assert all(shard.stat().st_size < 4e6 for shard in shards)


def test_the_heads_are_five_with_a_shared_language_model_head():
    file = find_heads(SMOLLM2 / "heads")
    config = read_config(file)
    assert (config["medusa_num_heads"], config["medusa_num_layers"], config["version"]) == (5, 1, "2")
    shapes = {name: tuple(tensor.shape) for name, tensor in read_tensors(file).items()}
    expected = {f"{head}.0.linear.weight": (576, 576) for head in range(5)}
    assert shapes == expected | {f"{head}.0.linear.bias": (576,) for head in range(5)}


@pytest.mark.parametrize("name", ["held_out", "mt_bench"])
def test_the_recorded_ranks_are_of_those_heads(name):
    table = RankTable.load(SMOLLM2 / "ranks" / f"{name}.safetensors")
    assert table.heads == 5 and len(set(table.ids)) == 80
    top1 = table.accuracy().values[:, 0]
    assert 0.5 > top1[0] > top1[1] > top1[2] > max(top1[3:])
    log = [json.loads(line) for line in (SMOLLM2 / "heads" / "log.jsonl").read_text().splitlines()]
    assert log[0]["model_sha256"] == table.provenance["model_sha256"]
