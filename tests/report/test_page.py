"""The page: self-contained, escaped, complete, and legible to machines that read it aloud."""

import base64
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
import synthetic

from trueneg.report import figures
from trueneg.report.drawing import alternative_text, save
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.page import StudyPage, render_page

VOID = {"meta", "img", "link", "br", "hr", "input"}


class Reader(HTMLParser):
    """Collects elements with their attributes, the text of each kind of element, and unclosed tags."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag] = self.texts.get(tag, "") + data

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    rows = synthetic.rows(seeds=3)
    drawn = figures.accuracy_by_condition(rows, synthetic.FRACTIONS, task="knn", setting="labels=all")
    png, pdf, _ = save(drawn, tmp_path_factory.mktemp("results") / "small" / "figures" / "by fraction", "Accuracy")
    return drawn, png, pdf


def page_of(path, *studies):
    text = render_page(studies, path / "index.html").read_text(encoding="utf-8")
    reader = Reader(text)
    assert reader.open == []
    return text, reader


FULL = {
    "question": "Does it help?",
    "answer": "DCL is better than CL: +1.0 points.",
    "gate": ["informative: so it is"],
    "warnings": ["2 runs are stale."],
    "config": "small:\n  seeds: 8\n",
    "provenance": [{"run": "a1b2", "seed": 0, "versions": {"torch": "2.11"}, "seconds": 17.25}, {"run": "c3d4", "seed": 10}],
    "selection": pd.DataFrame({"objective": ["DCL"], "chosen": ["DCL,class_probability=0.1"], "candidates": [3]}),
    "tables": [("Numbers", "In percent.", pd.DataFrame({"objective": ["CL"], "mean": [91.25]}))],
}


def test_the_page_shows_everything_of_a_study(tmp_path, figure):
    drawn, png, pdf = figure
    study = StudyPage("small", "A small study", figures=[("By r", "Caption.", png, pdf)], **FULL)
    _, reader = page_of(png.parents[2], study)
    seen = " ".join(reader.texts["body"].split())
    for words in (
        "A small study",
        "Does it help?",
        "DCL is better than CL: +1.0 points.",
        "informative: so it is",
        "2 runs are stale.",
        "seeds: 8",
        "torch 2.11",
        "DCL,class_probability=0.1",
        "In percent.",
        "91.25",
        "Caption.",
    ):
        assert words in seen
    image = reader.of("img")[0]
    assert image["alt"] == alternative_text(drawn)
    assert base64.b64decode(image["src"].removeprefix("data:image/png;base64,")) == png.read_bytes()
    assert "small/figures/by%20fraction.pdf" in [link["href"] for link in reader.of("a")]


HOSTILE = "<script>alert('x')</script>\"&"


def test_text_is_escaped_wherever_it_comes_from(tmp_path):
    table = Table(pd.DataFrame(), [(HOSTILE, HOSTILE)], [Group(HOSTILE, [(HOSTILE, [Cell(HOSTILE)])])], [HOSTILE], HOSTILE)
    study = StudyPage(
        "small",
        title=HOSTILE,
        question=HOSTILE,
        answer=HOSTILE,
        gate=[HOSTILE],
        warnings=[HOSTILE],
        tables=[(HOSTILE, HOSTILE, table), (HOSTILE, HOSTILE, pd.DataFrame({HOSTILE: [HOSTILE]}))],
        config=HOSTILE,
        provenance=[{HOSTILE: HOSTILE}],
        selection=pd.DataFrame({HOSTILE: [HOSTILE]}),
    )
    text, reader = page_of(tmp_path, study, study)
    assert len(reader.of("script")) == 1
    assert "<script>alert" not in text
    assert reader.texts["h2"].count(HOSTILE) == 2


def test_nothing_is_fetched_from_anywhere(figure):
    _, png, pdf = figure
    text, reader = page_of(png.parents[2], StudyPage("small", "A small study", figures=[("By r", "", png, pdf)], **FULL))
    without_data = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", text)
    assert not re.search(r"(https?:)?//\w", re.sub(r"^\s*//.*$", "", without_data, flags=re.MULTILINE))
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    assert {tag for tag, _ in reader.elements}.isdisjoint({"link", "iframe", "object", "embed", "base"})
    assert all(image["src"].startswith("data:") for image in reader.of("img"))
    assert any("default-src 'none'" in meta.get("content", "") for meta in reader.of("meta"))


def test_the_page_can_be_read_on_a_phone_in_the_dark_and_by_keyboard(figure):
    _, png, pdf = figure
    text, reader = page_of(png.parents[2], StudyPage("small", "A small study", figures=[("By r", "", png, pdf)], **FULL))
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in reader.of("meta")
    assert "prefers-color-scheme: dark" in text
    assert all(image["alt"] for image in reader.of("img"))
    assert all(
        box["tabindex"] == "0" and box["aria-label"] for box in reader.of("div") if box.get("class", "").startswith("scroll")
    )
    assert len(reader.of("summary")) == len(reader.of("details"))
    buttons = reader.of("button")
    assert len(buttons) == 4
    assert all(head["scope"] for head in reader.of("th"))


def test_every_study_has_its_place(tmp_path):
    studies = [StudyPage(name, name.title(), answer=f"Answer of {name}.") for name in ("digits", "cifar10")]
    _, reader = page_of(tmp_path, *studies)
    places = [section["id"] for section in reader.of("section")]
    assert places == ["digits", "cifar10"]
    assert {f"#{place}" for place in places} <= {link["href"] for link in reader.of("a")}
    assert "Answer of cifar10." in reader.texts["nav"]


def test_a_page_without_studies_says_so(tmp_path):
    _, reader = page_of(tmp_path)
    assert "No study has results yet." in reader.texts["main"]


def test_two_thousand_runs_stay_a_small_page(tmp_path):
    runs = [{"run": f"{number:012x}", "objective": "CL", "seed": number, "seconds": 17.0} for number in range(2000)]
    text, reader = page_of(tmp_path, StudyPage("many", "Many", provenance=runs))
    assert len(reader.of("tr")) == 2001
    assert len(text) < 500_000


def test_a_missing_image_leaves_the_old_page(tmp_path):
    page_of(tmp_path, StudyPage("old", "Old"))
    broken = StudyPage("new", "New", figures=[("Gone", "", tmp_path / "gone.png", tmp_path / "gone.pdf")])
    with pytest.raises(FileNotFoundError, match=r"gone\.png"):
        render_page([broken], tmp_path / "index.html")
    assert "Old" in (tmp_path / "index.html").read_text()
