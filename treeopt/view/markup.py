"""HTML from plain functions: text is escaped where it enters, so that no file's content becomes markup."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from treeopt.view.tables import cell


class Markup(str):
    """Text that is HTML already, and so is not escaped again."""

    __slots__ = ()


Content = str | None
"""What stands in an element: markup, text that is yet to be escaped, or nothing."""


def element(name: str, *contents: Content, **attributes: str | None) -> Markup:
    """`<name ...>contents</name>`; `class_` is the attribute class, `aria_label` aria-label, None leaves one out."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(f' {key}="{escape(value)}"' for key, value in given.items() if value is not None)
    return Markup(f"<{name}{written}>{joined(contents)}</{name}>")


def joined(contents: Iterable[Content]) -> Markup:
    """One after the other."""
    return Markup("".join(_escaped(content) for content in contents if content is not None))


def table_element(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table in a box of its own, which scrolls where the page is too narrow; cells as in a table of text."""
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    body = [
        element(
            "tr", element("th", cell(first), scope="row"), *(element("td", cell(value)) for value in others)
        )
        for first, *others in rows
    ]
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0")


def _escaped(content: str) -> str:
    return content if isinstance(content, Markup) else escape(content)
