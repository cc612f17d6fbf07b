"""The bundled model: small, whole, and decoded alike by every tree."""

import json
from pathlib import Path

import pytest

from treeopt.decode import Answer, Engine, Sampled
from treeopt.export.read import read_trees
from treeopt.measure.agreement import EXCUSED_MARGIN, first_divergence
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import EncodedPrompt, encode_prompts
from treeopt.measure.generations import Generation
from treeopt.measure.prompts import read_prompts
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.heads import MedusaHeads
from treeopt.model.sources import DEMO
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.search.split import EVALUATE, half_of
from treeopt.tree import Tree

ROOT = Path(__file__).parents[2]
SETTINGS = json.loads((DEMO / "settings.json").read_text())
RULE = Sampled(SETTINGS["temperature"])
CHOICE = ROOT / "results" / "reference" / "cpu" / "demo" / "choice.json"
PUBLISHED = ROOT / ".." / "shared" / "data" / "published_trees.json"
EVERY = 4  # published trees are decoded on one prompt in so many; benchmarks/root_test.py takes all


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return Backbone.load()


@pytest.fixture(scope="module")
def heads(backbone) -> MedusaHeads:
    return load_heads(DEMO / "heads", backbone)


@pytest.fixture(scope="module")
def prompts(backbone) -> list[EncodedPrompt]:
    rows = [
        prompt for prompt in read_prompts(DEMO / "prompts.jsonl").prompts if half_of(prompt.id) == EVALUATE
    ]
    return encode_prompts(backbone.tokenizer, rows, SETTINGS["template"])


@pytest.fixture(scope="module")
def plain(backbone, prompts) -> list[Answer]:
    return decode(Engine(backbone, rule=RULE), prompts)


@pytest.fixture(scope="module")
def ranks(backbone, heads, prompts, plain) -> RankTable:
    generations = [
        Generation(p.id, p.category, 0, list(p.ids), answer.tokens, answer.ended)
        for p, answer in zip(prompts, plain, strict=True)
    ]
    return calibrate(backbone, heads, generations, width=32)


def decode(engine: Engine, prompts: list[EncodedPrompt]) -> list[Answer]:
    """One at a time, as a user decodes."""
    return [engine.decode([p.ids], [p.id], SETTINGS["max_new_tokens"])[0] for p in prompts]


def require_root_test(backbone, heads, tree: Tree, prompts, plain, ranks, every: int = 1) -> None:
    """The text of plain decoding, and the steps that replay foretells."""
    engine = Engine(backbone, heads, tree, rule=RULE)
    noise = engine.noise
    expected = replay(ranks, tree).step_tokens
    for index in range(0, len(prompts), every):
        answer = decode(engine, [prompts[index]])[0]
        found = first_divergence(backbone, prompts[index], plain[index].tokens, answer.tokens, RULE, noise)
        if found is None:
            assert tuple(answer.step_tokens) == expected[index], prompts[index].id
        else:
            assert found.margin <= EXCUSED_MARGIN, found


def test_it_is_small():
    files = [file for file in DEMO.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(file.stat().st_size for file in files) < 12e6


def test_heads_were_trained_on_this_backbone(backbone, heads):
    log = (ROOT / "calibration" / "demo" / "heads_log.jsonl").read_text().splitlines()
    assert json.loads(log[0])["model_sha256"] == backbone.sha256
    assert (heads.heads, heads.layers, heads.lm_weight) == (5, 1, None)


def test_the_chosen_tree_gives_the_text_of_plain_decoding(backbone, heads, prompts, plain, ranks):
    (tree,) = read_trees(CHOICE).values()
    assert tree.size > 1
    require_root_test(backbone, heads, tree, prompts, plain, ranks)


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published trees lie beside the repository")
def test_published_trees_give_the_text_of_plain_decoding(backbone, heads, prompts, plain, ranks):
    trees = read_trees(PUBLISHED)
    assert len(trees) == 9
    for tree in trees.values():
        cut = tree.up_to_depth(heads.heads)
        require_root_test(backbone, heads, cut, prompts, plain, ranks, every=EVERY)
