"""Calibration against stepping token by token, and against the bare backbone, on the bundled model.

    python benchmarks/scoring.py [--answers 96]

Three ways over the same answers, in turn, `--rounds` times: teacher-forced scoring as `treeopt calibrate` does it;
decoding token by token at batch 1 and ranking each head at every step; the backbone's forward pass alone, with its
language-model head, over the same batches. Generating the answers (batch 16, as `treeopt generate`) is timed besides.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import torch

from treeopt.decode import Engine, Sampled
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import encode_prompts
from treeopt.measure.generate import generate
from treeopt.measure.generations import Generation
from treeopt.measure.prompts import read_prompts
from treeopt.measure.states import batches
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.heads import MedusaHeads, rank_of
from treeopt.model.sources import DEMO


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@torch.inference_mode()
def bare_forward(backbone: Backbone, generations: list[Generation]) -> None:
    """The model's own forward pass over prompt and answer, in the batches that scoring uses."""
    for batch in batches(generations):
        rows = [generation.prompt_ids + generation.answer_ids[:-1] for generation in batch]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        backbone.logits(backbone.states(tokens, use_cache=False))


@torch.inference_mode()
def stepwise(backbone: Backbone, heads: MedusaHeads, generations: list[Generation]) -> None:
    """One forward pass a token at batch 1, all heads ranked at each: the obvious way."""
    engine = Engine(backbone)
    for generation in generations:
        answer = generation.answer_ids
        state = engine.start([generation.prompt_ids], [generation.id], len(answer))
        for offset in range(len(answer)):
            past = state.cache.start
            hidden = backbone.verify(
                torch.tensor([[answer[offset]]]),
                torch.tensor([[past]]),
                torch.zeros(1, 1, 1, past + 1),
                state.cache,
            )
            backbone.logits(hidden)
            state.cache.commit([[0]])
            truths = answer[offset + 1 : offset + 1 + heads.heads]
            if truths:
                rank_of(heads(hidden[0])[: len(truths), 0], torch.tensor(truths))


@click.command()
@click.option("--answers", default=96)
@click.option("--rounds", default=3)
def main(answers: int, rounds: int) -> None:
    backbone = Backbone.load()
    heads = load_heads(DEMO / "heads", backbone)
    settings = json.loads((DEMO / "settings.json").read_text())
    asked = read_prompts(DEMO / "prompts.jsonl").prompts[:answers]
    prompts = encode_prompts(backbone.tokenizer, asked, "none")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        generations = generate(
            backbone,
            prompts,
            Path(folder) / "generations.jsonl",
            max_new_tokens=settings["max_new_tokens"],
            rule=Sampled(settings["temperature"]),
        )
        generating = time.perf_counter() - start
    ways = {
        "score": lambda: calibrate(backbone, heads, generations),
        "stepwise": lambda: stepwise(backbone, heads, generations),
        "forward": lambda: bare_forward(backbone, generations),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            samples[name].append(timed(way))
    median = {name: statistics.median(seconds) for name, seconds in samples.items()}
    positions = sum(len(generation.answer_ids) for generation in generations)
    print(
        json.dumps(
            {
                "positions": positions,
                "scored_positions_per_s": round(positions / median["score"]),
                "stepwise_positions_per_s": round(positions / median["stepwise"]),
                "scoring_over_stepwise": round(median["stepwise"] / median["score"], 2),
                "generation_and_scoring_over_stepwise": round(
                    median["stepwise"] / (median["score"] + generating), 2
                ),
                "scoring_time_over_bare_forward": round(median["score"] / median["forward"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
