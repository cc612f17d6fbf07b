"""How trees grow: which estimator values their paths, and from which rows."""

from dataclasses import dataclass

import click

from treeopt.cli.parameters import gathered

ESTIMATORS = ("independent", "joint", "shrunk")
"""Those of `treeopt.search.estimate`, which is not loaded to show the options."""


@dataclass(frozen=True)
class Growing:
    """The estimator's name, and whether it counts only the rows that decoding with the tree visits."""

    estimator: str = ESTIMATORS[0]
    on_policy: bool = False


PUBLISHED = Growing()
"""The published algorithm, which alone a table of accuracies knows."""

growing_options = gathered(
    "growing",
    Growing,
    [
        click.option(
            "--estimator",
            type=click.Choice(ESTIMATORS),
            default=PUBLISHED.estimator,
            show_default=True,
            help="What a path is worth: the product of head accuracies, as published; how often ranks follow it; or"
            " that, drawn towards the product where it was seen too rarely.",
        ),
        click.option(
            "--on-policy", is_flag=True, help="Count only rows that decoding with the tree visits, in rounds."
        ),
    ],
)
