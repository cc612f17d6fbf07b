"""`treeopt check`."""

import click

from treeopt.cli.options import WHOLE, json_option
from treeopt.cli.output import show
from treeopt.cli.run import RunDirectory, default_directory, next_command


@click.command(
    "check", epilog="\b\nExample: treeopt check medusa_choices.py:mc_sim_7b_63 --runtime trtllm --heads 4"
)
@click.argument("file", metavar="FILE[:NAME]")
@click.option(
    "--runtime", required=True, metavar="NAME", help="One of those that `treeopt export --format help` lists."
)
@click.option("--heads", type=WHOLE, required=True, metavar="K", help="Heads of the model.")
@click.option("--top-k", type=WHOLE, help="Guesses that the runtime takes of each head, where it can be set.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, file: str, runtime: str, heads: int, top_k: int | None, as_json: bool
) -> None:
    """Say what a runtime would do with a file's choices: read them right, refuse them, or go silently wrong.

    Takes any choices file or artifact, all its trees or the one called NAME, as they are listed. Exits with 1 where
    the runtime would not read one right.
    """
    from treeopt.cli.stages.check import check_file, verdicts_text
    from treeopt.export.check import FINE
    from treeopt.search.accuracy_files import split_name

    content = check_file(file, runtime, heads, top_k)
    fine = all(tree["outcome"] == FINE for tree in content["trees"])
    first = f"{split_name(file)[0]}:{content['trees'][0]['name']}"
    words = [
        "--format",
        runtime,
        "--tree",
        first if len(content["trees"]) > 1 else file,
        *([] if fine else ["--fit"]),
    ]
    following = next_command("export", RunDirectory(default_directory(None)), None, *words)
    show(as_json, content, lambda: verdicts_text(content), following)
    ctx.exit(0 if fine else 1)
