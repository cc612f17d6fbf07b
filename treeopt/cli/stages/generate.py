"""The run's answers, made where they are missing."""

from treeopt.cli.decoding import Decoding, require_unchanged
from treeopt.cli.output import note, warn
from treeopt.cli.run import RunDirectory
from treeopt.cli.session import Session
from treeopt.errors import InputError, MismatchError
from treeopt.measure.generate import generate
from treeopt.measure.generations import Generation, meta_path, read_generations, read_provenance


def ensure_generations(
    session: Session, decoding: Decoding, *, batch_size: int = 16, required: bool = False
) -> list[Generation]:
    """All answers of the run, after making those that are missing.

    A file made elsewhere, which has no provenance beside it, is taken as it is; with `required`, when making
    answers is what was asked for, it is refused. MismatchError for answers of another model, or made with other
    settings; InputError for typical acceptance.
    """
    rule = decoding.sampling()
    path, backbone = session.run.generations, session.backbone
    if path.is_file() and not read_provenance(path):
        if required:
            raise InputError(f"{path}: was made elsewhere; name another --run, or replace it with --fresh")
        note(f"generate: {path} was made elsewhere and is taken as it is")
        return read_generations(path, vocabulary=backbone.vocabulary, end_tokens=backbone.end_tokens)
    facts = decoding.facts()
    if path.is_file():
        made = read_provenance(path)
        wanted = {name: fact for name, fact in facts.items() if name != "prompt_file"}
        require_unchanged(path, made, {"model_sha256": backbone.sha256} | wanted)
        if made.get("dtype") != backbone.dtype_name:
            warn(f"{path}: answers of {made.get('dtype')}, now {backbone.dtype_name}; the texts may differ")
    else:
        meta_path(path).unlink(missing_ok=True)
    apart = {name: facts[name] for name in ("template", "turns", "prompt_file", "prompts_sha256")}
    prompts = session.prompts(decoding)
    before = path.stat().st_size if path.is_file() else None
    answers = generate(
        backbone,
        prompts,
        path,
        max_new_tokens=decoding.max_new_tokens,
        rule=rule,
        seed=decoding.seed,
        batch_size=batch_size,
        **apart,
        **session.versions(),
    )
    left_out = sum(1 + len(prompt.later) for prompt in prompts) - len(answers)
    if left_out:
        room = f"{backbone.name} takes {backbone.context_limit} tokens"
        if not answers:
            raise InputError(f"{decoding.prompts}: no prompt leaves room for an answer; {room}")
        warn(f"generate: {left_out} prompts or later turns left out, as {room}")
    if path.stat().st_size == before:
        note(f"generate: {path} is kept, all {len(answers)} answers are there")
    return answers


def require_own(session: Session) -> None:
    """MismatchError when the run's answers are another model's: even --fresh does not replace those."""
    path = session.run.generations
    made = read_provenance(path).get("model_sha256") if path.is_file() else None
    if made not in (None, session.backbone.sha256):
        raise MismatchError(
            f"{path}: answers of another model than {session.backbone.name}; name another --run, or delete them"
        )


def discard_generations(run: RunDirectory) -> None:
    """Forget the run's answers, for --fresh."""
    for path in (run.generations, meta_path(run.generations)):
        path.unlink(missing_ok=True)
