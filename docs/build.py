"""Write the generated parts of the pages in docs/: `python docs/build.py`.

Such a part stands between `<!-- build: NAME ARGUMENTS -->` and `<!-- built -->`. Commands are described from their
docstrings and options, runtimes from their modules, and sessions are run on the reference results of the demo.
`tests/docs/test_docs.py` fails where a page and this script disagree.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from treeopt.cli import main as treeopt
from treeopt.export import FORMATS
from treeopt.export.check import FINE, check
from treeopt.export.format import Format
from treeopt.export.limits import HEADINGS
from treeopt.export.listing import Listing
from treeopt.export.read import read_trees
from treeopt.model.layouts import LAYOUTS
from treeopt.tree import chain

DOCS = Path(__file__).parent
ROOT = DOCS.parent
REFERENCE = ROOT / "results" / "reference" / "cpu" / "demo"

COMMON = 4
"""So many commands have an option before it is described in one place for all."""

HEADS = 4
"""Of the model that runtimes are said to have in tables of what they do."""

DEMO_HEADS = 5
"""Of the bundled model."""

PART = re.compile(r"(<!-- build: ([^>]+?) -->\n).*?(<!-- built -->)", re.DOTALL)


def build(text: str) -> str:
    """A page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        name, *arguments = match[2].split()
        return f"{match[1]}\n{PARTS[name](*arguments)}\n\n{match[3]}"

    return PART.sub(part, text)


def leaves(group: click.Group = treeopt, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path}{name} ")
        elif command is not None:
            yield f"{path}{name}", command


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


Option = tuple[str, str]
"""How an option is written, and what it does."""


def options(command: click.Command) -> list[Option]:
    """All options of a command but --help."""
    return [_option(param) for param in command.params if isinstance(param, click.Option)]


def _option(param: click.Option) -> Option:
    value = param.metavar or ("" if param.is_flag else _values(param.type))
    names = ", ".join(f"`{name} {value}".rstrip() + "`" for name in [*param.opts, *param.secondary_opts])
    default = param.default if param.show_default is True and not param.is_flag else None
    said = f"{param.help} Default: {default}." if default is not None else str(param.help)
    return names, re.sub(r"\s+\[default: (.*)\]$", r" Default: \1.", said)


def _values(kind: Any) -> str:
    """What a value of an option may be."""
    return "|".join(kind.choices) if isinstance(kind, click.Choice) else str(kind.name).split()[0].upper()


@cache
def _common() -> dict[Option, int]:
    """The options that many commands have, all with the same words."""
    seen = Counter(option for _, command in leaves() for option in options(command))
    return {option: count for option, count in seen.items() if count >= COMMON}


def command_part(*words: str) -> str:
    """A command's own words, its example, and the options that only few other commands have."""
    [command] = [command for name, command in leaves() if name == " ".join(words)]
    own = [option for option in options(command) if option not in _common()]
    shared = [re.findall(r"--[\w-]+", name)[0] for name, _ in options(command) if (name, _) in _common()]
    example = str(command.epilog).removeprefix("\b\n").removeprefix("Example: ")
    also = f"Options that it shares with others ([what they mean](options.md)): {', '.join(f'`{o}`' for o in shared)}."
    parts = [cleandoc(str(command.help)), f"```bash\n{example}\n```"]
    return "\n\n".join([*parts, *([table(["option", ""], [list(o) for o in own])] if own else []), also])


def options_part() -> str:
    """The options that mean the same everywhere."""
    return table(["option", ""], [list(option) for option in sorted(_common())])


def formats_part() -> str:
    """All runtimes and their limits."""
    rows = [[f"`{name}`", format.versions, *format.limits.cells()] for name, format in FORMATS.items()]
    return table(["format", "runtime, as read", *HEADINGS], rows)


def layouts_part() -> str:
    """All layouts of heads."""
    rows = [[f"`{name}`", layout.versions, layout.description] for name, layout in LAYOUTS.items()]
    return table(["layout", "runtime, as read", "what is written"], rows)


