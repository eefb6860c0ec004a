"""The results page: one file that opens from disk, with the question, answer, numbers and
provenance of every study.
"""

from trueneg.report.page.render import render_page
from trueneg.report.page.study import study_page

__all__ = ["render_page", "study_page"]
