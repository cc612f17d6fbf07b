"""`treeopt report` on the reference run of the demo: whole, and with artifacts that are broken, stale or gone."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command_line import fail, succeed
from tests.cli.test_damage import damaged
from treeopt.cli.run import RunDirectory
from treeopt.cli.stages.report import load_contents
from treeopt.view.report import page

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "cpu" / "demo"
ARTIFACTS = "growth.json choice.json evaluation.json latency.json generations.meta.json".split()


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(REFERENCE, tmp_path / "run"))


def test_the_page_and_its_figures_are_written(run):
    result = succeed("report", "--run", run)
    html = (run / "report.html").read_text()
    assert "Decode with the tree of 8 tokens: measured 1.34x" in html
    assert f"--medusa-choices &quot;{(run / 'choices.json').read_text().strip()}&quot;" in html
    assert (
        "treeopt evaluate --run" in html
        and json.loads((run / "evaluation.json").read_text())["provenance"]["model_sha256"] in html
    )
    assert (
        "answers repeat themselves in dates" in html and "warning: answers repeat themselves" in result.stdout
    )
    figures = {file.name for file in (run / "figures").iterdir()}
    assert {"tree.svg", "throughput.svg", "latency.svg", "heatmap.svg"} <= figures
    assert result.stdout.splitlines()[-1].startswith("next: treeopt export --format help")


def test_the_commands_that_make_the_files_make_these(run):
    """The limits of the growth, and the prompts and settings of the answers, are not the defaults."""
    meta = run / "generations.meta.json"
    content = json.loads(meta.read_text())
    content["provenance"] |= {"prompt_file": "my prompts.jsonl", "top_p": 0.5, "max_new_tokens": 48}
    meta.write_text(json.dumps(content))
    commands = {name: made.command for name, made in load_contents(RunDirectory(run)).made.items()}
    typed = "--prompts 'my prompts.jsonl' --template none --max-new-tokens 48 --temperature 0.0 --top-p 0.5"
    assert commands["generations.jsonl"] == f"treeopt generate {typed} --run {run}"
    assert commands["growth.json"] == f"treeopt grow --budget 128 --max-rank 9 --run {run}"


def test_json_lists_what_was_written_and_what_is_warned_of(run, tmp_path):
    content = json.loads(succeed("report", "--run", run, "-o", tmp_path / "x" / "page.html", "--json").stdout)
    assert Path(content["file"]).is_file() and all(Path(file).is_file() for file in content["figures"])
    assert {Path(file).parent for file in content["figures"]} == {tmp_path / "x" / "figures"}
    assert any("repeat themselves" in text for text in content["warnings"])
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    "file",
    [
        "ranks.safetensors",
        "growth.json",
        "latency.json",
        "choice.json",
        "evaluation.json",
        "generations.jsonl",
    ],
)
def test_a_broken_file_is_a_warning_and_its_sections_are_left_out(run, file):
    (run / file).write_bytes((run / file).read_bytes()[:300])
    (run / "heads").mkdir()
    (run / "heads" / "log.jsonl").write_text("3\n")
    contents = load_contents(RunDirectory(run))
    assert any(file in text for text in contents.found) and file not in contents.made
    assert any("not a training log" in text for text in contents.found)
    assert file in page(contents, {})


def test_files_of_other_runs_are_named(run):
    for file, old, new in (
        ("latency.json", '"heads_sha256": "8c6c', '"heads_sha256": "0000'),
        ("medusa_choices.py", "(2,), ", ""),
    ):
        text = (run / file).read_text()
        assert old in text
        (run / file).write_text(text.replace(old, new))
    warnings = json.loads(succeed("report", "--run", run, "--json").stdout)["warnings"]
    assert any("choice.json is out of date, made from another latency.json" in text for text in warnings)
    assert any("heads is 8c6c" in text and "0000" in text for text in warnings)
    assert any("medusa_choices.py does not hold the chosen tree" in text for text in warnings)


def test_where_there_is_nothing_to_report_is_one_line(tmp_path, run):
    assert "nothing to report; `treeopt optimize` makes a run" in fail("report", "--run", tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert "cannot be written" in fail("report", "--run", run, "-o", tmp_path / "file" / "page.html")


@settings(max_examples=60)
@given(data=st.data())
def test_no_damage_is_beyond_the_page(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("damage") / "run"
    shutil.copytree(REFERENCE, run)
    file = run / data.draw(st.sampled_from(ARTIFACTS))
    content = json.loads(file.read_text())
    damaged(content, data.draw)
    file.write_text(json.dumps(content))
    contents = load_contents(RunDirectory(run))
    assert page(contents, {}).startswith("<!doctype html>")
