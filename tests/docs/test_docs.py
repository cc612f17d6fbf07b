"""The pages in docs/ are in step with the code, and name only commands, options, links and files that exist."""

import csv
import importlib.util
import json
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest
from safetensors import safe_open

from tests.test_readme import code_blocks, commands, complaints
from treeopt.cli import main
from treeopt.cli.run import RunDirectory
from treeopt.export import FORMATS
from treeopt.model.layouts import LAYOUTS
from treeopt.search.choice import Choice, Plain, Point
from treeopt.tree import chain

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DEMO = ROOT / "results" / "reference" / "cpu" / "demo"
PAGES = sorted(DOCS.glob("*.md"))
READ = [*PAGES, ROOT / "README.md"]
ROOMS = ("treeopt", "tests", "docs", "benchmarks", "calibration", "notebooks", "results/reference")
YOURS = {
    *("prompts.jsonl", "latency.csv", "ranks.csv", "accuracies.json", "config.json", "config.pbtxt"),
    *("choices.py", "questions.jsonl", "inference/cli.py", "convert_checkpoint.py", "run.py", "summarize.py"),
    *(
        "fill_template.py",
        "tools/fill_template.py",
        "growth-vllm.json",
        "log.jsonl",
        "medusa_lm_head.safetensors",
    ),
}
"""Files of a reader, of a runtime, or with a name that depends on something."""


def load_build():
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load_build()


def prose(text):
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def spans(text):
    """Inline code, on one line each."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(text))]


def anchors(text):
    """What a link may name in a page: its headings, as they are spelled in links."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page, text):
    """Relative links of a page that lead nowhere."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.exists() or ":" in path
        if not there or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            found.append(link)
    return found


def unknown_files(text):
    """Names of files in inline code that are neither in the repository, nor written by treeopt, nor the reader's."""
    written = {path.name for path in vars(RunDirectory(Path("run"))).values()}
    written |= {path.name for path in DEMO.iterdir()}
    for format in FORMATS.values():
        written |= {format.file_name + suffix for suffix in format.write(chain(3), {}, 3)}
    found = []
    for span in spans(text):
        if re.fullmatch(rf"({'|'.join(ROOMS)})/[\w./-]*", span):
            found += [] if (ROOT / span).exists() else [span]
        elif re.fullmatch(r"[\w./-]+\.(json|jsonl|csv|safetensors|html|py|yml|args|pbtxt|pt)", span):
            found += [] if span in written | YOURS else [span]
    return found


