"""constraints.txt pins exactly what pyproject.toml names, at releases that its lower bounds allow."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def direct_requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    lists = [project["build-system"]["requires"], project["project"]["dependencies"], *extras]
    return [Requirement(text) for requirements in lists for text in requirements]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    entries = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(entry) == 2 for entry in entries), "a line of constraints.txt is no exact pin"
    return dict(entries)


@pytest.mark.parametrize("requirement", direct_requirements(), ids=lambda requirement: requirement.name)
def test_every_direct_requirement_is_pinned_within_its_bounds(requirement):
    assert requirement.specifier, f"{requirement.name} has no lower bound"
    assert requirement.specifier.contains(pins()[requirement.name])


def test_nothing_else_is_pinned():
    assert set(pins()) == {requirement.name for requirement in direct_requirements()}
