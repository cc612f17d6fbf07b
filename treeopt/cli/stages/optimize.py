"""The whole way through, and prediction beside measurement at its end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from treeopt.artifact import sha256_file
from treeopt.cli.decoding import Decoding
from treeopt.cli.growing import PUBLISHED, Growing
from treeopt.cli.output import note
from treeopt.cli.run import RunDirectory
from treeopt.cli.session import Session
from treeopt.cli.stages.calibrate import changed, ensure_ranks, summary
from treeopt.cli.stages.choose import make_choice
from treeopt.cli.stages.evaluate import make_evaluation
from treeopt.cli.stages.export import export_tree
from treeopt.cli.stages.fit import growth_limits
from treeopt.cli.stages.generate import discard_generations
from treeopt.cli.stages.grow import from_ranks
from treeopt.cli.stages.profile import make_profile, usual_context
from treeopt.cli.stages.report import make_report
from treeopt.export.format import Format
from treeopt.search.choose import Choice
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.view.outcome import figures


@dataclass(frozen=True)
class Outcome:
    """What `optimize` found: the choice, runtimes' files, the report, the evaluation, and its figures in token/s."""

    choice: Choice
    files: list[Path]
    report: Path
    evaluation: dict[str, Any]
    figures: dict[str, Any]


def optimize(
    session: Session,
    decoding: Decoding,
    formats: Sequence[Format],
    *,
    width: int = 16,
    batch_size: int = 16,
    repeats: int = 30,
    seed: int = 0,
    growing: Growing = PUBLISHED,
) -> Outcome:
    """Generate, calibrate, profile, grow, choose, export and evaluate; what the run has and still holds is kept.

    Growth goes to the largest profiled size, under the limits of all `formats`.
    """
    run = session.run
    table, answers = ensure_ranks(
        session, decoding, width=width, split="calibrate", batch_size=batch_size, keep=True
    )
    fitted, judged = table.split("calibrate"), table.split("evaluate")  # a half without prompts shows now
    summary(fitted, answers)  # for its warnings
    profile = _profile(session, repeats, seed)
    _grow(run, int(profile.samples["tokens"].max()), formats, growing)
    choices = make_choice(run, seed=seed)
    choice = next(c for c in choices if (c.batch, c.context) == (1, usual_context(run)))
    source = f"{run.choice}:batch1-context{choice.context}" if len(choices) > 1 else str(run.choice)
    files = [file for format in formats for file in _export(run, source, choice, format)]
    tree = {f"tree_{choice.tokens}": choice.tree}
    evaluation = make_evaluation(session, tree, decoding, keep=True)
    report = make_report(run).file
    return Outcome(choice, files, report, evaluation, figures(choice, judged, evaluation))


def start_over(run: RunDirectory) -> None:
    """Remove what `optimize` makes from the run; trained heads stay."""
    discard_generations(run)
    made = (
        run.ranks,
        run.partial_ranks,
        run.accuracy,
        run.growth,
        run.latency,
        run.choice,
        run.evaluation,
        run.report,
    )
    for path in made:
        path.unlink(missing_ok=True)


def _profile(session: Session, repeats: int, seed: int) -> LatencyProfile:
    run = session.run
    setting = (1, usual_context(run))
    if run.latency.is_file():
        profile = LatencyProfile.read(run.latency)
        same = ("model_sha256", "heads_sha256", "dtype", "device")
        if setting in profile.settings() and not changed(profile.provenance, session.facts(), same):
            note(f"profile: {run.latency} is kept, it is of this model, these heads and this device")
            return profile
    return make_profile(session, batches=(1,), contexts=(setting[1],), repeats=repeats, seed=seed)


def _grow(run: RunDirectory, budget: int, formats: Sequence[Format], growing: Growing) -> None:
    limits = growth_limits(formats, growing)
    wanted = {"ranks_sha256": sha256_file(run.ranks), "budget": budget} | limits
    wanted |= asdict(growing)
    if run.growth.is_file() and not changed(dict(Growth.read(run.growth).provenance), wanted, list(wanted)):
        note(f"grow: {run.growth} is kept, it is of these ranks, {growing.estimator} and of {budget} tokens")
        return
    from_ranks(run.ranks, budget, growing=growing, **limits).write(run.growth)


def _export(run: RunDirectory, source: str, choice: Choice, format: Format) -> list[Path]:
    if choice.choices is None and not format.limits.bare_root:
        note(f"export: {format.name} has no file for plain decoding, so none is written")
        return []
    return export_tree(run, source, format, None).files
