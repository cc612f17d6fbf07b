"""The report in a real browser: it opens, complains of nothing, and fits a phone. Skips where no browser is installed.

A page beside the report holds it in a frame as wide as a phone and writes down what it measures: the report itself
runs no script.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.view.report.samples import whole
from treeopt.view.report import draw_figures, page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--allow-file-access-from-files", "--enable-logging=stderr"),
)
FRAME = """<!doctype html><meta charset="utf-8"><body>
<iframe src="report.html" width="360" height="800" style="border: 0" onload="
  const page = this.contentDocument, beyond = [];
  for (const part of page.querySelectorAll('main > *, section > *')) {
    if (part.getBoundingClientRect().right > page.documentElement.clientWidth + 1) beyond.push(part.tagName);
  }
  document.body.dataset.overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  document.body.dataset.beyond = beyond.join(' ');
  document.body.dataset.sections = [...page.querySelectorAll('section')].map(part => part.id).join(' ');
  document.body.dataset.figures = [...page.querySelectorAll('figure svg')].filter(
    svg => svg.getBoundingClientRect().width > 200 && svg.querySelectorAll('path').length > 5).length;
"></iframe>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here")


def browse(file: Path, profile: Path, *options: str) -> tuple[str, list[str]]:
    """The document as it stands once loaded, and what the browser's console has of it."""
    assert BROWSER is not None
    command = [BROWSER, *OPTIONS, *options, f"--user-data-dir={profile}", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    contents = whole(settings=((1, 64), (4, 64)))
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(contents, draw_figures(contents)))
    (file.parent / "frame.html").write_text(FRAME)
    return file


def test_it_opens_without_a_complaint(report, tmp_path):
    dom, console = browse(report, tmp_path / "profile")
    assert console == []
    assert len(re.findall(r'<section id="', dom)) == 10
    assert "<script" not in dom


def test_it_fits_a_phone(report, tmp_path):
    dom, console = browse(report.with_name("frame.html"), tmp_path / "profile")
    assert console == []
    found = dict(re.findall(r'data-(\w+)="([^"]*)"', dom))
    assert found["overflow"] == "0" and found["beyond"] == ""
    assert found["sections"].split() == (
        "warnings use speed settings tree acceptance heads latency training origin".split()
    )
    assert int(found["figures"]) == 12


def test_the_console_would_say_what_a_page_may_not_load(report, tmp_path):
    """That the two tests above can fail: a picture from elsewhere is refused by the page's own policy, and logged."""
    worse = report.with_name("worse.html")
    worse.write_text(report.read_text().replace("<main>", '<main><img src="figure.png" alt="">'))
    _, console = browse(worse, tmp_path / "profile")
    assert any("Content Security Policy" in line for line in console)
