"""Runs notebooks and writes them back with their outputs, less what differs from run to run.

    python notebooks/run.py [NAME ...]

Without a name all are run. A cell that fails ends it all; its notebook is left as it was.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from treeopt.artifact import write_text

HERE = Path(__file__).parent
SECONDS = 600
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""All that is kept: the rest tells on which Python a notebook was run."""


def executed(path: Path, parameters: Mapping[str, str] | None = None) -> NotebookNode:
    """The notebook with fresh outputs, run in its own folder; nothing is written.

    `parameters` (name to expression) take effect behind the first code cell, where a notebook has its own.

    Errors: CellExecutionError of nbclient for the first cell that fails.
    """
    notebook = nbformat.read(path, as_version=4)
    if parameters:
        first = next(place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        lines = "\n".join(f"{name} = {value}" for name, value in parameters.items())
        notebook.cells.insert(first + 1, new_code_cell(lines))
    with TemporaryDirectory() as sockets:
        client = NotebookClient(
            notebook,
            config=Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"}),
            kernel_name="python3",
            timeout=SECONDS,
            resources={"metadata": {"path": str(path.parent)}},
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--HistoryManager.enabled=False"],
        )
        client.execute()
    notebook.metadata = METADATA
    return notebook


def main() -> None:
    """Run those that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or sorted(path.stem for path in HERE.glob("*.ipynb"))
    for path in (HERE / f"{Path(name).stem}.ipynb" for name in names):
        write_text(path, nbformat.writes(executed(path)) + "\n")
        print(path)


if __name__ == "__main__":
    main()
