"""The choice for a run, from its own artifacts or from files named one by one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treeopt.artifact import sha256_file
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.grow import derived, from_table
from treeopt.errors import MismatchError
from treeopt.search.choose import Choice, choose, write_choice
from treeopt.search.grow import COVERAGE, Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.rank_files import read_ranks
from treeopt.search.ranks import RankTable


def make_choice(
    run: RunDirectory,
    *,
    ranks: Path | None = None,
    growth: Path | None = None,
    latency: Path | None = None,
    accuracy: str | None = None,
    cumulative: bool = False,
    contiguous: bool = False,
    split: str = "calibrate",
    output: Path | None = None,
    seed: int = 0,
) -> list[Choice]:
    """Choose at every batch and context of the latencies, and write choice.json.

    Growth comes from the bare table `accuracy`, read as `grow.from_table` does, else from a growth file. Tokens per
    step are replayed where there are ranks: those named, else the run's, which a bare table never meets, nor a growth
    for typical acceptance, whose own tokens per step are taken.
    """
    latency = latency or run.latency
    profile = LatencyProfile.read(latency)
    facts: dict[str, Any] = {"latency_sha256": sha256_file(latency)}
    if accuracy is not None:
        largest = int(profile.samples["tokens"].max())
        grown = from_table(accuracy, largest, cumulative=cumulative, contiguous=contiguous)
        half = read_ranks(ranks).split(split) if ranks else None
    else:
        path = growth or run.growth
        grown = Growth.read(path)
        facts["growth_sha256"] = sha256_file(path)
        if ranks is None and grown.estimator != COVERAGE and run.ranks.is_file():
            ranks = run.ranks
        half = _matching_ranks(ranks, grown, path, split)
    facts["estimator"] = grown.estimator
    if ranks is not None:
        facts |= {"ranks_sha256": sha256_file(ranks), "split": split}
    choices = choose(profile, grown, half, seed=seed)
    write_choice(output or run.choice, choices, derived(choices[0].provenance, **facts))
    return choices


def next_sizes(choices: Sequence[Choice]) -> list[int]:
    """Sizes that are worth timing next, over all settings."""
    return sorted({size for choice in choices for size in choice.next_sizes})


def _matching_ranks(ranks: Path | None, growth: Growth, path: Path, split: str) -> RankTable | None:
    """One half of the rank table; MismatchError where the growth is of another, or for typical acceptance."""
    if ranks is None:
        return None
    if growth.estimator == COVERAGE:
        raise MismatchError(
            f"{path}: grown for typical acceptance, to which replay does not apply; leave --ranks out"
        )
    grown_from = growth.provenance.get("ranks_sha256")
    if grown_from is not None and grown_from != sha256_file(ranks):
        raise MismatchError(
            f"{path} and {ranks} do not belong together: it was grown from other ranks; run `treeopt grow` again"
        )
    return read_ranks(ranks).split(split)
