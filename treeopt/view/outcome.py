"""What a run comes to: token/s as predicted, replayed and measured, and the recommendation in a sentence."""

from collections.abc import Mapping
from typing import Any

from treeopt.search.choice import Choice
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.tree import Tree

PLAIN, HF_GENERATE = "plain", "hf_generate"
"""How `evaluation.json` calls plain decoding, by treeopt and by transformers."""


def figures(choice: Choice, judged: RankTable | None, evaluation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Predicted, replayed and measured token/s, those of both plain decoders, and the speedup over the faster one.

    `replayed` is tokens per step of the evaluated prompts, by replay, over the latency that was profiled: it shares
    its text with the measurement and its latency with the prediction. `measured` is decoding with the choice's own
    tree, one sequence at a time. Each is None where what it comes from is not there.
    """
    runs = measured_runs(evaluation)
    rates = {run["name"]: run["tokens_per_s"] for run in runs}
    own = [run for run in runs if Tree.from_choices(run["choices"]) == choice.tree]
    measured = own[0]["tokens_per_s"] if own and choice.batch == 1 else None
    fastest = max((rates[name] for name in (PLAIN, HF_GENERATE) if name in rates), default=None)
    accepted = None if judged is None else replay(judged, choice.tree).tokens_per_step
    return {
        "predicted": choice.tokens_per_s,
        "predicted_interval": choice.interval,
        "replayed": None if accepted is None else 1000 * accepted * choice.batch / choice.latency_ms,
        "measured": measured,
        "plain": rates.get(PLAIN),
        "hf_generate": rates.get(HF_GENERATE),
        "speedup": measured / fastest if measured is not None and fastest else None,
    }


def measured_runs(evaluation: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The runs of an evaluation that a clock was held to; those of a replay are not among them."""
    runs = () if evaluation is None else evaluation["runs"]
    return [run for run in runs if run.get("tokens_per_s") is not None]


def slower_than_plain(evaluation: Mapping[str, Any]) -> str | None:
    """A sentence where the fastest tree measured is slower than the fastest plain decoding; None where not."""
    rates = {run["name"]: run["tokens_per_s"] for run in measured_runs(evaluation)}
    plain = max((rates.pop(name) for name in (PLAIN, HF_GENERATE) if name in rates), default=0.0)
    best = max(rates, key=rates.__getitem__, default=None)
    if best is None or rates[best] >= plain:
        return None
    return (
        f"no tree measured is faster than plain decoding: {rates[best]:.1f} token/s with {best}, {plain:.1f} without a"
        " tree"
    )


def off_prediction(figures: Mapping[str, Any]) -> str | None:
    """A sentence where what was measured lies outside the predicted interval; None where not, or where not known."""
    measured, interval = figures["measured"], figures["predicted_interval"]
    if measured is None or not interval or interval[0] <= measured <= interval[1]:
        return None
    return (
        f"measured {measured:.1f} token/s, outside the predicted 95 % interval of {interval[0]:.1f} to"
        f" {interval[1]:.1f}"
    )


def figures_cells(figures: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows that show `figures`; those that are not known are left out."""
    low_high = figures["predicted_interval"]
    interval = f"{low_high[0]:.1f}-{low_high[1]:.1f}" if low_high else None
    rows = [
        ["predicted by the choice", figures["predicted"], interval],
        ["replayed tokens/step over profiled latency", figures["replayed"], None],
        ["measured", figures["measured"], None],
        ["plain decoding, treeopt", figures["plain"], None],
        ["plain decoding, transformers generate", figures["hf_generate"], None],
    ]
    return ["how fast", "token/s", "95 %"], [row for row in rows if row[1] is not None]


def recommendation(choice: Choice, figures: Mapping[str, Any]) -> str:
    """The recommendation in a sentence: what was measured has the last word."""
    where = f"at batch {choice.batch} and a context of about {choice.context} tokens"
    if choice.choices is None:
        machine = "by the hardware model" if choice.simulated else "on this machine"
        return f"Decode plainly: no tree of these heads is faster {machine}, {where}."
    if figures["speedup"] is None:
        how = "simulated, not measured" if choice.simulated else "not yet measured by decoding"
        return (
            f"Decode with the tree of {choice.tokens} tokens: predicted {choice.speedup:.2f}x plain decoding, {how},"
            f" {where}."
        )
    if figures["speedup"] <= 1:
        return (
            f"Decode plainly: the tree of {choice.tokens} tokens was chosen, but measured {figures['speedup']:.2f}x the"
            f" fastest plain decoding, {where}."
        )
    return (
        f"Decode with the tree of {choice.tokens} tokens: measured {figures['speedup']:.2f}x the fastest plain"
        f" decoding, {where}."
    )
