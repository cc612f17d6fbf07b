"""A small run whose artifacts fit together, as a report gets them."""

from dataclasses import replace

import numpy as np

from treeopt.search.choose import choose
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.tree import chain
from treeopt.view.report import Contents, Export, Made

HOSTILE = "<script>alert(1)</script>&\"'"
FACTS = {
    "model": HOSTILE,
    "model_sha256": "a" * 64,
    "heads_sha256": "b" * 64,
    "dtype": "float32",
    "date": "2026",
}


def ranks(answers=12, tokens=40):
    """Answers p0, p1, ... in two categories, drawn with a fixed seed: the first guess is right about half the time."""
    rng = np.random.default_rng(0)
    table = np.minimum(rng.geometric(0.5, (answers, tokens, 2)) - 1, 4)
    for head in (1, 2):
        table[:, tokens - head :, head - 1] = -1
    return RankTable(
        ranks=table.reshape(-1, 2),
        sequence=np.repeat(np.arange(answers), tokens),
        offset=np.tile(np.arange(tokens), answers),
        ids=tuple(f"p{i}" for i in range(answers)),
        categories=tuple(HOSTILE if i % 2 else "sums" for i in range(answers)),
        ended=("limit",) * answers,
        width=4,
        provenance=dict(FACTS),
    )


def latency(settings=((1, 64),), *, simulated=False):
    rows = [
        {"batch": batch, "context": context, "tokens": n, "latency_ms": 10 + n / 4 + wobble}
        for batch, context in settings
        for n in (1, 2, 4, 8)
        for wobble in (0, 0.1, 0.2)
    ]
    return LatencyProfile.from_rows(rows, simulated=simulated, provenance=FACTS)


def run(name, tree, judged, rate):
    replayed = replay(judged, tree)
    return {
        "name": name,
        "choices": [list(path) for path in tree.choices],
        "tokens": tree.size,
        "steps": replayed.steps,
        "emitted": replayed.emitted,
        "tokens_per_step": replayed.tokens_per_step,
        "tokens_per_s": rate,
        "divergences": [],
        "categories": {"sums": {"tokens_per_step": 1.5, "speedup": 1.2}},
    }


def whole(*, settings=((1, 64),), simulated=False, measured=None, plain=100.0):
    """Contents with every artifact; the tree is measured at its predicted speed unless `measured` says another."""
    table = ranks()
    fitted, judged = table.split("calibrate"), table.split("evaluate")
    growth = grow(Independent(fitted.accuracy()), 8, provenance=FACTS)
    profile = latency(settings, simulated=simulated)
    choices = tuple(choose(profile, growth, fitted))
    tree = choices[0].tree
    rate = choices[0].tokens_per_s if measured is None else measured
    runs = [run("plain", chain(0), judged, plain), run(HOSTILE, tree, judged, rate)]
    files = ("ranks.safetensors", "growth.json", "latency.json", "choice.json", "evaluation.json")
    return Contents(
        name=HOSTILE,
        directory="results/x",
        accuracy=fitted.accuracy(),
        ranks=table,
        growth=growth,
        latency=profile,
        choices=choices,
        evaluation={"runs": runs, "provenance": {**FACTS, "split": "evaluate"}},
        training=({"stage": "medusa1", "step": 1, "train_loss": [2.0, 3.0]},),
        exports=(export(tree),),
        repetition={HOSTILE: 0.2},
        made={file: Made(file, "c" * 64, dict(FACTS), "treeopt grow") for file in files},
        export_command="treeopt export --format json",
    )


def export(tree):
    return Export("medusa", "v", HOSTILE, "medusa_choices.py", f"run {HOSTILE}", HOSTILE, tree)


def nothing():
    return Contents(name="x", directory="results/x")


def with_provenance(contents, file, **facts):
    made = contents.made[file]
    changed = replace(made, provenance={**made.provenance, **facts})
    return replace(contents, made={**contents.made, file: changed})
