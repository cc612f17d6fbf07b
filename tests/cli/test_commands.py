"""Commands beyond the plain way through: more sizes, several settings, other weights, runtimes, training."""

import json

from tests.cli.command_line import fail, following, succeed
from treeopt.artifact import read_json
from treeopt.export.read import read_trees
from treeopt.measure.profile import STRETCH
from treeopt.search.choice import read_choice
from treeopt.search.latency import LatencyProfile


def test_sizes_add_to_the_profile(copied, tiny, heads):
    before = LatencyProfile.read(copied / "latency.json")
    [setting] = before.settings()
    succeed(
        "profile",
        "--run",
        copied,
        "--model",
        tiny,
        "--heads",
        heads,
        "--sizes",
        "6",
        "--sizes",
        "5,6",
        "--repeats",
        2,
    )
    after = LatencyProfile.read(copied / "latency.json")
    assert after.settings() == [setting]
    assert after.sizes(*setting) == [2, 4, 5, 6, 8, 16]
    assert len(after.latencies(*setting, 5)) == STRETCH
    assert len(after.plain_latencies(*setting)) == len(before.plain_latencies(*setting)) + STRETCH


def test_several_batches_and_contexts_are_several_choices(copied, tiny, heads):
    model = ["--run", copied, "--model", tiny, "--heads", heads]
    arguments = ["--batch", "1,3", "--context", 10, "--context", 20, "--repeats", 2]
    (copied / "latency.json").unlink()
    succeed("profile", *model, *arguments, "--sizes", "2,4")
    succeed("choose", "--run", copied)
    choices = read_choice(copied / "choice.json")
    assert [(choice.batch, choice.context) for choice in choices] == [(1, 10), (1, 20), (3, 10), (3, 20)]
    assert "name one as" in fail("export", "--run", copied, "--format", "json")
    succeed("export", "--run", copied, "--format", "json", "--tree", f"{copied}/choice.json:batch3-context20")
    assert read_json(copied / "choices.json.meta.json")["batch"] == 3


def test_random_weights_are_profiled_without_a_model(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--context", 8, "--sizes", 4, "--repeats", 2, "--num-heads", 2]
    result = succeed("profile", "--random-weights", "--config", tiny / "config.json", *arguments)
    assert "next: treeopt choose --accuracy FILE --run" in result.stdout
    profile = LatencyProfile.read(tmp_path / "results" / "random-tiny" / "latency.json")
    assert profile.provenance["model"] == "random-llama"


def test_an_exported_tree_is_the_chosen_one_with_its_origin(copied):
    [choice] = read_choice(copied / "choice.json")
    for name, file in (("json", "choices.json"), ("medusa", "medusa_choices.py")):
        succeed("export", "--run", copied, "--format", name)
        [tree] = read_trees(copied / file).values()
        assert tree == choice.tree
    text = (copied / "medusa_choices.py").read_text()
    for name in ("model", "template", "dtype", "positions", "context"):
        assert f"# {name}: " in text


def test_training_again_needs_a_word(copied, tiny):
    arguments = ["train", "medusa1", "--run", copied, "--model", tiny, "--epochs", 1]
    first = succeed(*arguments, "--num-heads", 2)
    assert (copied / "heads" / "log.jsonl").is_file()
    assert following(first)[0] == "calibrate"
    before = (copied / "heads" / "medusa_lm_head.safetensors").read_bytes()
    assert "--overwrite" in fail(*arguments)
    assert (copied / "heads" / "medusa_lm_head.safetensors").read_bytes() == before
    succeed(*arguments, "--overwrite", "--seed", 0, "--generations", copied / "generations.jsonl")
    settings, *_ = (copied / "heads" / "log.jsonl").read_text().splitlines()
    assert json.loads(settings)["heads"] == 5, "the log is the new run's"
    content = json.loads(succeed("calibrate", "--run", copied, "--model", tiny, "--json").stdout)
    assert len(content["heads"]) == 5, "trained heads are used from the next calibration on"
