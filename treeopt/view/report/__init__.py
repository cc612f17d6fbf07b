"""The report of a run: one HTML page that needs nothing else, no script and no network."""

from treeopt.view.report.contents import Contents, Export, Made
from treeopt.view.report.figures import draw_figures
from treeopt.view.report.page import page

__all__ = ["Contents", "Export", "Made", "draw_figures", "page"]
