"""--output never takes the place of what another command made."""

import pytest

from tests.cli.command_line import fail, succeed
from treeopt.artifact import read_json, write_json
from treeopt.cli.places import kind_of

KINDS = {
    "generations.jsonl": "generations",
    "generations.meta.json": "generations",
    "ranks.safetensors": "ranks",
    "growth.json": "growth",
    "latency.json": "latency",
    "choice.json": "choice",
    "evaluation.json": "evaluation",
    "accuracy.csv": None,
    "medusa_choices.py": None,
    "nothing.json": None,
}


def test_artifacts_are_told_by_how_they_begin(copied):
    succeed("export", "--run", copied, "--format", "medusa")
    assert {name: kind_of(copied / name) for name in KINDS} == KINDS


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind])
def test_an_export_never_replaces_an_artifact(copied, name):
    before = (copied / name).read_bytes()
    line = fail("export", "--run", copied, "--format", "medusa", "-o", copied / name, status=2)
    assert f"{name} is a {KINDS[name]} file" in line
    assert (copied / name).read_bytes() == before


def test_an_artifact_replaces_its_own_kind_alone(copied):
    succeed("grow", "--run", copied, "--budget", 4, "-o", copied / "growth.json")
    assert "is a growth file" in fail("choose", "--run", copied, "-o", copied / "growth.json", status=2)


def test_a_choice_of_another_model_is_not_fitted_to_the_ranks(copied):
    content = read_json(copied / "choice.json")
    content["provenance"]["model_sha256"] = "f" * 64
    write_json(copied / "choice.json", content, "choice")
    line = fail("export", "--run", copied, "--format", "vllm", "--fit")
    assert "choice.json and" in line and "ranks.safetensors do not belong together: model_sha256" in line
    assert not list(copied.glob("vllm*"))


def test_check_of_all_trees_names_one_to_export(tmp_path):
    path = tmp_path / "trees.json"
    path.write_text('{"trees": {"one": [[0]], "two\\n": [[0], [1]]}}')
    seen = succeed("check", f"{path}:all", "--runtime", "medusa", "--heads", 4)
    assert seen.stdout.splitlines()[1].startswith("two\\n: fine")
    assert f"--tree {path}:one" in seen.stdout.splitlines()[-1]
