"""Names out of files, made safe to print: a terminal obeys control characters, and half a surrogate has no bytes."""

import re

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""All that moves the cursor, colours or reorders text, but tabs and line feeds."""


def printable(text: str) -> str:
    """`text` with control characters as Python escapes them; tabs and line feeds stay."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def on_one_line(text: str) -> str:
    """`printable`, with tabs and line feeds escaped too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")
