"""Real decoding with trees beside plain decoding, as evaluation.json has it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from treeopt.artifact import load_arrays, provenance, read_json, require_match, sha256_file, write_json
from treeopt.cli.decoding import DEMO_PROMPTS, Decoding
from treeopt.cli.output import note, warn
from treeopt.cli.run import require_writable
from treeopt.cli.session import Session
from treeopt.cli.stages.replay import run_record
from treeopt.errors import InputError
from treeopt.measure.encode import EncodedPrompt
from treeopt.measure.evaluate import HF_GENERATE, PLAIN, Interrupted, Run, evaluate
from treeopt.measure.generations import Generation, read_generations, read_provenance
from treeopt.measure.speed import speed
from treeopt.search.replay import Replay
from treeopt.search.split import ALL, half_of
from treeopt.tree import ROOT, Tree
from treeopt.view.outcome import slower_than_plain


def make_evaluation(
    session: Session,
    trees: Mapping[str, Tree],
    decoding: Decoding,
    *,
    split: str = "evaluate",
    hf_generate: bool = True,
    output: Path | None = None,
    keep: bool = False,
) -> dict[str, Any]:
    """Decode one half of the prompts by every method, and write evaluation.json; its content.

    The bare root among `trees` is what plain decoding does, so it is not run twice. With `keep`, a file that
    already holds the same is read instead. MismatchError when the run's ranks are of another model or heads.
    """
    run, path = session.run, output or session.run.evaluation
    require_writable(path)
    trees = {name: tree for name, tree in trees.items() if tree != ROOT}
    origin = {**session.facts(heads=bool(trees)), **decoding.facts(), "split": split}
    own = _made_elsewhere(session, decoding)
    if own:
        origin["prompts_sha256"] = sha256_file(run.generations)
    if run.ranks.is_file():
        _compare_with_ranks(session, origin)
    if keep and path.is_file():
        content = read_json(path, "evaluation", ["runs"])
        if _is_same(content, origin, trees, hf_generate):
            note(f"evaluate: {path} is kept, it is of this model, these heads, trees and prompts")
            return content
    prompts = _own_prompts(own, split) if own else session.prompts(decoding, split)
    try:
        runs = evaluate(
            session.backbone,
            session.heads if trees else None,
            trees,
            prompts,
            max_new_tokens=decoding.max_new_tokens,
            rule=decoding.rule(),
            seed=decoding.seed,
            hf_generate=hf_generate,
        )
    except Interrupted as stop:
        _write_finished(path, stop.runs, origin, len(prompts))
    left_out = sum(1 + len(prompt.later) for prompt in prompts) - len(runs[0].prompts)
    if left_out:
        takes = f"{session.backbone.name} takes {session.backbone.context_limit} tokens"
        warn(f"evaluate: {left_out} prompts or later turns left out, as {takes}")
    content = {"runs": records(runs), "provenance": provenance(**origin, left_out=left_out or None)}
    write_json(path, content, "evaluation")
    return content


def _write_finished(path: Path, runs: Sequence[Run], origin: Mapping[str, Any], asked: int) -> NoReturn:
    """Write what Ctrl-C left, marked, and pass Ctrl-C on with what to say of it."""
    content = {"runs": records(runs), "provenance": provenance(**origin, interrupted=True)}
    write_json(path, content, "evaluation")
    raise KeyboardInterrupt(
        f"{path} has the {len({prompt.id for prompt in runs[0].prompts})} of {asked} prompts that were finished, and"
        " says so; the same command starts over"
    )


def _made_elsewhere(session: Session, decoding: Decoding) -> list[Generation]:
    """The run's answers, where they came without prompt file and settings, and no prompts were named either."""
    path = session.run.generations
    if decoding.prompts != DEMO_PROMPTS or not path.is_file() or read_provenance(path):
        return []
    backbone = session.backbone
    return read_generations(path, vocabulary=backbone.vocabulary, end_tokens=backbone.end_tokens)


def _own_prompts(answers: Sequence[Generation], split: str) -> list[EncodedPrompt]:
    """The prompts of one half as the answers have them, later turns behind what was said before."""
    chosen = [a for a in answers if split in (ALL, half_of(a.id))]
    if not chosen:
        raise InputError(f"no answer is in the {split} half of the prompts; add prompts, or take --split all")
    return [EncodedPrompt(a.id, a.category, tuple(a.prompt_ids), turn=a.turn) for a in chosen]


