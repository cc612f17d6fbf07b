"""Results as text, from the content that --json prints or from artifacts. Loads no torch."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from treeopt.search.choice import Choice
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.view.outcome import figures_cells, recommendation
from treeopt.view.tables import curve_table, latency_cells, table
from treeopt.view.tree import draw

FITS = {
    "fitted": "fitted",
    "held_out_sizes": "sizes left out of the fit",
    "held_out_settings": "batches and contexts left out of the fit",
}
"""What a fit was tried on, as `latency.json` and a reader call it."""


def calibration_text(summary: Mapping[str, Any]) -> str:
    """Trials, top-1 and top-5 of each head, and how much the answers repeat themselves."""
    heads = [
        [str(head["head"]), head["trials"], _share(head["top1"]), _share(head["top5"])]
        for head in summary["heads"]
    ]
    repeated = [[category, f"{share:.2f}"] for category, share in summary["repetition"].items()]
    return "\n\n".join(
        [
            table(["head", "trials", "top-1 (95 %)", "top-5 (95 %)"], heads),
            table(["category", "repeated 4-grams (median)"], repeated),
        ]
    )


def growth_text(growth: Growth) -> str:
    """Expected tokens per step at sizes that double, and at the last."""
    sizes = sorted({*(2**power for power in range(growth.size.bit_length())), growth.size})
    rows = [
        [
            str(size),
            growth.tree(size).depth,
            growth.tree(size).max_rank,
            float(growth.tokens_per_step[size - 1]),
        ]
        for size in sizes
    ]
    return table(["N", "depth", "highest rank", "tokens/step"], rows)


def latency_text(profile: LatencyProfile) -> str:
    """Median, quartiles and overhead of every size at every batch and context."""
    timed = table(*latency_cells(profile))
    return "\n\n".join([_simulated(profile), timed]) if profile.simulated else timed


def simulation_text(profile: LatencyProfile) -> str:
    """Plain decoding and the overhead of sizes that double, at every batch and context; how good a fit is."""
    rows: list[list[object]] = []
    shown = sorted({2**power for power in range(1, int(profile.samples["tokens"].max()).bit_length())})
    for batch, context in profile.settings():
        plain, sizes = profile.plain_ms(batch, context), profile.sizes(batch, context)
        overheads = [profile.median(batch, context, n) / plain if n in sizes else None for n in shown]
        rows.append([str(batch), context, plain, *overheads])
    found = profile.provenance.get("fit", {})
    lines = [
        f"{label}: {found[name]['count']} latencies, off by {found[name]['median']:.1%} (median),"
        f" {found[name]['largest']:.1%} at most"
        for name, label in FITS.items()
        if name in found
    ]
    heads = ["batch", "context", "plain ms", *(f"N = {n}" for n in shown)]
    return "\n\n".join(filter(None, [_simulated(profile), table(heads, rows), "\n".join(lines)]))


def _simulated(profile: LatencyProfile) -> str:
    facts = profile.provenance
    start = "fitted from" if "fit" in facts else "on"
    named = f": {facts['shape']} {start} {facts['gpu']}" if {"shape", "gpu"} <= facts.keys() else ""
    return f"simulated, not measured{named}"


def passes_text(content: Mapping[str, Any]) -> str:
    """What a pass table holds, in a sentence."""
    low, high = content["interval"]
    return (
        f"{content['steps']:,} steps of {content['prompts']} prompts with {content['tokens']} nodes:"
        f" {content['tokens_per_step']:.3f} tokens per step (95 %: {low:.3f} to {high:.3f})"
    )


def choice_text(choices: Iterable[Choice]) -> str:
    """The whole curve of each setting, its notes, and the answer in a sentence."""
    parts = []
    for choice in choices:
        notes = [f"note: {text}" for text in choice.notes]
        parts.append("\n".join([curve_table(choice), *notes, sentence(choice)]))
    return "\n\n".join(parts)


def sentence(choice: Choice) -> str:
    """The recommendation, as predicted."""
    where = f"batch {choice.batch}, context {choice.context}"
    if choice.choices is None:
        return f"{where}: no tree; plain decoding is the fastest, {choice.plain.tokens_per_s:.1f} token/s"
    interval = choice.interval
    between = f" (95 %: {interval[0]:.1f} to {interval[1]:.1f})" if interval else ""
    return (
        f"{where}: the tree of {choice.tokens} tokens, {choice.tokens_per_s:.1f} token/s{between},"
        f" {choice.speedup:.2f}x plain decoding's {choice.plain.tokens_per_s:.1f}"
    )


def growth_drawing(growth: Growth) -> str:
    """The whole tree with the values of its nodes."""
    return draw(growth.tree(growth.size), dict(zip(growth.paths, growth.values, strict=True)))


def outcome_text(choice: Choice, files: Sequence[Path], report: Path, figures: Mapping[str, Any]) -> str:
    """What `optimize` found: prediction beside measurement, the recommendation in a sentence, files and report."""
    speedup = f"speedup of the measured over the fastest plain decoding: {figures['speedup']:.3f}"
    compared = f"{table(*figures_cells(figures))}\n{speedup}"
    listed = [f"choices file: {file}" for file in files if not file.name.endswith(".meta.json")]
    written = "\n".join([*listed, f"report: {report}"])
    return "\n\n".join([compared, recommendation(choice, figures), written])


def _share(cell: Mapping[str, float]) -> str:
    return f"{cell['value']:.3f} ({cell['low']:.3f}-{cell['high']:.3f})"
