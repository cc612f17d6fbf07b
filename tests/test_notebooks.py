"""Notebooks run from top to bottom, and are committed as they ran: with outputs, without errors, defining nothing."""

import ast
import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
HERE = ROOT / "notebooks"
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
SMALL = {"DENSE": "12", "BUDGET": "64", "DRAWN": "20"}
"""What makes a notebook quick, by the name of its parameter."""

DEMO, SMOLLM2 = ROOT / "results" / "reference" / "cpu" / "demo", ROOT / "calibration" / "smollm2-135m"
KEPT = [
    *(
        DEMO / name
        for name in ("ranks.safetensors", "latency.json", "choice.json", "evaluation.json", "estimators.json")
    ),
    *(SMOLLM2 / name for name in ("heads", "ranks", "learning_curve.jsonl")),
    ROOT / "results" / "reference" / "simulated",
    ROOT / "results" / "published",
]
"""What notebooks may take for granted; all else may be missing."""

pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="needs the repository")
named = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def parsed(cell):
    """The cell as Python, without the lines that are IPython's."""
    return ast.parse("\n".join(line for line in cell.source.splitlines() if not line.startswith("%")))


def small(path):
    """The parameters, which the first cell sets, that make this notebook quick."""
    names = {node.id for node in ast.walk(parsed(code(path)[0])) if isinstance(node, ast.Name)}
    return {name: value for name, value in SMALL.items() if name in names}


@named
def test_runs_on_small_data(path):
    executed = runpy.run_path(str(HERE / "run.py"))["executed"]
    outputs = [output for cell in executed(path, small(path)).cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


@named
def test_does_without_what_is_not_there_yet(path, tmp_path, monkeypatch, capsys):
    """Runs in this process, where only what may be taken for granted can be found."""
    from matplotlib import pyplot as plt

    for kept in KEPT:
        copy = tmp_path / kept.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(kept)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    plt.switch_backend("agg")
    first, *cells = [parsed(cell) for cell in code(path)]
    quick = ast.parse("\n".join(f"{name} = {value}" for name, value in small(path).items()))
    scope: dict[str, object] = {}
    for cell in [first, quick, *cells]:
        exec(compile(cell, path.name, "exec"), scope)
    plt.close("all")
    assert "left out" in capsys.readouterr().out


@named
def test_is_committed_as_it_ran(path):
    cells = code(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), (
        "not run from top to bottom"
    )
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.get("name") == "stderr"]


@named
def test_defines_nothing(path):
    defining = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assert not [node for cell in code(path) for node in ast.walk(parsed(cell)) if isinstance(node, defining)]
