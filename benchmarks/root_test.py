"""The root test: every tree gives plain decoding's text, token for token, in the steps that replay says.

    python benchmarks/root_test.py [--model MODEL --heads DIR --adapter DIR --prompts FILE --template chat --turns 1]
        [--limit 20] [--max-new-tokens 64] [--tree FILE[:NAME]] [--trees FILE[:NAME]] [-o FILE]

All prompts of the evaluate half, or so many of them, of the bundled model or another. The trees: grown of several sizes
from the ranks of this very text, chains, dense, random, a single deep path, the first guesses of head 1 alone, and
those that --tree and --trees name, cut to the heads.

In float32 a divergence, of text or of steps, is excused only where the logits that decide lie within 1e-4. Ends with
status 1 where one is not.
"""

import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
import torch

from treeopt.artifact import format_json, provenance, write_text
from treeopt.cli.decoding import resolve
from treeopt.cli.options import FILE, WHOLE, Requested, decoding_options, model_options, split_option
from treeopt.cli.run import ModelOptions
from treeopt.cli.session import Session
from treeopt.export.read import parse_trees_option
from treeopt.measure.agreement import EXCUSED_MARGIN
from treeopt.measure.calibrate import calibrate
from treeopt.measure.evaluate import Run, evaluate
from treeopt.measure.generations import Generation
from treeopt.search.baselines import best_dense, chain, dense, random_dense
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay_all
from treeopt.tree import Tree

GROWN = (2, 4, 8, 16, 32, 64)
WIDTH = 64
"""Ranks that are kept, and so the widest tree."""


@click.command()
@model_options
@decoding_options
@split_option("evaluate")
@click.option("--limit", type=WHOLE, help="So many prompts, evenly spread.  [default: all of the half]")
@click.option(
    "--tree", "--trees", "named", multiple=True, metavar="FILE[:NAME]", help="More trees; repeatable."
)
@click.option("-o", "--output", type=FILE, help="Where to write the result too.")
def main(
    source: ModelOptions,
    requested: Requested,
    split: str,
    limit: int | None,
    named: tuple[str, ...],
    output: Path | None,
) -> None:
    session, decoding = Session(source), resolve(requested, source)
    backbone, heads, rule = session.backbone, session.heads, decoding.sampling()
    prompts = spread(session.prompts(decoding, split), limit)
    options = {"max_new_tokens": decoding.max_new_tokens, "rule": rule, "seed": decoding.seed}
    (plain,) = evaluate(backbone, None, {}, prompts, hf_generate=False, **options)
    answers = plain.generations()
    table = calibrate(backbone, heads, answers, width=WIDTH)
    trees = dict(usual_trees(table)) | dict(given_trees(named, heads.heads))
    runs = evaluate(backbone, heads, trees, prompts, **options)
    replays = dict(zip(trees, replay_all(table, list(trees.values())), strict=True))
    results = {}
    for run in runs:
        result = {"tokens": run.tree.size, "steps": sum(len(answer.step_tokens) for answer in run.answers)}
        result |= {"divergences": [asdict(found) | {"excused": found.excused} for found in run.divergences]}
        if run.name in replays:
            result |= step_for_step(run, replays[run.name].step_tokens, answers, session)
        results[run.name] = result
        print(run.name, result, flush=True)
    summary = passed(results) | {
        "prompts": len({prompt.id for prompt in plain.prompts}),
        "answers": len(answers),
        "emitted": sum(len(answer.answer_ids) for answer in answers),
        "trees": results,
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "provenance": provenance(**session.facts(), **decoding.facts(), split=split, limit=limit),
    }
    if output:
        write_text(output, format_json(summary))
    print(json.dumps(summary))
    sys.exit(0 if summary["passed"] or backbone.dtype != torch.float32 else 1)