def parse(arguments):
    """Everything that click checks of a command line short of running it; UsageError where something is wrong."""
    group: click.Command | None = main
    name, rest = "treeopt", list(arguments)
    while isinstance(group, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        group = group.get_command(click.Context(group), name)
    if group is None:
        raise click.UsageError(f"no command {name}")
    group.make_context(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_in_step(page):
    text = page.read_text(encoding="utf-8")
    assert build.build(text) == text, "run `python docs/build.py`"
    assert text.count("<!-- build: ") == text.count("<!-- built -->") == len(build.PART.findall(text))


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there_or_is_written(page):
    assert unknown_files(page.read_text(encoding="utf-8")) == []


TYPED = [
    pytest.param(arguments, id=f"{page.name}: {' '.join(arguments)}")
    for page in READ
    for arguments in commands(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("arguments", TYPED)
def test_every_line_to_type_parses(arguments):
    try:
        parse(arguments)
    except click.exceptions.Exit:
        assert "--help" in arguments or "--version" in arguments


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_commands_in_the_text_exist_with_the_options_shown(page):
    for span in spans(page.read_text(encoding="utf-8")):
        if span.startswith("treeopt ") and "|" not in span:
            assert complaints(span.removesuffix(" ...").split()[1:], main) == []


def test_every_command_is_on_one_page():
    parts = [part for page in PAGES for _, part, _ in build.PART.findall(page.read_text(encoding="utf-8"))]
    described = sorted(part.removeprefix("command ") for part in parts if part.startswith("command "))
    assert described == sorted(name for name, _ in build.leaves())
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in index for name in described)
    assert all(f"({page.name})" in index for page in PAGES if page.name != "index.md")


@pytest.mark.parametrize("name", FORMATS)
def test_every_runtime_has_a_section_with_all_that_it_needs(name):
    text = (DOCS / "runtimes.md").read_text(encoding="utf-8")
    [section] = re.findall(rf"^## {name}\n(.*?)(?=^## )", text, flags=re.MULTILINE | re.DOTALL)
    assert f"<!-- build: runtime {name} -->" in section
    assert f"<!-- build: session {name}" in section
    for layout in LAYOUTS.values():
        assert layout.format != name or f"--layout {layout.name}" in section
    if name != "json":
        assert "Timing: " in section
        assert f"--format {name} --sizes" in section or "as for [trtllm]" in section


ARTIFACTS = (DOCS / "artifacts.md").read_text(encoding="utf-8")


def documented(heading, text=ARTIFACTS):
    """The words in inline code below one heading."""
    [section] = re.findall(
        rf"^## {re.escape(heading)}[^\n]*\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL
    )
    return {word for span in spans(section) for word in re.findall(r"\w+", span)}


def names(value):
    """Names of the fields of an artifact, and of the objects in its lists."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    inner = {"provenance", "categories", "divergences"}
    return set(value).union(*(names(part) for name, part in value.items() if name not in inner))


@pytest.mark.parametrize("name", ["growth.json", "latency.json", "choice.json", "evaluation.json"])
def test_every_field_of_an_artifact_is_described(name):
    content = json.loads((DEMO / name).read_text())
    assert names(content) - {"kind", "schema", "provenance"} <= documented(name)
    assert set(content["provenance"]) <= documented("provenance")


def test_every_field_of_a_choice_is_described():
    for noun in (Choice, Point, Plain):
        assert {field.name for field in fields(noun)} - {"provenance"} <= documented("choice.json")


def test_every_column_array_and_record_is_described():
    with (DEMO / "accuracy.csv").open(newline="") as file:
        assert set(next(csv.reader(file))) <= documented("accuracy.csv")
    with safe_open(DEMO / "ranks.safetensors", framework="numpy") as file:
        header = json.loads(file.metadata()["treeopt"])
        assert set(file.keys()) | set(header) - {"kind", "schema"} <= documented("ranks.safetensors")
    answer = json.loads((DEMO / "generations.jsonl").read_text().splitlines()[0])
    assert set(answer) <= documented("generations.jsonl")
    log = (ROOT / "calibration" / "smollm2-135m" / "heads" / "log.jsonl").read_text().splitlines()
    records = [set(json.loads(line)) for line in log[1:]]
    assert set().union(*records) - {"stage", "step", "epoch"} <= documented("log.jsonl")


SAMPLE = """
# A page

See [this](#a-page), [that](index.md#treeopt), [nothing](nothing.md) and [nowhere](index.md#nowhere).
`treeopt/cli` and `choice.json` are there, `treeopt/nothing.py` and `nothing.json` are not.

```bash
treeopt grow --budget 0
```

<!-- build: options -->
stale
<!-- built -->
"""


def test_the_checks_find_what_is_wrong():
    assert broken_links(DOCS / "sample.md", SAMPLE.replace("#a-page", "runtimes.md")) == [
        "nothing.md",
        "index.md#nowhere",
    ]
    assert unknown_files(SAMPLE) == ["treeopt/nothing.py", "nothing.json"]
    assert code_blocks(SAMPLE) == [("bash", "treeopt grow --budget 0\n")]
    for arguments in (*commands(SAMPLE), ["shrink"], ["grow", "--nope"], ["check", "file"]):
        with pytest.raises(click.UsageError):
            parse(arguments)
    built = build.build(SAMPLE)
    assert "stale" not in built and "`--run DIR`" in built
    assert names({"a": [{"b": 1}], "provenance": {"c": 1}}) == {"a", "b", "provenance"}
    assert documented("x", "## x\n`a`, `b c`\n## y\n`d`\n") == {"a", "b", "c"}
