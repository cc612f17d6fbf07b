"""Who may import whom, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import treeopt

PACKAGE = Path(treeopt.__file__).parent
CORE = {"tree", "errors", "artifact"}
MAY_IMPORT = {
    **dict.fromkeys(CORE, CORE),
    "search": CORE | {"search"},
    "export": CORE | {"export"},
    "model": CORE | {"model"},
    "decode": CORE | {"model", "decode"},
    "measure": CORE | {"model", "search", "decode", "measure"},
    "train": CORE | {"model", "measure", "train"},
    "view": CORE | {"search", "export", "view"},
    "demo": CORE | {"demo"},
}
NUMBERS = {"numpy", "scipy", "pandas"}
PACKAGES = {
    "tree": set(),
    "errors": set(),
    "artifact": {"numpy", "safetensors"},
    "search": NUMBERS,
    "export": NUMBERS,
}
TORCH = {"model", "decode", "measure", "train"}
TRANSFORMERS = {"model", "train"}
HEAVY = {"torch", "transformers", "peft", "pandas", "scipy", "matplotlib"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(nodes) -> set[str]:
    """Dotted names of the modules that these nodes import; `from treeopt import x` counts as `treeopt.x`."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            inner = node.module in ("treeopt", "treeopt.measure")
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if inner else {str(node.module)}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_stay_in_their_rooms(path):
    tree, room = ast.parse(path.read_text()), room_of(path)
    names = imported(ast.walk(tree)) - {"treeopt.__version__"}
    if room in ("cli", "__main__"):
        outside_functions = imported(node for node in ast.iter_child_nodes(tree))
        assert {name.split(".")[0] for name in outside_functions}.isdisjoint(HEAVY)
        return
    assert room in MAY_IMPORT, "a new room needs its rule here"
    inner = {name for name in names if name.split(".")[0] == "treeopt"}
    assert {name.split(".")[1] for name in inner} <= MAY_IMPORT[room]
    outer = {name.split(".")[0] for name in names - inner} - sys.stdlib_module_names
    assert outer <= PACKAGES.get(room, outer)
    assert "torch" not in outer or room in TORCH
    assert outer.isdisjoint({"transformers", "peft"}) or room in TRANSFORMERS
    if room == "train":
        measuring = {name for name in inner if name.split(".")[1] == "measure"}
        assert measuring <= {"treeopt.measure.generations", "treeopt.measure.states"}


def loaded_by(code: str) -> set[str]:
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_treeopt_loads_nothing_heavy():
    assert loaded_by("import treeopt").isdisjoint(HEAVY | {"numpy"})


def test_numbers_load_no_torch():
    modules = [path for path in MODULES if room_of(path) in CORE | {"search", "export"}]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in modules]
    assert loaded_by("; ".join(f"import {name}" for name in names)).isdisjoint({"torch", "transformers"})


def test_every_name_of_the_package_is_there():
    for name in treeopt.__all__:
        assert getattr(treeopt, name) is not None
    assert set(dir(treeopt)) == set(treeopt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        treeopt.nothing  # noqa: B018
