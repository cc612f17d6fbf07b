"""Runs in the shape of evaluation.json, without a clock: what trees accept, by replay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeopt.cli.stages.grow import derived
from treeopt.errors import InputError
from treeopt.search.rank_files import read_ranks
from treeopt.search.replay import Replay, replay_all, require_fits
from treeopt.tree import Tree

TIMING = tuple(
    field
    for name in ("latency_ms", "tokens_per_s", "overhead", "speedup")
    for field in (name, f"{name}_interval")
)
"""What only a clock can tell: the fields of `treeopt.measure.speed.Speed`, None without one."""


def replay_trees(ranks: Path, trees: Mapping[str, Tree], split: str) -> dict[str, Any]:
    """`runs` of all trees on one half of a rank table's answers; InputError where their text depends on a tree."""
    half = read_ranks(ranks).split(split)
    if half.provenance.get("acceptance") == "typical":
        raise InputError(
            f"{ranks}: of answers made with typical acceptance, whose text depends on the tree; replay does not apply"
        )
    for name, tree in trees.items():
        require_fits(half, tree, f"tree {name}")
    replays = replay_all(half, list(trees.values()))
    runs = [run_record(name, replayed) for name, replayed in zip(trees, replays, strict=True)]
    return {
        "kind": "evaluation",
        "runs": runs,
        "provenance": derived(half.provenance, split=split, replayed=True),
    }


def run_record(name: str, replayed: Replay, *, seed: int = 0) -> dict[str, Any]:
    """One run: its counts, their interval, acceptance by depth, and the same for each category; timing is None."""
    return {
        "name": name,
        "choices": replayed.tree.choices,
        "tokens": replayed.tree.size,
        "step_tokens": replayed.step_tokens,
        "ids": replayed.ids,
        **_measures(replayed, seed),
        "identical_to_plain": None,
        "divergences": None,
        "categories": {
            category: _measures(part, seed) for category, part in replayed.by_category().items() if part.steps
        },
    }


def _measures(replayed: Replay, seed: int) -> dict[str, Any]:
    low, high = replayed.interval(np.random.default_rng(seed))
    return {
        "steps": replayed.steps,
        "emitted": replayed.emitted,
        "tokens_per_step": replayed.tokens_per_step,
        "interval": [low, high],
        "acceptance": _acceptance(replayed),
        **dict.fromkeys(TIMING),
    }


def _acceptance(replayed: Replay) -> list[float | None]:
    """Of the steps that accepted all above depth 1, 2, ..., the share that accepted there; None where there is none."""
    reached, accepted = replayed.accepted_by_depth()
    return [
        there / above if above else None
        for above, there in zip(reached.tolist(), accepted.tolist(), strict=True)
    ]
