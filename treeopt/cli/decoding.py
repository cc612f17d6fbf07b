"""How answers are made: what was typed, else what the run's answers were made with, else defaults."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeopt.artifact import load_json, sha256_file
from treeopt.cli.acceptance import settled
from treeopt.cli.options import Requested
from treeopt.cli.run import DEMO, ModelOptions
from treeopt.errors import MismatchError

if TYPE_CHECKING:
    from treeopt.decode import Rule, Sampled

DEMO_PROMPTS = DEMO / "prompts.jsonl"
DEMO_SETTINGS = DEMO / "settings.json"
DEFAULTS = {
    "template": "auto",
    "turns": None,
    "max_new_tokens": 128,
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "seed": 0,
}


@dataclass(frozen=True)
class Decoding:
    """Settings that a text depends on, besides the model."""

    prompts: Path
    template: str
    turns: int | None
    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    acceptance: str
    epsilon: float | None
    delta: float | None
    seed: int

    def sampling(self) -> "Sampled":
        """How the model's own text is drawn, which typical acceptance has no part in: that text is the tree's."""
        from treeopt.decode import Sampled

        assert self.acceptance != "typical"
        return Sampled(self.temperature, self.top_p, self.top_k)

    def rule(self) -> "Rule":
        """The acceptance rule to decode with."""
        from treeopt.decode import Typical

        if self.epsilon is None or self.delta is None:
            return self.sampling()
        return Typical(self.temperature, self.epsilon, self.delta)

    def facts(self) -> dict[str, Any]:
        """As a provenance has them; the demo's prompts by their content alone, as they lie elsewhere elsewhere."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        del named["prompts"]
        file = None if self.prompts == DEMO_PROMPTS else str(self.prompts)
        return named | {"prompt_file": file, "prompts_sha256": sha256_file(self.prompts)}


def resolve(requested: Requested, source: ModelOptions) -> Decoding:
    """The settings to use.

    Errors: MismatchError when the run's prompts have changed since its answers were made; UsageError for settings
    that do not go together.
    """
    from treeopt.measure.generations import read_provenance

    defaults: dict[str, Any] = DEFAULTS | {"prompts": DEMO_PROMPTS}
    if source.is_demo and DEMO_SETTINGS.is_file():
        defaults |= load_json(DEMO_SETTINGS)
    made = read_provenance(source.run.generations)
    names = [field.name for field in fields(Decoding)]
    typed = {name: value for name in names if (value := getattr(requested, name)) is not None}
    if "prompt_file" in made:
        made["prompts"] = made["prompt_file"]
    chosen = defaults | {name: made[name] for name in names if name in made} | typed
    chosen |= settled(typed, chosen["temperature"])
    decoding = Decoding(**{name: chosen[name] for name in names} | {"prompts": Path(chosen["prompts"])})
    if requested.prompts is None and "prompts_sha256" in made:
        require_unchanged(source.run.generations, made, {"prompts_sha256": sha256_file(decoding.prompts)})
    return decoding


def require_unchanged(path: Path, made: dict[str, Any], wanted: dict[str, Any]) -> None:
    """MismatchError naming the first of `wanted` that the artifact's provenance has otherwise."""
    for name, value in wanted.items():
        if name in made and made[name] != value:
            raise MismatchError(
                f"{path}: made with {name} {made[name]!s:.12}, but this is {value!s:.12}; name another --run,"
                " or make it anew: the same model and run with `treeopt generate --fresh`"
            )
