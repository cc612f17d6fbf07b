"""Text becomes HTML without becoming markup."""

from treeopt.view.markup import Markup, element, joined, table_element


def test_text_is_escaped_and_markup_is_not_escaped_again():
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert element("p", "a < b, ", inner) == "<p>a &lt; b, <b>&lt;&amp;&gt;</b></p>"
    assert joined(["<", Markup("<br>"), None]) == "&lt;<br>"


def test_attributes_are_escaped_and_none_is_left_out():
    assert element("a", class_="x", aria_label='say "no"', id=None) == (
        '<a class="x" aria-label="say &quot;no&quot;"></a>'
    )


def test_a_table_has_headings_for_columns_and_rows():
    html = table_element(["name", "N"], [["<x>", 1234], ["y", None]])
    assert '<th scope="col">N</th>' in html and '<th scope="row">&lt;x&gt;</th><td>1,234</td>' in html
    assert "<td>-</td>" in html