def _samples(format: Format) -> dict[str, Any]:
    """Lists of choices that go beyond what runtimes take, by what is the matter with them."""
    limits = format.limits
    wide = [[rank] for rank in range((limits.max_rank or 0) + 2)]
    deep = [list(path) for path in chain((limits.max_depth or HEADS) + 1).choices]
    samples = {
        f"rank {len(wide) - 1}": wide if limits.max_rank else None,
        f"depth {len(deep)}": deep if limits.max_depth else None,
        f"depth {HEADS + 1} with {HEADS} heads": [list(path) for path in chain(HEADS + 1).choices],
        "a rank skipped": [[0], [2]],
        "children below the second sibling only": [[0], [1], [1, 0]],
        "a branch": [[0], [1]] if limits.chain else None,
        "fewer guesses than heads": [[0]] if limits.chain else None,
        "a parent missing": [[0], [1, 0]],
        "a path twice": [[0], [0]],
        "lists and tuples": [[0], (1,)],
        "the old dense form": [1, 2, 1],
        "no choices": [],
    }
    chained = ("depth", "a branch", "fewer", "no")
    return {
        what: choices
        for what, choices in samples.items()
        if choices is not None and (not limits.chain or what.startswith(chained))
    }


def runtime_part(name: str) -> str:
    """A runtime's file, its limits, and what it does with what is beyond them, as `treeopt check` says."""
    format = FORMATS[name]
    limits = ", ".join(
        f"{heading}: {cell}" for heading, cell in zip(HEADINGS, format.limits.cells(), strict=True)
    )
    facts = [["read at", format.versions], ["written", format.description], ["file", f"`{format.file_name}`"]]
    rows = []
    for what, choices in _samples(format).items():
        heads = max(HEADS, format.limits.max_depth or 0) + 1 if what == f"depth {len(choices)}" else HEADS
        verdict = check(format, Listing(choices, "sample"), heads)
        why = "; ".join(
            f"{found.reader}: {found.why}" if found.reader else found.why for found in verdict.findings
        )
        if verdict.outcome != FINE:
            shown = choices if len(choices) < 4 else f"[{choices[0]}, {choices[1]}, ..., {choices[-1]}]"
            rows.append([what, f"`{shown}`", f"**{verdict.outcome}**", why])
    said = table(["a file with", "such as", "is", "since it, or its path,"], rows)
    return f"{table(['', ''], [*facts, ['limits', limits]])}\n\n{said}"


@contextmanager
def _demo() -> Iterator[None]:
    """A directory that has the reference results as the demo's run, and is left again."""
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        shutil.copytree(REFERENCE, "results/demo")
        yield


def _typed(*words: str) -> str:
    """A command line as a session shows it."""
    said = CliRunner().invoke(treeopt, words, prog_name="treeopt", catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return f"$ treeopt {' '.join(words)}\n{said.output.rstrip()}\n"


def sizes_part(name: str, sizes: str) -> str:
    """Exporting several sizes."""
    with _demo():
        return f"```console\n{_typed('export', '--format', name, '--sizes', sizes)}```"


def session_part(name: str, *more: str) -> str:
    """Exporting the demo's choice, the file without its provenance, and the line to type there."""
    format = FORMATS[name]
    file = f"results/demo/{format.file_name}"
    with _demo():
        session = _typed("export", "--format", name, *more)
        text = Path(file).read_text(encoding="utf-8")
        [tree] = read_trees(file).values()
    shown = f"$ grep -v '^#' {file}" if "#" in text else f"$ cat {file}"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    line = format.command_line(file, tree, DEMO_HEADS)
    to_type = f"\n\nThe line to type there, words in capitals being yours to fill in:\n\n```text\n{line}\n```"
    return "\n".join(["```console", session, shown, *lines, "```"]) + (to_type if line else "")


PARTS: dict[str, Callable[..., str]] = {
    "command": command_part,
    "options": options_part,
    "formats": formats_part,
    "layouts": layouts_part,
    "runtime": runtime_part,
    "session": session_part,
    "sizes": sizes_part,
}


def main() -> None:
    """Bring all pages up to date."""
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        built = build(text)
        if built != text:
            page.write_text(built, encoding="utf-8")
            print(os.path.relpath(page))


if __name__ == "__main__":
    main()
