"""The root test on the bundled model: every tree gives plain decoding's text, token for token.

    python benchmarks/root_test.py [--published ../shared/data/published_trees.json]

All prompts of the evaluate half, the trees named by --tree and those of the file --published, cut to the heads. Beside
identity it checks that replaying the calibrated ranks gives the same step list as decoding.
"""

import json
from pathlib import Path

import click

from treeopt.decode import Engine, Sampled
from treeopt.export.read import parse_tree_option, read_trees
from treeopt.measure.agreement import first_divergence
from treeopt.measure.calibrate import calibrate
from treeopt.measure.encode import encode_prompts
from treeopt.measure.generations import Generation
from treeopt.measure.prompts import read_prompts
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.sources import DEMO
from treeopt.search.replay import replay
from treeopt.search.split import EVALUATE, half_of


@click.command()
@click.option("--tree", "trees", multiple=True, help="FILE[:NAME]; repeatable.")
@click.option("--published", type=click.Path(path_type=Path), help="A file of several trees.")
def main(trees: tuple[str, ...], published: Path | None) -> None:
    backbone = Backbone.load()
    heads = load_heads(DEMO / "heads", backbone)
    settings = json.loads((DEMO / "settings.json").read_text())
    rule, limit = Sampled(settings["temperature"]), settings["max_new_tokens"]
    prompts = [
        prompt for prompt in read_prompts(DEMO / "prompts.jsonl").prompts if half_of(prompt.id) == EVALUATE
    ]
    encoded = encode_prompts(backbone.tokenizer, prompts, "none")
    plain = Engine(backbone, rule=rule)
    answers = [plain.decode([p.ids], [p.id], limit)[0] for p in encoded]
    generations = [
        Generation(p.id, p.category, 0, list(p.ids), a.tokens, a.ended)
        for p, a in zip(encoded, answers, strict=True)
    ]
    table = calibrate(backbone, heads, generations, width=64)
    named = dict(parse_tree_option(option) for option in trees)
    if published is not None:
        named |= {name: tree.up_to_depth(heads.heads) for name, tree in read_trees(published).items()}
    result = {}
    for name, tree in named.items():
        engine = Engine(backbone, heads, tree, rule=rule)
        replayed = replay(table, tree).step_tokens
        steps, margins, same_steps = 0, [], True
        for prompt, answer, expected in zip(encoded, answers, replayed, strict=True):
            got = engine.decode([prompt.ids], [prompt.id], limit)[0]
            steps += len(got.step_tokens)
            found = first_divergence(backbone, prompt, answer.tokens, got.tokens, rule, plain.noise)
            if found is not None:
                margins.append(found.margin)
            same_steps &= found is not None or tuple(got.step_tokens) == expected
        result[name] = {
            "tokens": tree.size,
            "steps": steps,
            "divergences": margins,
            "replayed_step_for_step": same_steps,
        }
        print(name, result[name], flush=True)
    print(json.dumps({"prompts": len(encoded), "trees": result}))


if __name__ == "__main__":
    main()
