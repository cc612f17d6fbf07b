"""The command line. Commands parse, call and print; their modules are loaded only when they are asked for."""

import functools
import os
import sys
from importlib import import_module
from typing import Any

import click

from treeopt import __version__
from treeopt.errors import TreeoptError
from treeopt.view.printable import printable

COMMANDS = (
    "optimize",
    "generate",
    "calibrate",
    "grow",
    "profile",
    "simulate",
    "choose",
    "export",
    "check",
    "replay",
    "evaluate",
    "report",
    "train",
    "heads",
    "inspect",
)
"""Commands in the order of the help; each has a module of its name in `treeopt.cli.commands`."""

SPIN_COUNT = "1000000"
"""For GNU OpenMP, which torch's CPU build brings: how long its threads spin before they sleep.

A decoding step is hundreds of matrix products of some ten microseconds each; waking a thread takes longer than that.
Measured in benchmarks/NOTES.md. A user's own GOMP_SPINCOUNT or OMP_WAIT_POLICY stands.
"""

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended, as shells have it."""


class Main(click.Group):
    """Loads a command on use, and turns every error into one line on stderr and an exit status.

    2 for wrong usage, 1 for anything else. A bug too is one line; with TREEOPT_TRACEBACK set it shows where.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, without loading anything."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, whose module is loaded now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"treeopt.cli.commands.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C says what is kept."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # here, since click would say "Aborted!" and exit with 1
            where = f" in {ctx.obj}" if ctx.obj else ""
            kept = (
                str(stop)  # of a command that does not go on
                or f"finished answers and artifacts are kept{where}, and the same command goes on from there"
            )
            click.echo(printable(f"treeopt: interrupted; {kept}"), err=True)
            ctx.exit(INTERRUPTED)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Parse and run, with errors as promised above."""
        if "OMP_WAIT_POLICY" not in os.environ:  # before any command loads torch
            os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
        run = functools.partial(super().main, *args, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            sys.exit(run() or 0)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "treeopt"
            _fail(f"{command}: {_one_line(error.format_message())} (see {command} --help)", error.exit_code)
        except (TreeoptError, click.ClickException, OSError) as error:
            _fail(f"treeopt: {_one_line(str(error))}")
        except (Exception, click.Abort) as error:
            if "TREEOPT_TRACEBACK" in os.environ:
                raise
            _fail(
                f"treeopt: unexpected {type(error).__name__}: {_one_line(str(error))}"
                " (TREEOPT_TRACEBACK=1 shows where)"
            )


def _fail(line: str, status: int = 1) -> None:
    click.echo(printable(line), err=True)
    sys.exit(status)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@click.group(
    cls=Main,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExample: treeopt optimize",
)
@click.version_option(__version__, prog_name="treeopt")
def main() -> None:
    """Find the candidate tree that makes a Medusa model fastest on this machine, and prove it.

    Without --model, every command works on the bundled demo model, offline. Artifacts lie in a run directory,
    results/demo or results/<model name>; --run names another. Each command ends with the next one to type.
    """