def spread(prompts: Sequence, limit: int | None) -> list:
    """`limit` of the prompts, evenly spread over them; all where there are no more."""
    count = min(limit or len(prompts), len(prompts))
    return [prompts[number * len(prompts) // count] for number in range(count)]


def usual_trees(table: RankTable) -> Iterator[tuple[str, Tree]]:
    growth = grow(Independent(table.accuracy()), max(GROWN))
    for size in GROWN:
        yield f"grown {size}", growth.tree(min(size, growth.size))
    rng, heads = np.random.default_rng(0), table.heads
    yield "chain", chain(heads)
    yield "first guess of head 1", chain(1)
    yield "dense 3 x 2 x 2", dense([3, 2, 2][:heads])
    yield "best dense 64", best_dense(table.accuracy(), 64)[0][0]
    yield "random dense", random_dense(rng, heads, 64, 9)
    yield "random 24", random_tree(rng, heads, 24)
    yield "random 64", random_tree(rng, heads, 64)
    yield "deep path", Tree.from_choices([[1, *[0] * (heads - 1)]], close=True)
    yield "wide", dense([WIDTH - 1])


def random_tree(rng: np.random.Generator, heads: int, size: int) -> Tree:
    """A tree of any shape: a random rank below 12 joins a random node, until there are so many."""
    nodes: list[tuple[int, ...]] = [()]
    while len(nodes) < size:
        path = (*nodes[rng.integers(len(nodes))], int(rng.integers(12)))
        if len(path) <= heads and path not in nodes:
            nodes.append(path)
    return Tree.from_choices(nodes[1:])


def given_trees(options: Sequence[str], heads: int) -> Iterator[tuple[str, Tree]]:
    for option in options:
        several = option if ":" in Path(option).name else f"{option}:all"
        for name, tree in parse_trees_option(several).items():
            yield name, tree.up_to_depth(heads)


def step_for_step(
    run: Run, replayed: Sequence[Sequence[int]], answers: Sequence[Generation], session: Session
) -> dict:
    """Whether decoding took the steps that replay says, up to where a text diverges; where not, by what margin."""
    diverged = {found.id: found.position for found in run.divergences}
    margins = []
    for answer, expected, generation in zip(run.answers, replayed, answers, strict=True):
        upto = diverged.get(generation.key, len(generation.answer_ids))
        place = first_difference(expected, answer.step_tokens, upto)
        if place is not None:
            margins.append(head_margin(session, generation, *place))
    return {"replayed_step_for_step": not margins, "step_margins": margins}


def first_difference(expected: Sequence[int], got: Sequence[int], upto: int) -> tuple[int, int] | None:
    """Where a step that ends within `upto` tokens differs: its first token, and the head that decided."""
    position = 0
    for one, other in zip(expected, got, strict=False):
        if position + max(one, other) > upto:
            return None
        if one != other:
            return position, min(one, other)
        position += one
    return None


@torch.inference_mode()
def head_margin(session: Session, answer: Generation, position: int, head: int) -> float:
    """How near the truth's logit of a head lies to the nearest other one, before the token at this position."""
    text = torch.tensor([answer.prompt_ids + answer.answer_ids[:position]], device=session.backbone.device)
    hidden = session.backbone.states(text, use_cache=False)[:, -1]
    logits = session.heads(hidden)[head - 1, 0].float()
    away = (logits - logits[answer.answer_ids[position + head]]).abs()
    return float(away.topk(2, largest=False).values[1])


def passed(results: dict) -> dict:
    """Of all methods together: divergences, and whether each is excused."""
    margins = [found["margin"] for result in results.values() for found in result["divergences"]]
    margins += [margin for result in results.values() for margin in result.get("step_margins", ())]
    steps = sum(result["steps"] for result in results.values())
    return {
        "passed": all(margin <= EXCUSED_MARGIN for margin in margins),
        "steps": steps,
        "divergences": len(margins),
        "divergences_per_10000_steps": round(10_000 * len(margins) / steps, 3),
    }


if __name__ == "__main__":
    main()
