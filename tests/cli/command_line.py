"""Typing command lines, and reading what they say."""

import json
import shlex
from pathlib import Path

from click.testing import CliRunner, Result

from treeopt.cli import main

WORDS = "open list print while return value index total number other".split()


def run_cli(*arguments: object) -> Result:
    """A command line, whatever its end."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="treeopt")


def succeed(*arguments: object) -> Result:
    """A command line that ends well and says no traceback."""
    result = run_cli(*arguments)
    assert result.exit_code == 0, (arguments, result.stderr, result.exception)
    return result


def fail(*arguments: object, status: int = 1) -> str:
    """The one line that a command line fails with."""
    result = run_cli(*arguments)
    assert result.exit_code == status, (arguments, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    lines = [line for line in result.stderr.splitlines() if not line.startswith(("profile:", "warning:"))]
    assert len(lines) == 1, result.stderr
    assert result.stdout == ""
    return lines[0]


def following(result) -> list[str]:
    """The words of the command that a result ends with."""
    last = result.stdout.rstrip().splitlines()[-1]
    assert last.startswith("next: treeopt ")
    return shlex.split(last.removeprefix("next: treeopt "))


def filled_in(words: list[str], file: Path) -> list[str]:
    """A line with the file that a user would name in the place of FILE."""
    assert "FILE" in words
    return [str(file) if word == "FILE" else word for word in words]


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def prompt_rows(count: int = 20) -> list[dict]:
    return [
        {
            "id": f"p{i}",
            "category": ("words", "sums")[i % 2],
            "prompt": f"{WORDS[i % 10]} {i} {WORDS[i // 2 % 10]}",
        }
        for i in range(count)
    ]
