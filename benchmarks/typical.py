"""Typical acceptance by real decoding: tokens per step and quality over epsilon, and trees grown for it.

    python benchmarks/typical.py [--model MODEL] [--heads DIR] [--adapter DIR] [--prompts FILE] [--run DIR] [-o FILE]

At each size N of --sizes, over the evaluate half of the prompts: the plain tree (grown from the run's ranks) under
typical acceptance at each of --epsilons (delta is the root), under greedy acceptance and under sampling; at epsilon
0.09 also the tree grown by coverage, from passes recorded at that epsilon on the calibrate half with the --superset
nodes that the ranks value most. Quality is the backbone's own view: see treeopt/measure/quality.py.

In `compared` both trees stand side by side as decoded, and on recorded steps, which begin alike for both: those grown
from (fitted) and those of the evaluate half (held_out). The last line, and FILE, are JSON; intervals are by bootstrap
over prompts, in `compared` of the ratio.
"""

import json
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from treeopt.artifact import format_json, provenance, sha256_file, write_json
from treeopt.cli.acceptance import TYPICAL_EPSILON
from treeopt.cli.decoding import Decoding, resolve
from treeopt.cli.options import FILE, Requested, model_options
from treeopt.cli.run import ModelOptions
from treeopt.cli.session import Session
from treeopt.cli.stages.grow import from_ranks
from treeopt.cli.stages.passes import make_passes
from treeopt.decode import Engine, Rule
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.quality import measure_quality
from treeopt.search.bootstrap import interval, resampled_ratios
from treeopt.search.coverage import PassTable, grow_coverage
from treeopt.search.replay import Replay
from treeopt.search.split import CALIBRATE, EVALUATE
from treeopt.tree import Tree

PLAIN, COVERAGE = "plain", "coverage"
SEED = 0  # of the bootstrap: the same draws for all


@click.command()
@model_options
@click.option("--prompts", type=FILE, help="Prompts.  [default: the run's, then the demo's]")
@click.option("--template", type=click.Choice(["auto", "chat", "none"]))
@click.option("--max-new-tokens", type=int)
@click.option("--temperature", default=0.7, show_default=True)
@click.option("--sizes", default="8,64", show_default=True, help="N of the trees.")
@click.option("--epsilons", default="0.01,0.03,0.05,0.09,0.13,0.17,0.21,0.25", show_default=True)
@click.option("--superset", default=256, show_default=True, help="Nodes to record passes of.")
@click.option("--at-most", type=int, help="Take the first prompts of each half only.")
@click.option("-o", "--output", type=FILE, help="Where to write it all.")
def main(
    source: ModelOptions,
    sizes: str,
    epsilons: str,
    superset: int,
    at_most: int | None,
    output: Path | None,
    **asked: Any,
) -> None:
    session = Session(source)
    typical = resolve(Requested(**asked, acceptance="typical", epsilon=TYPICAL_EPSILON), source)
    fitted, held_out = (
        make_passes(session, typical, budget=superset, split=half, at_most=at_most)
        for half in (CALIBRATE, EVALUATE)
    )
    prompts = session.prompts(typical, EVALUATE)[:at_most]
    records, compared = [], []
    for size in map(int, sizes.split(",")):
        trees = {
            PLAIN: from_ranks(session.run.ranks, size).tree(size),
            COVERAGE: (grown := grow_coverage(fitted, size)).tree(grown.size),
        }
        replays = {}
        for name, decoding in settings(typical, [float(word) for word in epsilons.split(",")]):
            record, replays[name, decoding.acceptance, decoding.epsilon] = decoded(
                session, trees[name], prompts, decoding
            )
            records.append({"tree": name} | record)
            print(json.dumps(records[-1]), flush=True)
        ways = {"decoded": [replays[name, "typical", TYPICAL_EPSILON] for name in (PLAIN, COVERAGE)]}
        for way, table in (("fitted", fitted), ("held_out", held_out)):
            ways[way] = [on_recorded(table, tree) for tree in trees.values()]
        ratios = {way: against(*both) for way, both in ways.items()}
        compared.append({"tokens": size, "shared_nodes": shared(*trees.values())} | ratios)
    content = {
        "records": records,
        "compared": compared,
        "command": shlex.join(["python", "benchmarks/typical.py", *sys.argv[1:]]),
        "provenance": provenance(
            **session.facts(),
            **typical.facts(),
            ranks_sha256=sha256_file(session.run.ranks),
            superset=fitted.tree.size,
            recorded_steps=[len(fitted.passes), len(held_out.passes)],
            at_most=at_most,
        ),
    }
    if output:
        write_json(output, content, "typical")
    print(json.dumps(json.loads(format_json(content))))


def settings(typical: Decoding, epsilons: list[float]) -> list[tuple[str, Decoding]]:
    """Which tree decodes by which rule, typical acceptance last."""
    greedy = replace(typical, acceptance="greedy", temperature=0.0, epsilon=None, delta=None)
    found = [(PLAIN, greedy), (PLAIN, replace(greedy, acceptance="sampled", temperature=typical.temperature))]
    found += [(PLAIN, replace(typical, epsilon=epsilon, delta=epsilon**0.5)) for epsilon in epsilons]
    return [*found, (COVERAGE, typical)]


def decoded(
    session: Session, tree: Tree, prompts: list[EncodedPrompt], decoding: Decoding
) -> tuple[dict[str, Any], Replay]:
    """One tree under one rule over all prompts."""
    rule: Rule = decoding.rule()
    engine = Engine(session.backbone, session.heads, tree, rule=rule, seed=decoding.seed)
    answers = [engine.decode([p.ids], [p.id], decoding.max_new_tokens)[0] for p in prompts]
    steps = Replay.of_steps(
        tree, [a.step_tokens for a in answers], [p.id for p in prompts], ["all"] * len(prompts)
    )
    low, high = steps.interval(np.random.default_rng(SEED))
    quality = measure_quality(session.backbone, prompts, answers)
    return {
        "rule": rule.name,
        "epsilon": decoding.epsilon,
        "temperature": decoding.temperature,
        "tokens": tree.size,
        "tokens_per_step": steps.tokens_per_step,
        "low": low,
        "high": high,
        "surprise_gap": quality.surprise_gap,
    } | asdict(quality), steps


def shared(first: Tree, second: Tree) -> int:
    """Nodes that both trees have, the root among them."""
    return 1 + len(set(first.choices) & set(second.choices))


def on_recorded(table: PassTable, tree: Tree) -> Replay:
    """What a tree would accept at recorded steps."""
    tokens = [(table.accepted(tree)[table.prompt == i] + 1).tolist() for i in range(len(table.ids))]
    return Replay.of_steps(tree, tokens, table.ids, ["all"] * len(table.ids))


def against(plain: Replay, coverage: Replay) -> dict[str, float]:
    """Tokens per step of both, and their ratio with a 95 % interval."""
    draws = [resampled_ratios(*each.by_prompt(), np.random.default_rng(SEED)) for each in (plain, coverage)]
    low, high = interval(draws[1] / draws[0])
    rates = {PLAIN: plain.tokens_per_step, COVERAGE: coverage.tokens_per_step}
    return rates | {"ratio": rates[COVERAGE] / rates[PLAIN], "low": low, "high": high}


if __name__ == "__main__":
    main()
