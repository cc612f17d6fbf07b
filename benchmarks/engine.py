"""Prediction beside measurement in one process: profile, grow, choose, then decode with many sizes in turns.

    python benchmarks/engine.py [--ranks FILE] [--trees FILE:NAME] [--limit 20] [--sizes 1,2,4] [--repeats 60] [-o FILE]
        [--model MODEL --heads DIR --prompts FILE --template chat --turns 1 --max-new-tokens 64] [--split evaluate]

Latencies are profiled at the mean context of the prompts to come. Trees are grown and chosen from the calibrate half of
the ranks in FILE, or of ranks made here. Then every size of the growth, the chain that the profile and the ranks say
is fastest, the trees named by --trees, plain decoding and transformers' `generate` decode the prompts in turns. Half of
the latency samples are taken before that, and the choice is made from them; the others after it, so that a machine that
slows down does not tell the profile from the decoding.

Last line: JSON. For each method the replayed tokens per step over the profiled latency beside the measured token/s; the
choice beside the best of all; shares of a step outside the backbone's forward pass and the heads, and of the heads.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from treeopt.artifact import format_json, provenance, require_match, write_text
from treeopt.cli.decoding import Decoding, resolve
from treeopt.cli.options import FILE, WHOLE, Requested, decoding_options, model_options, split_option
from treeopt.cli.parameters import WholeNumbers
from treeopt.cli.run import ModelOptions
from treeopt.cli.session import Session
from treeopt.cli.stages.evaluate import records
from treeopt.export.read import parse_tree_option
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import HF_GENERATE, PLAIN, Run, evaluate
from treeopt.measure.profile import Row, profile, typical_tree
from treeopt.search.baselines import chain
from treeopt.search.choose import Choice, choose
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay, replay_all
from treeopt.search.split import CALIBRATE
from treeopt.tree import ROOT, Tree

SIZES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
CHAIN = "best chain"


@dataclass(frozen=True)
class Bench:
    """The model and the settings that everything here decodes with."""

    session: Session
    decoding: Decoding

    def decode(
        self, prompts: Sequence[EncodedPrompt], trees: Mapping[str, Tree], *, alone: bool = False
    ) -> list[Run]:
        """All methods in turns, or plain decoding alone."""
        return evaluate(
            self.session.backbone,
            self.session.heads if trees else None,
            trees,
            prompts,
            max_new_tokens=self.decoding.max_new_tokens,
            rule=self.decoding.rule(),
            seed=self.decoding.seed,
            hf_generate=not alone,
        )

    def ranks(self, file: Path | None) -> RankTable:
        """The calibrate half of a rank table, which is of this model and these heads, or one made here."""
        if file is None:
            (plain,) = self.decode(self.session.prompts(self.decoding, CALIBRATE), {}, alone=True)
            return calibrate(self.session.backbone, self.session.heads, plain.generations())
        table = read_ranks(file)
        require_match(str(file), table.provenance, "the model and heads to time", self.session.facts())
        return table.split(CALIBRATE)

    def samples(self, context: int, sizes: Sequence[int], repeats: int) -> list[Row]:
        """Latencies of all sizes at one context."""
        return profile(
            self.session.backbone,
            self.session.heads,
            contexts=(context,),
            sizes=sizes,
            repeats=repeats,
            refine=False,
            rule=self.decoding.sampling(),
        )


@click.command()
@model_options
@decoding_options
@split_option("evaluate")
@click.option("--ranks", type=FILE, help="A rank table of the model.  [default: made here]")
@click.option(
    "--trees", "named", multiple=True, metavar="FILE[:NAME]", help="Trees to decode with too; repeatable."
)
@click.option("--limit", type=WHOLE, help="So many prompts, evenly spread.  [default: all of the half]")
@click.option("--sizes", type=WholeNumbers(), default=",".join(map(str, SIZES)), show_default=True)
@click.option(
    "--context", type=WHOLE, help="Tokens in the cache.  [default: the mean of the answers to come]"
)
@click.option("--repeats", type=WHOLE, default=60, show_default=True, help="Latency samples of each size.")
@click.option("-o", "--output", type=FILE, help="Where to write the result too.")
def main(
    source: ModelOptions,
    requested: Requested,
    split: str,
    ranks: Path | None,
    named: tuple[str, ...],
    limit: int | None,
    sizes: tuple[int, ...],
    context: int | None,
    repeats: int,
    output: Path | None,
) -> None:
    session = Session(source)
    bench = Bench(session, resolve(requested, source))
    prompts = session.prompts(bench.decoding, split)
    count = min(limit or len(prompts), len(prompts))
    prompts = [prompts[number * len(prompts) // count] for number in range(count)]
    fitted = bench.ranks(ranks)
    context = context or usual_context(prompts, bench.decoding.max_new_tokens)
    chains = {depth + 1: chain(depth) for depth in range(1, session.heads.heads + 1)}
    given = {name: tree.up_to_depth(session.heads.heads) for name, tree in map(parse_tree_option, named)}
    timed = sorted({1, *sizes, *chains, *(tree.size for tree in given.values())})
    before = bench.samples(context, timed, -(-repeats // 2))
    latency = LatencyProfile.from_rows(before)
    growth = grow(Independent(fitted.accuracy()), max(sizes))
    (choice,) = choose(latency, growth, fitted)
    wanted = sorted({*sizes, choice.tokens} - {1})
    trees = {str(size): growth.tree(size) for size in wanted if size <= growth.size}
    trees |= {CHAIN: best_chain(chains, latency, context, fitted), **given}
    runs = bench.decode(prompts, trees)
    latency = LatencyProfile.from_rows(before + bench.samples(context, timed, -(-repeats // 2)))
    methods = compared(bench, runs, latency, context)
    result = summary(methods, choice, list(given)) | {
        "shares_of_step": shares(latency, context),
        "methods": methods,
        "context": context,
        "prompts": len(prompts),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "provenance": provenance(**session.facts(), **bench.decoding.facts(), split=split, repeats=repeats),
    }
    if output:
        write_text(output, format_json(result))
    print(json.dumps(result))


def usual_context(prompts: Sequence[EncodedPrompt], max_new_tokens: int) -> int:
    """Tokens in the cache before a plain step, on average over answers of full length."""
    return round(sum(len(prompt.ids) for prompt in prompts) / len(prompts) + (max_new_tokens - 1) / 2)


def best_chain(chains: Mapping[int, Tree], latency: LatencyProfile, context: int, fitted: RankTable) -> Tree:
    """The chain with the most token/s by the ranks that trees were grown from and the profile."""
    return max(
        chains.values(),
        key=lambda tree: replay(fitted, tree).tokens_per_step / latency.median(1, context, tree.size),
    )


def compared(
    bench: Bench, runs: Sequence[Run], latency: LatencyProfile, context: int
) -> list[dict[str, Any]]:
    """What was measured of each method, beside replayed tokens per step over profiled latency."""
    plain = next(run for run in runs if run.name == PLAIN)
    width = 1 + max(run.tree.max_rank for run in runs)
    table = calibrate(bench.session.backbone, bench.session.heads, plain.generations(), width=max(width, 1))
    lines = []
    for run, record, replayed in zip(
        runs, records(runs), replay_all(table, [run.tree for run in runs]), strict=True
    ):
        profiled = (
            latency.plain_ms(1, context) if run.tree == ROOT else latency.median(1, context, run.tree.size)
        )
        expected = 1000 * replayed.tokens_per_step / profiled
        lines.append(
            {
                "name": run.name,
                "tokens": run.tree.size,
                "depth": run.tree.depth,
                "profiled_depth": typical_tree(bench.session.heads.heads, run.tree.size).depth,
                "replayed_tokens_per_step": replayed.tokens_per_step,
                "tokens_per_step": record["tokens_per_step"],
                "replayed_step_for_step": [list(steps) for steps in replayed.step_tokens]
                == [answer.step_tokens for answer in run.answers],
                "divergences": len(run.divergences),
                "profiled_ms": profiled,
                "measured_ms": record["latency_ms"],
                "expected_tokens_per_s": expected,
                "tokens_per_s": record["tokens_per_s"],
                "tokens_per_s_interval": record["tokens_per_s_interval"],
                "expected_over_measured": expected / record["tokens_per_s"],
                "speedup_over_plain": record["speedup"],
                "speedup_over_plain_interval": record["speedup_interval"],
            }
        )
    return lines


def summary(methods: Sequence[Mapping[str, Any]], choice: Choice, given: Sequence[str]) -> dict[str, Any]:
    """The choice beside all others, and how far off the predictions are; plain decoding is the choice "no tree"."""
    rates = {method["name"]: method["tokens_per_s"] for method in methods}
    name = PLAIN if choice.choices is None else str(choice.tokens)
    sizes = {method: rate for method, rate in rates.items() if method.isdecimal() or method == PLAIN}
    best = max(sizes, key=sizes.__getitem__)
    off = {m["name"]: m["expected_over_measured"] for m in methods if m["name"] in {*sizes, CHAIN, *given}}
    return {
        "choice": name,
        "predicted_tokens_per_s": choice.tokens_per_s,
        "predicted_interval": choice.interval,
        "measured_tokens_per_s": rates[name],
        "best_size": best,
        "sizes": len(sizes),
        "choice_over_best_size": rates[name] / rates[best],
        "choice_over_best_chain": rates[name] / rates[CHAIN],
        "choice_over_fastest_plain": rates[name] / max(rates[PLAIN], rates[HF_GENERATE]),
        **{f"choice_over_{other}": rates[name] / rates[other] for other in given},
        "expected_over_measured": [min(off.values()), max(off.values())],
    }


def shares(latency: LatencyProfile, context: int) -> dict[str, dict[str, float]]:
    """By size: how much of the median step is neither the backbone's forward pass nor heads, and how much is heads."""
    found = {}
    for size in latency.sizes(1, context):
        if size > 1:
            step = latency.median(1, context, size)
            parts = {part: latency.median(1, context, size, part) / step for part in ("accept", "heads")}
            found[str(size)] = {"outside": parts["accept"], "heads": parts["heads"]}
    return found


if __name__ == "__main__":
    main()
