"""The papers' configuration files have the papers' values; papers.csv has a line per number, with
its place in the paper.

Where it was read: in the text, a table, the caption of a figure, the public code that the paper
follows, or a paper that it follows; or it was read off a figure, which the page of gaps says, too.
A value that differs from the paper's names the line of docs/protocol-gaps.md that says so, by its
words in bold.
"""

import csv
import json
import re

import pytest

from tests.projects import ROOT
from trueneg.config.reading import read_configuration

FILES = {path.stem: path for path in sorted((ROOT / "config/papers").glob("*.yaml"))}
with (ROOT / "tests/config/papers.csv").open(encoding="utf-8") as file:
    VALUES = list(csv.DictReader(file))
STATED = set(
    re.findall(
        r"^- \*\*\[?(.+?)\]?(?:\(.*?\))?\*\*",
        (ROOT / "docs/protocol-gaps.md").read_text(encoding="utf-8"),
        re.M,
    )
)


@pytest.fixture(scope="module")
def resolved():
    return {name: read_configuration([path]).resolved() for name, path in FILES.items()}


def setting(study, key):
    """The value at a dotted key; the names in it, where it is a section of objectives."""
    for part in key.split("."):
        study = study[part]
    return list(study) if isinstance(study, dict) else study


def test_every_paper_and_every_study_of_its_file_has_values(resolved):
    listed = {(row["paper"], row["study"]) for row in VALUES}
    assert {paper for paper, _ in listed} == FILES.keys()
    trained = {
        (paper, name)
        for paper, studies in resolved.items()
        for name, study in studies.items()
        if "objectives" in (study or {})
    }
    assert trained <= listed


def test_every_value_is_listed_once_with_its_place():
    keys = [(row["paper"], row["study"], row["key"], row["place"]) for row in VALUES]
    assert len(set(keys)) == len(keys)
    places = {
        "text": r"(section|appendix) [A-Z\d]",
        "table": r"Table \d",
        "caption": r"Fig\. \d",
        "code": r"(appendix B\.2: )?(BCL|DCL|HCL)'s (image/)?\w+\.(py|md)",
        "cited": r"section 4\.1: as ConVIRT",
        "figure": r".*Fig\. \d",
    }
    for row in VALUES:
        assert re.match(places[row["read_from"]], row["place"]), row


def test_the_page_of_gaps_names_each_value_that_was_read_off_a_figure():
    for row in VALUES:
        if row["read_from"] == "figure":
            (figure,) = re.findall(r"Fig\. \d\w?", row["place"])
            assert any(figure in words for words in STATED), row


@pytest.mark.parametrize("row", VALUES, ids=lambda row: f"{row['study']}.{row['key']}")
def test_the_file_has_the_papers_value_or_the_page_of_gaps_says_that_it_differs(row, resolved):
    ours, printed = (
        setting(resolved[row["paper"]][row["study"]], row["key"]),
        json.loads(row["value"]),
    )
    if row["deviation"]:
        assert ours != printed, "no deviation: leave the column empty"
        assert row["deviation"] in STATED
    else:
        assert ours == printed
