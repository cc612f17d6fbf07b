"""Latency of decoding steps for a run, at the contexts that its answers have."""

from collections.abc import Sequence
from dataclasses import asdict, fields

from treeopt.artifact import load_arrays, provenance, require_match
from treeopt.cli.output import note, warn
from treeopt.cli.run import RunDirectory, require_writable
from treeopt.cli.session import Session
from treeopt.decode import Sampled
from treeopt.measure.generations import read_generations, read_provenance
from treeopt.measure.profile import SIZES, profile
from treeopt.search.latency import LatencyProfile

CONTEXT = 128
"""Context where there are no answers to tell one."""


def usual_context(run: RunDirectory) -> int:
    """Tokens in the cache before a plain step, on average over the answers' tokens; CONTEXT where there are none."""
    if not run.generations.is_file():
        return CONTEXT
    answers = read_generations(run.generations)
    lengths = [(len(answer.prompt_ids), len(answer.answer_ids)) for answer in answers]
    cached = sum(n * prompt + n * (n - 1) // 2 for prompt, n in lengths)
    return round(cached / sum(n for _, n in lengths))


def make_profile(
    session: Session,
    *,
    batches: Sequence[int] = (),
    contexts: Sequence[int] = (),
    sizes: Sequence[int] = (),
    repeats: int = 30,
    seed: int = 0,
) -> LatencyProfile:
    """Time the run's model, sampling as its answers do, and write latency.json.

    With `sizes`, only these and plain decoding are timed, and added to what is there.

    Batches and contexts default to those already timed when sizes are added, else to 1 and the usual context.
    MismatchError when the run's ranks or samples are of another model or heads.
    """
    run = session.run
    require_writable(run.latency)
    asked = read_provenance(run.generations)
    rule = Sampled(**{field.name: asked[field.name] for field in fields(Sampled) if field.name in asked})
    origin = provenance(**session.facts(), repeats=repeats, **asdict(rule))
    _require_same_ranks(session)
    before = LatencyProfile.read(run.latency) if sizes and run.latency.is_file() else None
    if before is not None:
        before.merge(
            LatencyProfile.from_rows([], provenance=origin)
        )  # a mismatch shows before hours of timing
        timed = list(zip(*before.settings(), strict=True)) or [(), ()]
        batches, contexts = batches or sorted(set(timed[0])), contexts or sorted(set(timed[1]))
    contexts = contexts or (usual_context(run),)
    note(f"profile: batch {_listed(batches or (1,))}, context {_listed(contexts)}")
    rows = profile(
        session.backbone,
        session.heads,
        batches=batches or (1,),
        contexts=contexts,
        sizes=sorted({1, *sizes}) if sizes else SIZES,
        repeats=repeats,
        refine=not sizes,
        rule=rule,
        seed=seed,
    )
    made = LatencyProfile.from_rows(rows, provenance=origin)
    made = made if before is None else before.merge(made)
    made.write(run.latency)
    return made


def _require_same_ranks(session: Session) -> None:
    run = session.run
    if not run.ranks.is_file():
        return
    ranks = load_arrays(run.ranks, "ranks")[1].get("provenance", {})
    require_match(str(run.ranks), ranks, "the model and heads to profile", session.facts())
    if ranks.get("dtype", session.backbone.dtype_name) != session.backbone.dtype_name:
        warn(f"{run.ranks}: calibrated in {ranks['dtype']}, profiled in {session.backbone.dtype_name}")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
