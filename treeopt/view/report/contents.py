"""What a run directory holds, loaded: all that a report is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from treeopt.errors import InputError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choice import Choice
from treeopt.search.grow import Growth
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.tree import Tree
from treeopt.view.outcome import figures, measured_runs


@dataclass(frozen=True)
class Made:
    """One file of the run: its name, content hash and provenance, and the command that makes it."""

    file: str
    sha256: str
    provenance: Mapping[str, Any]
    command: str


@dataclass(frozen=True)
class Export:
    """A runtime's file in the run: the runtime, its versions, what the file is, the line to type, text and tree."""

    runtime: str
    versions: str
    description: str
    file: str
    command: str
    text: str
    tree: Tree


@dataclass(frozen=True)
class Contents:
    """A run's artifacts; what it lacks is None or empty.

    `accuracy` is of the half that trees are grown on. `repetition` is the median share of repeated 4-grams by category,
    `export_command` what writes a runtime's file, `found` what was seen to be wrong while loading.
    """

    name: str
    directory: str
    accuracy: AccuracyTable | None = None
    ranks: RankTable | None = None
    growth: Growth | None = None
    latency: LatencyProfile | None = None
    choices: tuple[Choice, ...] = ()
    evaluation: Mapping[str, Any] | None = None
    training: tuple[Mapping[str, Any], ...] = ()
    exports: tuple[Export, ...] = ()
    repetition: Mapping[str, float] = field(default_factory=dict)
    made: Mapping[str, Made] = field(default_factory=dict)
    export_command: str = ""
    found: tuple[str, ...] = ()

    @cached_property
    def choice(self) -> Choice | None:
        """The choice that the page is about: the first whose tree was decoded with, else the first."""
        decoded = [Tree.from_choices(run["choices"]) for run in measured_runs(self.evaluation)]
        first = next((c for c in self.choices if c.batch == 1 and c.tree in decoded), None)
        return first or next(iter(self.choices), None)

    @cached_property
    def judged(self) -> RankTable | None:
        """The half of the ranks that nothing was fitted to, where replay says anything of it."""
        if self.ranks is None or self.ranks.provenance.get("acceptance") == "typical":
            return None
        try:
            return self.ranks.split("evaluate")
        except InputError:  # no prompt is in that half
            return None

    @cached_property
    def figures(self) -> dict[str, Any]:
        """The choice's `outcome.figures`; empty without a choice."""
        if self.choice is None:
            return {}
        try:
            return figures(self.choice, self.judged, self.evaluation)
        except InputError:  # the tree has ranks or depths that these ranks do not have
            return figures(self.choice, None, self.evaluation)

    @cached_property
    def values(self) -> dict[tuple[int, ...], float]:
        """How likely each path is right, by the growth."""
        return dict(zip(self.growth.paths, self.growth.values, strict=True)) if self.growth else {}

    @cached_property
    def simulated(self) -> bool:
        """Whether latencies come from a hardware model."""
        return any(c.simulated for c in self.choices) or (self.latency is not None and self.latency.simulated)
