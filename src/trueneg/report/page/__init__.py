"""The results page: one file that opens from disk, with every study's question, answer, numbers and what made them."""

from trueneg.report.page.content import PageFigure, PageTable, StudyPage
from trueneg.report.page.render import render_page

__all__ = ["PageFigure", "PageTable", "StudyPage", "render_page"]
