"""A comparison as text."""

from treeopt.search.compare import Compared
from treeopt.view.comparison import compared_table


def test_a_comparison_is_by_size_with_the_difference_and_its_interval():
    lines = [
        Compared("joint", 16, 15.6, 2.5, 2.25, (2.0, 2.5), -0.25, (-0.5, 0.125)),
        Compared("random dense", 4, 3.2, None, 1.5, (1.25, 1.75), 0.5, (0.0, 1.0)),
    ]
    assert compared_table(lines).splitlines() == [
        "N            way  nodes  predicted  replayed  difference                95 %",
        "4   random dense      3          -     1.500     +0.5000  +0.0000 to +1.0000",
        "16         joint     16      2.500     2.250     -0.2500  -0.5000 to +0.1250",
    ]
