"""Accuracy against training tokens: the same training on growing shares of the answers, judged on three sets.

    python calibration/smollm2-135m/learning_curve.py --model M --train A.jsonl.gz [--train ...] \
        --judge held_out=B.jsonl --judge mt_bench=C.jsonl --tokens 100000,200000 --out learning_curve.jsonl

Each line of the output is one training: tokens, settings, and top-1 by head on the first 100 answers it was trained on
and on each set to judge on. Answers of fewer than 128 tokens are left out of judging.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from figures import LEAST, figures

from treeopt.measure.generations import Generation, read_generations
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.heads import MedusaHeads
from treeopt.train.data import Answers
from treeopt.train.medusa1 import HeadSettings, finished, new_heads
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.run import fit
from treeopt.train.states_file import StatesFile
from treeopt.train.trainer import LoopSettings


def main() -> None:
    options = parse()
    backbone = Backbone.load(options.model, differentiate="head")
    answers = [answer for file in options.train for answer in read_generations(file)]
    answers = [answer for answer in answers if len(answer.answer_ids) >= options.num_heads + 2]
    order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(0)).tolist()
    answers = [answers[index] for index in order]
    judges = {}
    for named in options.judge:
        name, _, file = named.partition("=")
        judges[name] = [a for a in read_generations(Path(file)) if len(a.answer_ids) >= LEAST]

    def judged(heads: MedusaHeads, used: list[Generation], **facts: float) -> None:
        line: dict[str, object] = {
            "tokens": sum(len(a.answer_ids) for a in used),
            "answers": len(used),
            "epochs": options.epochs,
            "learning_rate": options.learning_rate,
            "batch_size": options.batch_size,
            **facts,
            "train": figures(backbone, heads, [a for a in used if len(a.answer_ids) >= LEAST][:100]),
        }
        line |= {name: figures(backbone, heads, judge) for name, judge in judges.items()}
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    if options.heads:
        judged(load_heads(options.heads, backbone), answers)
        return
    backbone.model.requires_grad_(False)
    states = StatesFile.of(options.states, backbone, answers)
    loop = LoopSettings(
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        batch_size=options.batch_size,
        precision="bfloat16",
    )
    for tokens in (int(word) for word in options.tokens.split(",")):
        used = answers[: count_up_to(answers, tokens)]
        heads = new_heads(backbone, HeadSettings(heads=options.num_heads))
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as directory:
            fit(
                HeadsOnBackbone(backbone, heads),
                loop,
                Path(directory),
                Answers(used, options.num_heads, states),
                Answers([], options.num_heads),
                log=Path(directory) / "log.jsonl",
                stage=f"{tokens} tokens",
                device=backbone.device,
            )
        judged(finished(heads, backbone), used, seconds=round(time.perf_counter() - started))


def count_up_to(answers: list[Generation], tokens: int) -> int:
    """How many answers, from the first, have about so many tokens."""
    total = 0
    for number, answer in enumerate(answers, start=1):
        total += len(answer.answer_ids)
        if total >= tokens:
            return number
    return len(answers)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", type=Path, action="append", required=True)
    parser.add_argument("--judge", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--tokens", default="100000")
    parser.add_argument("--num-heads", type=int, default=2)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--heads", help="judge these heads, trained on all answers, instead of training any")
    parser.add_argument("--states", type=Path, default=Path("results/smollm2-states.bin"))
    parser.add_argument("--out", type=Path, default=Path("learning_curve.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
