"""The numbers in the pages that summarise results are on the pages of results that they link."""

import re

import pytest

from tests.docs.pages import ROOT

NUMBER = r"[+−]?\d+(?:\.\d+)?"
INTERVAL = re.compile(rf"({NUMBER})(?: points| AUC|:)? [\[(]({NUMBER})(?:,| to) ({NUMBER})[\])]")


def intervals(text):
    """The differences with intervals in a text."""
    return set(INTERVAL.findall(" ".join(text.replace("**", "").replace(r"\*", "").split())))


def unsigned(found):
    """The same without signs: words may replace them, and reverse the ends."""
    return {tuple(sorted(part.lstrip("+−") for part in parts)) for parts in found}


@pytest.mark.parametrize("page", ["decide", "when-it-helps"])
def test_each_interval_is_on_a_linked_page(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(results/(\w+)\.md", text))
    known = set().union(
        *(
            intervals((ROOT / f"docs/results/{name}.md").read_text(encoding="utf-8"))
            for name in linked
        )
    )
    stated = intervals(text)
    signed = {parts for parts in stated if parts[0][0] in "+−"}
    assert len(signed) > 10
    assert {(difference.lstrip("+"), *ends) for difference, *ends in signed} <= {
        (difference.lstrip("+"), *ends) for difference, *ends in known
    }
    assert unsigned(stated - signed) <= unsigned(known)


def test_when_it_helps_is_short():
    assert len((ROOT / "docs/when-it-helps.md").read_text(encoding="utf-8").split()) <= 900
