"""`treeopt heads`."""

from pathlib import Path

import click

from treeopt.cli.options import FILE, json_option
from treeopt.cli.output import show
from treeopt.cli.run import RunDirectory, default_directory, next_command

DEMO_RUN = RunDirectory(default_directory(None))


@click.group("heads", no_args_is_help=True, epilog="\b\nExample: treeopt heads inspect results/NAME/heads")
def command() -> None:
    """Say what heads there are, and put them into the layout of a runtime."""


@command.command("inspect", epilog="\b\nExample: treeopt heads inspect results/NAME/heads")
@click.argument("path", type=FILE)
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Sum up heads, a directory or file of any layout, and say which runtimes read them as they are.

    Heads and layers are counted by the names of the tensors; where config.json says otherwise, that is named.
    """
    from treeopt.cli.stages.heads import inspect_heads, inspection_text

    content = inspect_heads(path)
    other = next((name for name, runtime in content["runtimes"].items() if runtime["lacks"]), "vllm")
    following = next_command("heads convert", DEMO_RUN, None, str(path), "--layout", other, "-o", "DIR")
    show(as_json, content, lambda: inspection_text(content), following)


@command.command(
    "convert",
    epilog="\b\nExample: treeopt heads convert results/NAME/heads --layout vllm -o DIR --model NAME",
)
@click.argument("path", type=FILE, required=False)
@click.option("--layout", required=True, metavar="NAME", help="The runtime; `help` lists them.")
@click.option("-o", "--output", type=FILE, metavar="DIR", help="Directory to put the heads into.")
@click.option(
    "--model",
    metavar="MODEL",
    help="Directory, hub name or GGUF file: the model of the heads, where its LM head or name is needed.",
)
@click.option(
    "--adapter",
    type=FILE,
    metavar="DIR",
    help="LoRA adapter, merged into the model.  [default: the one trained in the run of --model]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Number format to write.  [default: that of the heads]",
)
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@json_option
def convert(
    path: Path | None,
    layout: str,
    output: Path | None,
    model: str | None,
    adapter: Path | None,
    dtype: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write heads, a directory or file of any layout, in the layout that a runtime reads.

    They score as before. Where a runtime wants an LM head in the file and the heads share the model's, it is written
    out from --model. A torch pickle is written only where a runtime reads nothing else, and never read as more than
    data.
    """
    from treeopt.cli.stages.heads import convert_heads, find_layout, layouts_content, layouts_text
    from treeopt.export import FORMATS

    if layout == "help":
        following = next_command("heads convert", DEMO_RUN, None, "PATH", "--layout", "vllm", "-o", "DIR")
        show(as_json, layouts_content(), layouts_text, following)
        return
    if path is None or output is None:
        raise click.UsageError("name the heads, and with --output where to put them")
    found = find_layout(layout)
    content = convert_heads(
        path, found, output, model=model, adapter=adapter, dtype=dtype, overwrite=overwrite
    )
    following = next_command("heads inspect", DEMO_RUN, None, str(output))
    if found.format:
        fit = ["--fit"] if FORMATS[found.format].limits.chain else []
        run = RunDirectory.of(path if path.is_dir() else path.parent)
        following = next_command("export", run, None, "--format", found.format, *fit)
    lines = [*content["files"], f"{found.name}: {found.description}"]
    show(as_json, content, lambda: "\n".join(lines), following)
