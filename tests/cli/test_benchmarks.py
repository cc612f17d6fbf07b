"""The benchmarks that decode, on a tiny model: what they check holds, and what they print is whole."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tests import tiny as small
from treeopt.measure.generations import Generation

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def model(tiny, heads, prompts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ["--model", tiny, "--heads", heads, "--prompts", prompts, "--template", "none"]
    return [*model, "--max-new-tokens", 8, "--temperature", 0.7, "--limit", 4]


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARKS / name))


def last_line(name: str, *arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(script(name)["main"], [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def test_the_root_test_holds_for_all_kinds_of_trees(model, complete, tmp_path):
    (tmp_path / "trees.json").write_text(
        json.dumps({"trees": {"a": [[0], [0] * 2, [0] * 3, [0] * 4], "b": [[5]]}})
    )
    asked = [
        "--trees",
        tmp_path / "trees.json",
        "--tree",
        complete / "growth.json:8",
        "-o",
        tmp_path / "o.json",
    ]
    result = last_line("root_test.py", *model, *asked)
    trees = result["trees"]
    assert {
        "plain",
        "hf_generate",
        "grown 4",
        "chain",
        "wide",
        "deep path",
        "random 64",
        "a",
        "b",
        "8",
    } <= set(trees)
    assert len(trees) > 15 and result["prompts"] == result["answers"] == 4
    assert result["passed"] and result["divergences"] == 0
    assert trees["a"]["tokens"] == 4, "cut to the heads"
    assert all(
        found["replayed_step_for_step"]
        for name, found in trees.items()
        if name not in ("plain", "hf_generate")
    )
    assert json.loads((tmp_path / "o.json").read_text()) == result


@pytest.mark.parametrize(
    ("expected", "got", "upto", "place"),
    [
        ([3, 2, 1], [3, 2, 1], 6, None),
        ([3, 2, 1], [3, 1, 2], 6, (3, 1)),
        ([2, 4], [2, 1, 1, 2], 4, None),  # the text diverges at its token 4: what ends behind it may differ
        ([2, 1, 3], [2, 2, 2], 4, (2, 1)),
        ([4, 1], [2, 1, 2], 5, (0, 2)),
    ],
)
def test_steps_are_compared_up_to_where_texts_part(expected, got, upto, place):
    assert script("root_test.py")["first_difference"](expected, got, upto) == place


def test_the_margin_of_a_step_is_that_of_the_head_that_decided():
    """Cycle's heads score the truth alone above the others, which are all alike."""
    session = SimpleNamespace(backbone=small.cycle(), heads=small.cycle_heads())
    answer = Generation("p", "all", 0, [2], [3, 4, 5, 6, 0], "limit")
    margin = script("root_test.py")["head_margin"](session, answer, 1, 2)
    logits = session.heads(session.backbone.states(torch.tensor([[2, 3]]))[:, -1])[1, 0].detach()
    assert margin == pytest.approx(float(logits[6] - logits[0])) and margin > 0


def test_the_engine_benchmark_sets_prediction_beside_measurement(model, complete, tmp_path):
    (tmp_path / "trees.json").write_text(json.dumps({"trees": {"mine": [[0], [1], [0, 0]]}}))
    asked = ["--sizes", "1,2,4,8", "--repeats", 4, "--trees", f"{tmp_path / 'trees.json'}:mine"]
    result = last_line("engine.py", *model, *asked, "--ranks", complete / "ranks.safetensors")
    methods = {method["name"]: method for method in result["methods"]}
    assert {"plain", "hf_generate", "2", "4", "8", "best chain", "mine"} <= set(methods)
    for method in methods.values():
        assert method["replayed_step_for_step"] and method["divergences"] == 0
        assert method["tokens_per_step"] == method["replayed_tokens_per_step"]
        expected = 1000 * method["tokens_per_step"] / method["profiled_ms"]
        assert method["expected_over_measured"] == pytest.approx(expected / method["tokens_per_s"])
    rates = {name: method["tokens_per_s"] for name, method in methods.items()}
    chosen = rates[result["choice"]]
    sizes = {name: rate for name, rate in rates.items() if name.isdecimal() or name == "plain"}
    assert result["sizes"] == len(sizes) and result["best_size"] == max(sizes, key=sizes.__getitem__)
    assert result["choice_over_best_size"] == chosen / max(sizes.values())
    assert result["choice_over_mine"] == chosen / rates["mine"]
    assert result["choice_over_fastest_plain"] == chosen / max(rates["plain"], rates["hf_generate"])
    shares = result["shares_of_step"]
    assert {"2", "3", "4", "8"} <= set(shares), "sizes of chains are timed too"
    assert all(0 < part["outside"] < 1 and 0 < part["heads"] < 1 for part in shares.values())
