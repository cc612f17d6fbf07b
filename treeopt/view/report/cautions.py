"""Everything that makes a run's result less than it seems, a sentence each, the gravest first."""

from collections.abc import Iterator

from treeopt.export import FORMATS
from treeopt.view.outcome import HF_GENERATE, PLAIN, off_prediction
from treeopt.view.report.contents import Contents

SOURCES = {
    "generations_sha256": "generations.jsonl",
    "ranks_sha256": "ranks.safetensors",
    "growth_sha256": "growth.json",
    "latency_sha256": "latency.json",
}
"""Which file a provenance means by each of these hashes."""

EVERYWHERE = (
    *("model_sha256", "heads_sha256", "template", "max_new_tokens"),
    *("acceptance", "temperature", "top_p", "top_k"),
)
"""Facts that are the same in all files of a run, where they are known."""

TIMED = ("latency.json", "evaluation.json")
BETWEEN = {"dtype": ("ranks.safetensors", "evaluation.json"), "device": TIMED, "platform": TIMED}
"""Facts that are the same in two files."""


def cautions(contents: Contents) -> list[str]:
    """All of them, none twice."""
    parts = (_stale, _mismatched, _predicted, _measured, _diverged, _fitted)
    found = [*contents.found, *(text for part in parts for text in part(contents))]
    return list(dict.fromkeys(found))


def _stale(contents: Contents) -> Iterator[str]:
    """Files made from others than those that lie here, and exports of another tree."""
    for made in contents.made.values():
        for key, file in SOURCES.items():
            source, meant = contents.made.get(file), made.provenance.get(key)
            if source is not None and made.file != file and meant not in (None, source.sha256):
                cause = f"made from another {file} than is here"
                yield f"{made.file} is out of date, {cause}; `{made.command}` makes it again"
    trees = [choice.tree for choice in contents.choices]
    for export in contents.exports:
        if trees and export.tree not in trees and not FORMATS[export.runtime].limits.chain:
            yield f"{export.file} does not hold the chosen tree: it was fitted to {export.runtime}, or is out of date"


def _mismatched(contents: Contents) -> Iterator[str]:
    """Facts in which two files differ that should not."""
    for key in (*EVERYWHERE, *BETWEEN):
        files = BETWEEN.get(key, tuple(contents.made))
        values: dict[str, list[str]] = {}
        for file in files:
            value = contents.made[file].provenance.get(key) if file in contents.made else None
            if value is not None:
                values.setdefault(str(value), []).append(file)
        if len(values) > 1:
            listed = "; ".join(f"{value:.24} in {', '.join(files)}" for value, files in values.items())
            yield f"not all of one kind: {key.removesuffix('_sha256').replace('_', ' ')} is {listed}"


def _predicted(contents: Contents) -> Iterator[str]:
    """What the choice itself says, and a hardware model in the place of a clock."""
    if contents.simulated and not contents.choices:
        yield "latencies are simulated, not measured: profile the real machine before relying on this"
    noted: dict[str, list[str]] = {}
    for choice in contents.choices:
        for text in choice.notes:
            noted.setdefault(text, []).append(f"batch {choice.batch}, context {choice.context}")
    for text, settings in noted.items():
        yield text if len(settings) == len(contents.choices) else f"{text} ({'; '.join(settings)})"
    sizes = sorted({size for choice in contents.choices for size in choice.next_sizes})
    if sizes:
        listed = ",".join(map(str, sizes))
        yield f"some trees were not timed and may be faster; `treeopt profile --sizes {listed}` times them"
    if contents.growth is not None and contents.growth.stopped:
        yield f"growth {contents.growth.stopped}"


def _measured(contents: Contents) -> Iterator[str]:
    """Prediction against the clock."""
    choice, figures = contents.choice, contents.figures
    if choice is None:
        return
    if contents.evaluation is None:
        yield "nothing was decoded: every speed here is a prediction; `treeopt evaluate` measures"
        return
    measured = figures["measured"]
    if measured is None and choice.batch == 1:
        yield "the chosen tree was not decoded with: its speed is a prediction; `treeopt evaluate` measures"
    if any(c.batch > 1 for c in contents.choices):
        yield "decoding was measured one sequence at a time: speeds of larger batches are predictions"
    if text := off_prediction(figures):
        yield text
    for key, name in ((PLAIN, "treeopt"), (HF_GENERATE, "transformers generate")):
        plain = figures[key]
        if choice.choices is not None and measured is not None and plain is not None and plain >= measured:
            yield f"plain decoding by {name} is at least as fast: {plain:.1f} token/s against the tree's {measured:.1f}"
    if contents.evaluation["provenance"].get("interrupted"):
        yield "`treeopt evaluate` was interrupted: only the prompts that it had finished are here"
    split = contents.evaluation["provenance"].get("split", "evaluate")
    if split != "evaluate":
        yield f"decoded on the prompts of --split {split}, which the tree was fitted to"


def _diverged(contents: Contents) -> Iterator[str]:
    """Answers that are not plain decoding's, and why that may be."""
    if contents.evaluation is None:
        return
    dtype = contents.evaluation["provenance"].get("dtype", "an unknown number format")
    for run in contents.evaluation["runs"]:
        if run.get("nan_nodes"):
            yield f"{run['name']}: {run['nan_nodes']} nodes were rejected, as their logits held NaN"
        beyond = [found for found in run.get("divergences") or () if not found.get("excused")]
        if beyond:
            first = beyond[0]
            yield (
                f"{run['name']}: {len(beyond)} answers are not plain decoding's in {dtype}, the first is"
                f" {first.get('id')} at token {first.get('position')}, where the two best scores lie"
                f" {first.get('margin', 0):.1e} apart"
            )


def _fitted(contents: Contents) -> Iterator[str]:
    """How much the accuracies rest on."""
    few = contents.accuracy.few_trials() if contents.accuracy is not None else []
    if few:
        yield f"head {', '.join(map(str, few))}: accuracies of less than 200 positions; more prompts would tell"
    if contents.ranks is not None and contents.judged is None:
        yield "no replay of prompts that nothing was fitted to"
