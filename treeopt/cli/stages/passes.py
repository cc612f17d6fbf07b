"""What typical acceptance would accept of a large tree, recorded while the run's prompts are answered with it."""

from treeopt.artifact import load_arrays, require_match, sha256_file
from treeopt.cli.decoding import DEMO_PROMPTS, Decoding
from treeopt.cli.session import Session
from treeopt.cli.stages.grow import from_ranks
from treeopt.decode import Typical
from treeopt.errors import InputError
from treeopt.measure.passes import record_passes
from treeopt.search.coverage import PassTable


def make_passes(
    session: Session, decoding: Decoding, *, budget: int, split: str, at_most: int | None = None
) -> PassTable:
    """Passes of the `budget` nodes that the run's ranks value most, over one half of the prompts, or its first ones.

    The nodes are those of the calibrate half's ranks whatever the half, so that tables of both halves compare.

    Errors: InputError where the run has no ranks, or does not say which prompts it is of; MismatchError where the
    ranks are of another model or heads.
    """
    rule, ranks = decoding.rule(), session.run.ranks
    assert isinstance(rule, Typical)
    if decoding.prompts == DEMO_PROMPTS and not session.source.is_demo:
        raise InputError(f"{session.run}: does not say which prompts it is of; name them with --prompts")
    made = load_arrays(ranks, "ranks")[1].get("provenance", {})
    require_match(str(ranks), made, "the model and heads", session.facts())
    growth = from_ranks(ranks, budget)
    return record_passes(
        session.backbone,
        session.heads,
        growth.tree(growth.size),
        session.prompts(decoding, split)[:at_most],
        rule=rule,
        ranks_sha256=sha256_file(ranks),
        split=split,
        **decoding.facts(),  # max_new_tokens among them
        **session.versions(),
    )
