"""What needs no model loads no torch; help is there for every command; runs and settings have their defaults."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from tests.cli.command_line import succeed
from treeopt import __version__
from treeopt.artifact import read_json
from treeopt.cli import COMMANDS, main
from treeopt.cli.run import RunDirectory, default_directory, next_command
from treeopt.search.choice import read_choice
from treeopt.search.grow import Growth

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
HEAVY = {"torch", "transformers", "pandas", "scipy", "numpy"}
RUN_ALL = """
import json, sys
from treeopt.cli import main
for arguments in json.loads(sys.argv[1]):
    main(arguments, standalone_mode=False)
print("LOADED", *sys.modules)
"""


def loaded_by(*commands: Sequence[object]) -> set[str]:
    """Top-level modules in memory after these command lines, run in one process."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", RUN_ALL, words], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.rpartition("LOADED")[2].split()}


def commands(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


def test_help_loads_nothing_heavy():
    helps = [["--help"], ["optimize", "--help"], ["simulate", "--help"], ["train", "medusa1", "--help"]]
    assert loaded_by(*helps).isdisjoint(HEAVY)


def test_numbers_load_no_torch(copied, tmp_path):
    table, latency = tmp_path / "table.json", tmp_path / "latency.csv"
    table.write_text("[[0.6, 0.2], [0.5, 0.1]]")
    latency.write_text("batch,context,tokens,latency_ms\n1,128,1,10\n1,128,4,11\n")
    loaded = loaded_by(
        ["grow", "--run", copied],
        ["grow", "--accuracy", table, "-o", tmp_path / "growth.json"],
        ["choose", "--run", copied],
        ["choose", "--accuracy", table, "--latency", latency, "-o", tmp_path / "choice.json"],
        ["replay", "--run", copied],
        ["simulate", "--run", tmp_path / "simulated"],
        ["export", "--run", copied, "--format", "json"],
        ["export", "--run", copied, "--format", "vllm", "--sizes", "2,3"],
        *[["inspect", copied / name] for name in ("choice.json", "latency.json", "generations.jsonl")],
        ["inspect", copied / "ranks.safetensors"],
    )
    assert loaded.isdisjoint({"torch", "transformers"})


WITHOUT_RUN = {("inspect",), ("check",), ("heads", "inspect"), ("heads", "convert")}
"""What is told of files alone."""


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_every_command_has_help_an_example_and_options_with_help(path, command):
    text = succeed(*path, "--help").stdout
    assert command.help
    example = next(line.strip() for line in text.splitlines() if line.strip().startswith("Example: treeopt "))
    assert all(option in text for option in example.split() if option.startswith("--"))
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
    if not isinstance(command, click.Group):
        options = {option for param in command.params for option in param.opts}
        assert {"--json"} | ({"--run"} if path not in WITHOUT_RUN else set()) <= options


OWN_MEANING = {("check", "--heads"), ("check", "--top-k"), ("export", "--fit")}
"""A number of heads and not heads; guesses that a runtime takes, not those to sample from; a tree, not a profile."""


def test_an_option_means_the_same_everywhere():
    seen: dict[str, set[tuple[object, ...]]] = {}
    for path, command in commands():
        for param in command.params:
            if (*path, param.opts[-1]) in OWN_MEANING:
                continue
            if isinstance(param, click.Option) and param.opts[-1] not in (
                "--output",
                "--batch-size",
                "--fresh",
                "--seed",
            ):
                seen.setdefault(param.opts[-1], set()).add((str(param.type), param.metavar))
    assert {name: kinds for name, kinds in seen.items() if len(kinds) > 1} == {}


def test_the_command_line_without_anything_is_help():
    assert [name for (name, *rest), _ in commands() if not rest] == list(COMMANDS)
    assert __version__ in succeed("--version").stdout


def test_choose_from_two_files_alone(tmp_path, monkeypatch):
    """Pitfall 6: more nodes, better acceptance, worse speed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text("[[0.6,0.2,0.1],[0.5,0.2,0.05],[0.4,0.1,0.05]]")
    latencies = [10.0, 10.1, 10.2, 10.3, 10.4, 14.0, 14.1, 14.2, 14.3]
    rows = [f"1,128,{n},{ms}" for n, ms in enumerate(latencies, start=1)]
    (tmp_path / "latency.csv").write_text("\n".join(["batch,context,tokens,latency_ms", *rows]) + "\n")
    result = succeed("choose", "--accuracy", "mine.json", "--latency", "latency.csv")
    [choice] = read_choice(tmp_path / "results" / "mine" / "choice.json")
    assert choice.tokens == 5 and round(choice.tokens_per_s, 1) == 213.5
    assert result.stdout.endswith("next: treeopt export --format json --run results/mine\n")
    exported = succeed("export", "--format", "medusa", "--run", "results/mine")
    assert "next: treeopt inspect results/mine/medusa_choices.py" in exported.stdout


def test_growth_that_runs_out_says_so(tmp_path, monkeypatch):
    """Pitfall 4: 39 draft nodes of a table that has no more, a notice, exit 0."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text("[[0.6,0.2,0.1],[0.5,0.2,0.05],[0.4,0.1,0.05]]")
    result = succeed("grow", "--accuracy", "mine.json", "--budget", 61)
    assert "stopped at 40 of 61 nodes" in result.stderr
    growth = Growth.read(tmp_path / "results" / "mine" / "growth.json")
    assert growth.size == 40 and growth.tokens_per_step[-1] == pytest.approx(2.94625)
    limited = succeed("grow", "--accuracy", "mine.json", "--max-depth", 1, "--max-rank", 1, "--contiguous")
    assert "3 nodes" in limited.stdout


def test_published_accuracies_grow_trees(tmp_path, monkeypatch):
    source = SHARED / "published_head_accuracy.json"
    if not source.is_file():
        pytest.skip("no published accuracies here")
    monkeypatch.chdir(tmp_path)
    for name in ("7b", "13b", "33b"):
        result = succeed("grow", "--accuracy", f"{source.resolve()}:{name}")
        run = f"results/published_head_accuracy-{name}"
        assert result.stdout.endswith(f"next: treeopt choose --latency latency.csv --run {run}\n")
        assert len(read_json(tmp_path / run / "growth.json")["tokens_per_step"]) == 64


def test_inspect_draws_with_values(tmp_path):
    (tmp_path / "tree.py").write_text("a = [(0,), (1,), (0, 0)]\nb = [(0,)]\n")
    (tmp_path / "table.json").write_text("[[0.5, 0.25], [0.5, 0.1]]")
    listed = succeed("inspect", tmp_path / "tree.py").stdout
    assert "a " in listed and "b " in listed and f"next: treeopt inspect {tmp_path / 'tree.py'}:a" in listed
    drawn = succeed("inspect", f"{tmp_path / 'tree.py'}:a", "--accuracy", tmp_path / "table.json").stdout
    assert "4 nodes" in drawn and "0: 0.500" in drawn and "1: 0.250" in drawn


@pytest.mark.parametrize(
    ("model", "directory"),
    [(None, "demo"), ("org/Name-1b", "Name-1b"), ("models/x.Q4.gguf", "x.Q4"), ("a/b/", "b"), (".", "here")],
)
def test_the_run_is_named_after_the_model(model, directory, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert default_directory(model) == Path("results") / directory


def test_the_next_command_has_what_it_needs_and_no_more():
    asked = {"asked": {"model": "org/x", "device": "cpu"}}
    assert next_command("grow", RunDirectory(Path("results/demo"))) == "treeopt grow"
    assert next_command("grow", RunDirectory(Path("results/x")), asked) == "treeopt grow --run results/x"
    own = next_command("profile", RunDirectory(Path("results/x")), asked, "--sizes", "3")
    assert own == "treeopt profile --sizes 3 --model org/x --device cpu"
    assert next_command("evaluate", RunDirectory(Path("a b")), asked).endswith("--run 'a b'")
