"""The numbers in the pages that summarise results are on the pages of results that they link."""

import re

import pytest

from tests.docs.pages import ROOT

NUMBER = r"[+−]?\d+(?:\.\d+)?"
INTERVAL = re.compile(rf"({NUMBER})(?: points| AUC|:)? [\[(]({NUMBER})(?:,| to) ({NUMBER})[\])]")


def intervals(text):
    """The differences with intervals in a text, without signs, which words may replace."""
    plain = " ".join(text.replace("**", "").replace("\\*", "").split())
    return {tuple(sorted(part.lstrip("+−") for part in found)) for found in INTERVAL.findall(plain)}


@pytest.mark.parametrize("page", ["decide", "when-it-helps"])
def test_each_interval_is_on_a_linked_page(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(results/(\w+)\.md", text))
    known = set().union(*(intervals((ROOT / f"docs/results/{name}.md").read_text(encoding="utf-8")) for name in linked))
    stated = intervals(text)
    assert len(stated) > 10
    assert stated <= known


def test_when_it_helps_is_short():
    assert len((ROOT / "docs/when-it-helps.md").read_text(encoding="utf-8").split()) <= 900
