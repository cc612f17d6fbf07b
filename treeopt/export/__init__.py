"""Trees in the files that runtimes read. Each module of `treeopt.export.runtimes` adds one format."""

from importlib import import_module
from pkgutil import iter_modules

from treeopt.export import runtimes
from treeopt.export.format import Format


def _formats() -> dict[str, Format]:
    names = [found.name for found in iter_modules(runtimes.__path__)]
    formats: list[Format] = [import_module(f"{runtimes.__name__}.{name}").FORMAT for name in names]
    return {format.name: format for format in formats}


FORMATS: dict[str, Format] = _formats()
"""All formats by name."""
