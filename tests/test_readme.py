"""README shows only commands, options and files that exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from treeopt.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELLS = ("console", "bash", "sh", "shell")


def code_blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of every fenced block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def typed_lines(language: str, content: str) -> list[str]:
    """What a reader types: in console blocks the lines after `$`, else every line; continued lines joined."""
    lines = re.sub(r"\\\n(> )?", " ", content).splitlines()
    if language == "console":
        return [line.removeprefix("$").strip() for line in lines if line.startswith("$")]
    return [line.strip() for line in lines if line.strip()]


def commands(text: str) -> list[list[str]]:
    """The words after `treeopt` wherever a shell would run it, be it in a chain, a pipe or a substitution."""
    found = []
    for language, content in code_blocks(text):
        for line in typed_lines(language, content) if language in SHELLS else []:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            for token in [*lexer, ";"]:
                if token and set(token) <= set("();<>|&"):
                    found += [words[words.index("treeopt") + 1 :]] if "treeopt" in words else []
                    words = []
                else:
                    words.append(token)
    return found


def complaints(arguments: list[str], command: click.Command) -> list[str]:
    """What is wrong with a command line, given the click command (or tree of commands) that would run it."""
    name, rest = "treeopt", list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            return [f"{name} has no command {rest[0]}"]
        command, name = found, f"{name} {rest.pop(0)}"
    if isinstance(command, click.Group) and not {"--help", "--version"} & {*rest}:
        return [f"{name} needs a command"]
    known = {"--help"}.union(*(param.opts + param.secondary_opts for param in command.params))
    shown = [word.split("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)]
    return [f"{name} has no option {option}" for option in shown if option not in known]


def tree_paths(text: str) -> list[str]:
    """The paths of the file tree: the block with a line for `treeopt/`, a path and its description a line.

    Two spaces of indentation put a path into the one above; `<name>` in a path stands for any name.
    """
    paths = []
    for _, content in code_blocks(text):
        if not re.search(r"^treeopt/(\s|$)", content, flags=re.MULTILINE):
            continue
        parents: list[str] = []
        for line in filter(str.strip, content.splitlines()):
            depth = (len(line) - len(line.lstrip())) // 2
            parents[depth:] = [line.split()[0].rstrip("/")]
            paths.append("/".join(parents))
    return paths


@pytest.mark.parametrize("arguments", commands(README), ids=" ".join)
def test_every_command_exists_with_the_options_shown(arguments):
    assert complaints(arguments, main) == []


@pytest.mark.parametrize("path", tree_paths(README))
def test_every_path_of_the_file_tree_exists(path):
    assert list(ROOT.glob(re.sub(r"<[^>]+>", "*", path)))


def test_the_readme_has_commands_and_a_file_tree():
    assert commands(README)
    assert tree_paths(README)


SAMPLE = """
```console
$ A=1 treeopt grow --size 3 \\
>     --nope | less   # treeopt comment --none
treeopt output --not-typed
$ pip install . && treeopt heads inspect FILE --json; echo $(treeopt shrink)
```
```bash
treeopt grow -s=4 -x -1
treeopt heads --json
```
```python
treeopt.grow("--anything")
```
```
treeopt/        the package
  tests/        not there
    a.py
results/<device>/   measured
```
"""


@click.group()
def sample() -> None:
    """Stands for the real tree of commands."""


@sample.command()
@click.option("-s", "--size")
def grow() -> None:
    """A command."""


@sample.group()
def heads() -> None:
    """A group in the group."""


@heads.command()
@click.argument("file")
@click.option("--json/--no-json")
def inspect() -> None:
    """A command of it."""


def test_the_checks_find_what_is_wrong():
    assert commands(SAMPLE) == [
        ["grow", "--size", "3", "--nope"],
        ["heads", "inspect", "FILE", "--json"],
        ["shrink"],
        ["grow", "-s=4", "-x", "-1"],
        ["heads", "--json"],
    ]
    assert [complaints(arguments, sample) for arguments in commands(SAMPLE)] == [
        ["treeopt grow has no option --nope"],
        [],
        ["treeopt has no command shrink"],
        ["treeopt grow has no option -x"],
        ["treeopt heads needs a command"],
    ]
    assert tree_paths(SAMPLE) == ["treeopt", "treeopt/tests", "treeopt/tests/a.py", "results/<device>"]
