"""What a runtime would do with a list of choices: read it right, refuse it, or go silently wrong."""

from dataclasses import dataclass, replace

from treeopt.export.format import REFUSED, WRONG, Case, Finding, Format
from treeopt.export.limits import breaches
from treeopt.export.listing import Listing
from treeopt.tree import Path

FINE = "fine"
WORST = (WRONG, REFUSED, FINE)


@dataclass(frozen=True)
class Verdict:
    """The outcome, FINE, REFUSED or WRONG, and what it follows from: the first path of each kind."""

    outcome: str
    findings: tuple[Finding, ...]


def check(format: Format, listing: Listing, heads: int, top_k: int | None = None) -> Verdict:
    """The runtime's behaviour with the choices as listed, and a model of so many heads.

    A reader that refuses does not go on to be wrong; of several readers the worst counts. `top_k`, guesses that the
    runtime is set to take of each head, moves the limits of runtimes that have such a setting. InputError for what
    no runtime could take for choices: entries that are no lists of ranks.
    """
    if listing.dense and "dense" in format.beyond:
        listing.tree()  # which says what is wrong with it
        return _verdict(format, format.beyond["dense"]((), Case((), format.limits, heads)))
    limits = format.limits
    if top_k is not None and limits.top_k:
        limits = replace(limits, max_rank=top_k - 1)
    closed = listing.tree(close=True).choices
    given = closed if listing.dense else [tuple(path) for path in listing.paths]
    listed = set(given)
    case = Case(tuple(path for path in closed if path in listed), limits, heads)
    findings = _of_the_list(format, listing, given, case)
    unnamed = set()
    for breach in breaches(case.paths, limits, heads):
        if breach.rule in format.beyond:
            findings += format.beyond[breach.rule](breach.path, case)
        elif breach.rule not in unnamed:
            unnamed.add(breach.rule)
            findings.append(Finding(REFUSED, breach.path, breach.what))
    return _verdict(format, findings)


def _of_the_list(
    format: Format, listing: Listing, given: "list[Path] | tuple[Path, ...]", case: Case
) -> list[Finding]:
    """What a Tree cannot have, but a list can."""
    found: dict[str, list[Path]] = {
        "duplicate": sorted({path for path in given if given.count(path) > 1}),
        "orphan": [path for path in case.paths if path[:-1] not in {(), *case.paths}],
        "mixed": [()] if len({type(entry) for entry in listing.paths}) > 1 else [],
    }
    return [
        finding
        for rule, paths in found.items()
        for path in paths
        for finding in (format.beyond[rule](path, case) if rule in format.beyond else [])
    ]


def _verdict(format: Format, findings: list[Finding]) -> Verdict:
    outcomes = []
    for reader in format.readers:
        own = {finding.outcome for finding in findings if finding.reader in ("", reader)}
        outcomes.append(REFUSED if REFUSED in own else WRONG if WRONG in own else FINE)
    kinds: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        kinds.setdefault((finding.outcome, finding.reader, finding.why), finding)
    return Verdict(min(outcomes, key=WORST.index), tuple(kinds.values()))
