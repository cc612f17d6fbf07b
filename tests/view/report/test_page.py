"""The page: sections where there is something for them, nothing from outside, nothing unescaped."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.view.report.samples import HOSTILE, nothing, whole
from treeopt.tree import chain
from treeopt.view.report import draw_figures, page

VOID = {"meta", "br"}
SECTIONS = "warnings use speed tree acceptance heads latency training origin".split()


class Outline(HTMLParser):
    """Elements that are closed in order, their ids, and what they refer to."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _note(self, tag, attrs):
        self.names.add(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            self.ids += [value] if name == "id" else []
            self.targets += re.findall(r"^#(.+)" if name == "href" else r"url\(#(.+?)\)", value or "")


@pytest.fixture(scope="module")
def contents():
    return replace(whole(), found=("choice.json: broken",))


@pytest.fixture(scope="module")
def html(contents):
    return page(contents, draw_figures(contents))


def test_a_file_that_holds_another_tree_says_so(contents, html):
    """The page is about the chosen tree, and a runtime without trees gets a chain."""
    assert "of the chosen tree" not in html
    for runtime, tree, said in (
        ("vllm", chain(3), "drafts no trees: the file is for a chain of 4 tokens"),
        ("medusa", chain(5), "holds another tree, of 6 tokens"),
    ):
        other = replace(contents, exports=(replace(contents.exports[0], runtime=runtime, tree=tree),))
        assert f"{said}; the figures below are of the chosen tree" in page(other, draw_figures(other))


def test_every_section_is_there_once_and_linked(html):
    outline = Outline(html)
    assert re.findall(r'<section id="([^"]+)">', html) == SECTIONS
    assert len(outline.ids) == len(set(outline.ids))
    assert set(SECTIONS) <= set(outline.targets) <= set(outline.ids)


def test_nothing_is_loaded_and_nothing_runs(html):
    outline = Outline(html)
    assert not outline.names & {"script", "link", "iframe", "object", "embed", "img"}
    assert "http:" not in html and "https:" not in html and "@import" not in html
    for name, value in outline.attributes:
        assert not name.startswith("on")
        if name in ("href", "src"):
            assert value.startswith(("#", "data:image/png;base64,"))


def test_text_from_files_stays_text(html):
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 8


def test_every_figure_is_drawn_in_the_page(contents, html):
    names = set(draw_figures(contents))
    assert names == set(
        "throughput tree depth categories speedups heatmap accuracy latency loss learning".split()
    )
    assert set(re.findall(r'id="figure-([^"]+)"', html)) == names


def test_several_settings_have_a_section_of_their_own():
    contents = whole(settings=((1, 64), (4, 64)))
    html = page(contents, draw_figures(contents))
    assert '<section id="settings">' in html
    assert set(re.findall(r'id="figure-(settings[^"]+)"', html)) == {"settings-tokens", "settings-speedup"}


@pytest.mark.parametrize(
    ("gone", "section"),
    [
        ({"choices": (), "growth": None}, "tree"),
        ({"choices": ()}, "use"),
        ({"choices": ()}, "speed"),
        ({"accuracy": None}, "heads"),
        ({"latency": None}, "latency"),
        ({"training": ()}, "training"),
        ({"made": {}}, "origin"),
        ({"evaluation": None, "ranks": None}, "acceptance"),
    ],
)
def test_a_section_is_absent_where_its_artifact_is(contents, gone, section):
    less = replace(contents, **gone)
    html = page(less, draw_figures(less))
    assert f'id="{section}"' not in html and f'href="#{section}"' not in html
    Outline(html)


def test_a_run_with_nothing_is_a_page_that_says_so():
    html = page(nothing(), draw_figures(nothing()))
    assert "<section" not in html and "Nothing is chosen yet" in html


def test_without_an_exported_file_the_command_stands_there(contents):
    html = page(replace(contents, exports=()), {})
    assert "treeopt export --format json" in html and HOSTILE not in html


def test_the_same_run_gives_the_same_bytes(contents, html):
    assert page(contents, draw_figures(contents)) == html
