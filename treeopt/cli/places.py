"""Where commands write: over a file of the same kind, but never over what another command made."""

import re
from contextlib import suppress
from pathlib import Path

import click

MAKES = {
    "grow": "growth",
    "profile": "latency",
    "simulate": "latency",
    "choose": "choice",
    "evaluate": "evaluation",
}
"""The kind of artifact that a command's --output is; those of other commands are none."""

_BEGINNING = 4096
_KIND = re.compile(rb'\{\s*\\?"kind\\?":\s*\\?"(\w+)')
_ANSWER = re.compile(rb'^\{.*"prompt_ids":')


def kind_of(path: Path) -> str | None:
    """The kind of artifact that a file is, by its beginning; None for any other file, and for none."""
    from treeopt.artifact import MADE_BY

    beginning = b""
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    named = _KIND.search(beginning)
    if named and named[1].decode() in MADE_BY:
        return named[1].decode()
    return "generations" if _ANSWER.match(beginning) else None


def keeping_artifacts(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Callback of --output: wrong usage for a file that holds an artifact of another kind."""
    kind = kind_of(path) if path is not None and path.is_file() else None
    if kind is not None and kind != MAKES.get(str(ctx.info_name)):
        raise click.BadParameter(f"{path} is a {kind} file, which would be lost; name another", ctx, param)
    return path
