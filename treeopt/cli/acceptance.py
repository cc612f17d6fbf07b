"""Which drafts are accepted and how tokens are drawn: the options, and what they mean together."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import click

from treeopt.cli.parameters import Decorator, finite

TYPICAL_EPSILON = 0.09
"""The reference implementation's; its delta, .3, is the square root."""

SHARE = click.FloatRange(min=0, max=1, min_open=True)

DRAWING: tuple[Decorator, ...] = (
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        callback=finite,
        help="0 is greedy, above samples with noise keyed by position.  [default: the run's, then 0]",
    ),
    click.option(
        "--top-p",
        type=SHARE,
        callback=finite,
        help="Sample from the best tokens of this mass.  [default: the run's, then 1]",
    ),
    click.option(
        "--top-k",
        type=click.IntRange(min=0),
        help="Sample from so many best tokens, 0 for all.  [default: the run's, then 0]",
    ),
)
"""How the model's own text is drawn."""

ACCEPTANCE: tuple[Decorator, ...] = (
    click.option(
        "--acceptance",
        type=click.Choice(["greedy", "sampled", "typical"]),
        help="Which drafts are kept; typical changes the text.  [default: by --temperature]",
    ),
    click.option(
        "--epsilon",
        type=SHARE,
        callback=finite,
        help=f"Typical acceptance: a probability that is always enough.  [default: {TYPICAL_EPSILON}]",
    ),
    click.option(
        "--delta",
        type=click.FloatRange(min=0, min_open=True),
        callback=finite,
        help="Typical acceptance: enough beside exp(-entropy).  [default: the square root of epsilon]",
    ),
)
"""What is accepted of drafts: for commands that accept by more than the model's own text."""


def settled(typed: Mapping[str, Any], temperature: float) -> dict[str, Any]:
    """The settings that others follow from, by name, given those typed and the temperature to use.

    Filters are left to sampling, epsilon and delta to typical acceptance. Errors: UsageError for options that do not
    go together.
    """
    asked = typed.get("acceptance")
    if asked == "greedy":
        if typed.get("temperature"):
            raise click.UsageError("--acceptance greedy is --temperature 0; leave one of them out")
        temperature = 0.0
    if asked == "sampled" and temperature == 0:
        raise click.UsageError("--acceptance sampled needs a --temperature above 0")
    kind = "typical" if asked == "typical" else "sampled" if temperature > 0 else "greedy"
    for users, names in (("sampled", ("top_p", "top_k")), ("typical", ("epsilon", "delta"))):
        given = next((name for name in names if name in typed), None)
        if given and kind != users:
            option = f"--{given.replace('_', '-')}"
            raise click.UsageError(f"{option} is for {users} acceptance, but this is {kind}")
    found: dict[str, Any] = {"acceptance": kind, "temperature": temperature, "epsilon": None, "delta": None}
    if kind != "sampled":
        found |= {"top_p": 1.0, "top_k": 0}
    if kind == "typical":
        epsilon = typed.get("epsilon", TYPICAL_EPSILON)
        found |= {"epsilon": epsilon, "delta": typed.get("delta", sqrt(epsilon))}
    return found
