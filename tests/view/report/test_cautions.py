"""Every warning: given where it holds, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from tests.view.report.samples import export, latency, whole, with_provenance
from treeopt.search.accuracy import AccuracyTable
from treeopt.tree import chain
from treeopt.view.report.cautions import cautions


def evaluated(contents, **facts):
    return replace(
        contents,
        evaluation={**contents.evaluation, "provenance": {**contents.evaluation["provenance"], **facts}},
    )


def last_run(contents, **fields):
    *before, last = contents.evaluation["runs"]
    return replace(contents, evaluation={**contents.evaluation, "runs": [*before, last | fields]})


def few_trials(contents):
    return replace(contents, accuracy=AccuracyTable(np.array([[0.5], [0.4]]), trials=np.array([900, 30])))


DIVERGED = {"id": "p1", "position": 3, "margin": 0.5}


def test_a_run_without_flaw_has_few():
    assert [text for text in cautions(whole()) if "not timed" not in text] == []


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (replace(whole(), found=("growth.json: not JSON",)), "growth.json: not JSON"),
        (with_provenance(whole(), "growth.json", ranks_sha256="d" * 64), "growth.json is out of date"),
        (replace(whole(), exports=(export(chain(2)),)), "medusa_choices.py does not hold the chosen tree"),
        (with_provenance(whole(), "latency.json", heads_sha256="e" * 64), "heads is"),
        (
            with_provenance(whole(), "evaluation.json", dtype="bfloat16"),
            "dtype is float32 in ranks.safetensors",
        ),
        (with_provenance(whole(), "latency.json", device="cuda", platform="x"), None),
        (
            with_provenance(
                with_provenance(whole(), "latency.json", device="cuda"), "evaluation.json", device="cpu"
            ),
            "device is cuda in latency.json; cpu in evaluation.json",
        ),
        (whole(simulated=True), "latencies are simulated"),
        (replace(whole(), choices=(), latency=latency(simulated=True)), "latencies are simulated"),
        (replace(whole(), growth=replace(whole().growth, stopped="stopped at 3")), "growth stopped at 3"),
        (replace(whole(), evaluation=None), "nothing was decoded"),
        (last_run(whole(), choices=[[0]]), "the chosen tree was not decoded with"),
        (whole(settings=((1, 64), (4, 64))), "speeds of larger batches are predictions"),
        (whole(measured=999.0), "measured 999.0 token/s, outside the predicted 95 % interval"),
        (whole(plain=5000.0), "plain decoding by treeopt is at least as fast: 5000.0 token/s"),
        (evaluated(whole(), split="all"), "decoded on the prompts of --split all"),
        (
            last_run(whole(), divergences=[DIVERGED | {"excused": False}]),
            "1 answers are not plain decoding's",
        ),
        (last_run(whole(), divergences=[DIVERGED | {"excused": True}]), None),
        (last_run(whole(), nan_nodes=2), "2 nodes were rejected"),
        (few_trials(whole()), "head 2: accuracies of less than 200 positions"),
        (replace(whole(), ranks=whole().ranks.split("calibrate")), "no replay of prompts"),
    ],
)
def test_each_is_given_where_it_holds(contents, words):
    found = [text for text in cautions(contents) if "not timed" not in text]
    if words is None:
        assert found == []
    else:
        assert any(words in text for text in found), found


def test_what_holds_at_every_setting_is_said_once():
    found = cautions(whole(settings=((1, 64), (4, 64)), simulated=True))
    assert len([text for text in found if "simulated" in text]) == 1
