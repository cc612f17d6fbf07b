"""Answers to train on, small settings, and what a run leaves."""

import json
import os
import signal

import pytest

from tests import tiny
from treeopt.measure.generations import Generation
from treeopt.train.callbacks import Progress
from treeopt.train.medusa1 import HeadSettings, train_medusa1
from treeopt.train.medusa2 import train_medusa2
from treeopt.train.trainer import HeadTrainer, LoopSettings


def cyclic(count=10, length=20):
    """Answers of Cycle."""
    return [
        Generation(f"p{n}", "all", 0, [n % 7], [(n + 1 + i) % 7 for i in range(length)], "limit")
        for n in range(count)
    ]


def ragged(shapes):
    """Answers of these lengths of prompt and answer, of ids without a pattern."""
    return [
        Generation(
            f"p{n}",
            "all",
            0,
            [(7 * n + i * i) % 48 + 2 for i in range(prompt)],
            [(11 * n + 5 * i * i + i) % 48 + 2 for i in range(answer)],
            "limit",
        )
        for n, (prompt, answer) in enumerate(shapes)
    ]


RAGGED = ragged([(3, 9), (8, 5), (1, 14), (5, 7), (2, 6), (6, 11), (4, 5), (7, 8)])


def fresh(family="llama", dtype=None, **changes):
    """A random backbone of one's own, the same each time."""
    dtype = {} if dtype is None else {"dtype": dtype}
    return tiny.wrap(tiny.random_model(family, **dtype, **changes), family)


def medusa1(model, answers, directory, shape=None, *, precompute=True, overwrite=False, **loop):
    """`train_medusa1` with two heads, unless told otherwise, and loop settings as keywords."""
    shape = HeadSettings(**({"heads": 2, "held_out": 0.25} | (shape or {})))
    settings = LoopSettings(**({"epochs": 1, "batch_size": 2} | loop))
    return train_medusa1(
        model, answers, shape, settings, directory, precompute=precompute, overwrite=overwrite
    )


def medusa2(
    model, answers, directory, shape=None, *, lora, warmup=True, self_distill=False, precompute=True, **loop
):
    """`train_medusa2` likewise; both stages have the same loop settings."""
    shape = HeadSettings(**({"heads": 2, "held_out": 0.25} | (shape or {})))
    joint = LoopSettings(**({"epochs": 1, "batch_size": 2, "lambda_0": 0.2} | loop))
    first = LoopSettings(epochs=joint.epochs, batch_size=joint.batch_size) if warmup else None
    return train_medusa2(
        model,
        answers,
        shape,
        first,
        joint,
        directory,
        lora=lora,
        self_distill=self_distill,
        precompute=precompute,
    )


def log_of(directory):
    """The settings and the records of a log, which is strict JSON."""
    lines = (directory / "log.jsonl").read_text().splitlines()
    facts, *records = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    return facts, records


def assert_same(records, others, **tolerance):
    """Two logs with the same fields, whose numbers agree."""
    for one, other in zip(records, others, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            expected = value if name == "stage" else pytest.approx(value, **tolerance)
            assert other[name] == expected, (name, one, other)


def weights_of(heads):
    """Copies of all that heads consist of."""
    return {name: value.clone() for name, value in heads.state_dict().items()}


def note_losses(monkeypatch):
    """A list that every loss of training is appended to, as a number."""
    seen = []
    compute_loss = HeadTrainer.compute_loss

    def noted(self, *args, **kwargs):
        loss = compute_loss(self, *args, **kwargs)
        seen.append(loss.item())
        return loss

    monkeypatch.setattr(HeadTrainer, "compute_loss", noted)
    return seen


def ctrl_c(monkeypatch, stage, step, times=1):
    """Ctrl-C while this step of the stage is under way."""
    on_step_end = Progress.on_step_end

    def pressed(self, args, state, control, **kwargs):
        if (self._name, state.global_step) == (stage, step):
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        on_step_end(self, args, state, control, **kwargs)

    monkeypatch.setattr(Progress, "on_step_end", pressed)
