"""Results to stdout; notes, warnings and progress to stderr."""

from collections.abc import Callable
from typing import Any

import click

from treeopt.view.printable import printable


def note(text: str) -> None:
    """Something to know on the way."""
    click.echo(printable(text), err=True)


def warn(text: str) -> None:
    """Something that makes the result less than it seems."""
    click.echo(printable(f"warning: {text}"), err=True)


def show(as_json: bool, content: Any, text: Callable[[], str], following: str) -> None:
    """Print a result: `content` as JSON and nothing else, or `text()` and the command to type next."""
    from treeopt.artifact import format_json

    if as_json:
        click.echo(format_json(content), nl=False)
        return
    click.echo(printable(f"{text()}\n\nnext: {following}"))
