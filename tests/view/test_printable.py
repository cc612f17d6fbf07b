"""What comes out of files never steers the terminal that shows it."""

import pytest

from treeopt.view.printable import on_one_line, printable
from treeopt.view.tables import table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ├─ 漢字 é\n\tnext", "plain, ├─ 漢字 é\n\tnext"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb\x00\x7f\x9b", "a\\rb\\x00\\x7f\\x9b"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_control_characters_are_shown_as_escapes(text, shown):
    assert printable(text) == shown
    assert printable(text).encode()


def test_a_name_stays_in_its_row():
    assert on_one_line("a\nb\tc") == "a\\nb\\tc"
    assert table(["tree", "N"], [["a\nb", 3]]).splitlines() == ["tree  N", "a\\nb  3"]
