"""`medusa_choices.py` of FasterDecoding/Medusa (commit e2a5d20): `NAME = [(0,), (1,), (0, 0)]` lines."""

from collections.abc import Mapping
from typing import Any

from treeopt.export.format import REFUSED, WRONG, Case, Finding, Format, refused, wrong
from treeopt.export.limits import Limits
from treeopt.export.listing import python_line, read_python
from treeopt.tree import Path, Tree

TOP_K = 10
"""Guesses the runtime takes of each head."""


def render(tree: Tree, provenance: Mapping[str, Any], heads: int) -> dict[str, str]:
    """One line below its provenance."""
    return {"": python_line(tree, provenance)}


def read_past_the_guesses(path: Path, case: Case) -> list[Finding]:
    """All heads' guesses lie in one row, `top_k` a head, so that a higher rank reads those of the next head."""
    assert case.limits.max_rank is not None
    further, guess = divmod(path[-1], case.limits.max_rank + 1)
    head = len(path) + further
    if head > case.heads:
        return [Finding(REFUSED, path, f"index error: there is no guess {path[-1]} of head {len(path)}")]
    return [
        Finding(WRONG, path, f"takes guess {guess} of head {head} for guess {path[-1]} of head {len(path)}")
    ]


BEYOND = {
    "rank": read_past_the_guesses,
    "heads": refused("index error: there is no such head"),
    "orphan": refused("ValueError: its parent is not in list"),
    "duplicate": wrong("is listed twice, and takes two of the nodes"),
    "mixed": refused("TypeError: lists and tuples do not compare"),
    "dense": refused("TypeError: the old dense form is not read any more"),
    "empty": refused("ValueError: no path to take the longest of"),
}
"""What follows from the arithmetic that runtimes took over from this one."""

FORMAT = Format(
    name="medusa",
    versions="FasterDecoding/Medusa at e2a5d20",
    description="a line for its medusa_choices.py, batch 1",
    file_name="medusa_choices.py",
    limits=Limits(max_rank=TOP_K - 1, top_k=True),
    render=render,
    read=read_python,
    beyond=BEYOND,
    command="python llm_judge/gen_model_answer_medusa.py --model-path MODEL --model-id NAME"
    ' --medusa-choices "{choices}"',
)