def records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Runs with counts, timing against plain decoding, and where their answers diverge from its."""
    plain = next(run for run in runs if run.name == PLAIN)
    return [_record(run, plain) for run in runs]


def _record(run: Run, plain: Run) -> dict[str, Any]:
    replayed = Replay.of_steps(
        run.tree,
        [answer.step_tokens for answer in run.answers],
        [prompt.id for prompt in run.prompts],
        [prompt.category for prompt in run.prompts],
    )
    record = run_record(run.name, replayed)
    for category, part in record["categories"].items():
        part |= _timing(run.of_category(category), plain.of_category(category))
    record |= _timing(run, plain)
    if not run.compared:
        return record | {"nan_nodes": sum(answer.nan_nodes for answer in run.answers)}
    return record | {
        "identical_to_plain": not run.divergences,
        "divergences": [asdict(found) | {"excused": found.excused} for found in run.divergences],
    }


def _timing(run: Run, plain: Run) -> dict[str, Any]:
    """The fields of a `Speed`; none where there is none, as they are None already."""
    measured = speed(run, plain)
    return {} if measured is None else asdict(measured)


def counted(content: Mapping[str, Any]) -> str:
    """How many answers an evaluation has, and to how many prompts."""
    ids = content["runs"][0]["ids"]
    prompts = f"{len(set(ids))} prompt{'s' if len(set(ids)) > 1 else ''}"
    return prompts if len(ids) == len(set(ids)) else f"{len(ids)} answers to {prompts}"


def report_divergences(content: Mapping[str, Any]) -> None:
    """A line for every run whose answers are not all plain decoding's: how many, the first, and the widest margin.

    A warning where rounding in float32 does not explain them. Runs of typical acceptance, whose texts are their own,
    have a warning where they met NaN.
    """
    dtype = content["provenance"]["dtype"]
    for run in content["runs"]:
        if run.get("nan_nodes"):
            warn(f"{run['name']}: {run['nan_nodes']} nodes rejected, as their logits held NaN")
        found = run["divergences"] or ()
        unexplained = [one for one in found if not one["excused"]]
        for first in (unexplained or found)[:1]:
            widest = max(one["margin"] for one in found)
            text = (
                f"{run['name']}: {len(found)} of {len(run['ids'])} answers differ from plain decoding, the first"
                f" {first['id']} at token {first['position']}, where the two best scores lie {first['margin']:.1e}"
                f" apart ({widest:.1e} at most)"
            )
            if not unexplained:
                note(f"{text}: rounding")
            elif dtype != "float32":
                note(f"{text}, in {dtype}")
            else:
                warn(f"{text}, which is more than float32 rounding explains")


def report_slower(content: Mapping[str, Any]) -> None:
    """A warning where no tree was faster than decoding without one."""
    if text := slower_than_plain(content):
        warn(text)


def _compare_with_ranks(session: Session, origin: Mapping[str, Any]) -> None:
    """Refuse other models and heads than calibrated; warn of another number format or other sampling."""
    path = session.run.ranks
    ranks = load_arrays(path, "ranks")[1].get("provenance", {})
    require_match(str(path), ranks, "the model and heads to evaluate", origin)
    for name in ("dtype", "temperature", "top_p", "top_k"):
        if name in ranks and ranks[name] != origin[name]:
            warn(f"{path}: calibrated with {name} {ranks[name]}, evaluated with {origin[name]}")


def _is_same(
    content: Mapping[str, Any], origin: Mapping[str, Any], trees: Mapping[str, Tree], hf_generate: bool
) -> bool:
    made = content.get("provenance", {})
    facts = {name: fact for name, fact in origin.items() if name not in ("asked", "prompt_file")}
    if made.get("interrupted") or any(made.get(name) != fact for name, fact in facts.items()):
        return False
    found = {run["name"]: Tree.from_choices(run["choices"]) for run in content["runs"]}
    others = {PLAIN: ROOT} | ({HF_GENERATE: ROOT} if hf_generate else {})
    return found == others | dict(trees)
