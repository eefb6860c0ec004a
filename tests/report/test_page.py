"""The page is self-contained, escaped, complete and accessible."""

import base64
import hashlib
import io
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import synthetic
from PIL import Image
from tests.browser.pages import add_study, section
from tests.report.synthetic_pairs import PRINTED, PUBLISHED

from trueneg.report import registry
from trueneg.report.drawing import alternative_text, save
from trueneg.report.figures.by_condition import draw_by_place
from trueneg.report.formats import Cell, Table, from_frame
from trueneg.report.page import render_page, study_page
from trueneg.stats.measurement import Measurement

VOID = {"meta", "img", "link", "br", "hr", "input"}


class Reader(HTMLParser):
    """Collects elements with their attributes, the text of each kind of element, and unclosed
    tags.
    """

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
    drawn = draw_by_place(rows, synthetic.FRACTIONS, [Measurement("knn", "accuracy", "all")])
    png, _, _ = save(
        drawn, tmp_path_factory.mktemp("results") / "small" / "figures" / "by fraction", "Accuracy"
    )
    return drawn, png


def page_of(path, *studies):
    text = render_page(studies, path / "index.html").read_text(encoding="utf-8")
    reader = Reader(text)
    assert reader.open == []
    return text, reader


FULL = {
    "question": "Does it help?",
    "finding": "DCL gains 1.0 points over CL.",
    "facts": ["Measured with 8 seeds."],
    "headroom": ["clear headroom: so it is"],
    "warnings": ["2 runs are stale."],
    "config": "small:\n  seeds: 8\n",
    "tables": [
        ("Numbers", "In percent.", from_frame(pd.DataFrame({"objective": ["CL"], "mean": [91.25]})))
    ],
}


def test_the_page_shows_every_part_of_a_study(tmp_path, figure):
    drawn, png = figure
    study = section("small", "A small study", figures=[("By r", "Caption.", png)], **FULL)
    _, reader = page_of(png.parents[2], study)
    text = " ".join(reader.texts["body"].split())
    assert all("open" not in folded for folded in reader.of("details"))
    assert "91.25" not in reader.texts["details"]  # the first table is not folded
    parts = (
        *map(study.get, ("title", "question", "finding")),
        *study["facts"],
        *study["headroom"],
        *study["warnings"],
        "seeds: 8",
    )
    for part in (*parts, "In percent.", "91.25", "Caption."):
        assert part in text
    image = reader.of("img")[-1]
    assert image["alt"] == alternative_text(drawn)
    assert "small/figures/by%20fraction.pdf" in [link["href"] for link in reader.of("a")]


HOSTILE = "<script>alert('x')</script>\"&"


def test_all_text_is_escaped(tmp_path):
    table = Table(
        pd.DataFrame(),
        [(HOSTILE, HOSTILE)],
        [(HOSTILE, HOSTILE, [Cell(HOSTILE)])],
        [HOSTILE],
        HOSTILE,
    )
    texts = dict.fromkeys(("title", "question", "finding", "config"), HOSTILE)
    text, reader = page_of(
        tmp_path,
        section(
            "small",
            **texts,
            facts=[HOSTILE],
            headroom=[HOSTILE],
            warnings=[HOSTILE],
            tables=[(HOSTILE, HOSTILE, table)],
        ),
    )
    assert len(reader.of("script")) == 1
    assert "<script>alert" not in text
    assert HOSTILE in reader.texts["h1"]
    assert HOSTILE in reader.texts["h2"]


def test_the_page_fetches_nothing(figure):
    _, png = figure
    text, reader = page_of(
        png.parents[2], section("small", "A small study", figures=[("By r", "", png)], **FULL)
    )
    without_data = re.sub(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+", "", text)
    # The digests of the policy look like addresses and are none.
    without_data = re.sub(r"'sha256-[^']+'", "", without_data)
    assert not re.search(
        r"(https?:)?//\w", re.sub(r"^\s*//.*$", "", without_data, flags=re.MULTILINE)
    )
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    assert {tag for tag, _ in reader.elements}.isdisjoint(
        {"link", "iframe", "object", "embed", "base"}
    )
    assert all(image["src"].startswith("data:") for image in reader.of("img"))


def test_the_content_security_policy_allows_only_the_embedded_style_and_script(tmp_path):
    text, reader = page_of(tmp_path, section("small", "A small study", **FULL))
    (policy,) = [
        meta["content"]
        for meta in reader.of("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert parts["img-src"] == "data:"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        assert (
            parts[name]
            == f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
        )
    assert not any(
        attributes.keys() & {"style", "onclick", "onload", "onerror"}
        for _, attributes in reader.elements
    )


def test_the_page_supports_phones_dark_mode_and_the_keyboard(figure):
    _, png = figure
    text, reader = page_of(
        png.parents[2], section("small", "A small study", figures=[("By r", "", png)], **FULL)
    )
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in reader.of(
        "meta"
    )
    assert "prefers-color-scheme: dark" in text
    assert all(image["alt"] for image in reader.of("img"))
    assert all(
        box["tabindex"] == "0" and box["aria-label"]
        for box in reader.of("div")
        if box.get("class", "").startswith("scroll")
    )
    assert len(reader.of("summary")) == len(reader.of("details"))
    assert all(head["scope"] for head in reader.of("th"))


def content_of(image):
    """The bytes of an embedded image."""
    return base64.b64decode(image["src"].split(",", 1)[1])


def pixels_of(content, size=None):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB").resize(size or image.size), float)


def test_a_figure_is_embedded_in_full_size_and_smaller_than_its_svg(figure):
    _, png = figure
    _, reader = page_of(
        png.parents[2], section("small", "A small study", figures=[("By r", "", png)])
    )
    content, drawn = content_of(reader.of("img")[-1]), pixels_of(png.read_bytes())
    assert np.abs(pixels_of(content) - drawn).mean() < 1
    assert len(content) < png.with_suffix(".svg").stat().st_size


def test_each_card_shows_the_finding_and_the_headline_figure_and_no_image_is_embedded_twice(
    figure, tmp_path
):
    _, png = figure
    other = tmp_path / "other.png"
    Image.linear_gradient("L").convert("RGB").save(other)
    both = [("By r", "", png), ("Gradient", "", other)]
    names = ("digits", "cifar10")
    studies = [
        section(name, name, finding=f"Finding of {name}.", figures=both, headline=at)
        for at, name in enumerate(names)
    ]
    _, reader = page_of(tmp_path, *studies)
    for study, image in zip(studies, reader.of("img")[:2], strict=True):
        assert study["finding"] in reader.texts["ul"]
        shown = pixels_of(content_of(image))
        expected = pixels_of(
            study["figures"][study["headline"]][2].read_bytes(), shown.shape[1::-1]
        )
        assert np.abs(shown - expected).mean() < 5
        assert image["alt"]
    first, _ = page_of(tmp_path, studies[0])
    found = re.findall(r'data:image/[^"]+', first)
    assert len(found) == len(set(found)) == 3


def test_paired_differences_come_before_means_and_other_tables(tmp_path, figure):
    _, png = figure
    study = add_study(tmp_path, published=PUBLISHED)
    names = [*registry.figures_by_name(study)]
    assert "tradeoff_differences" in names
    (tmp_path / "phantom/figures").mkdir()
    for name in names:
        for ending in (".png", ".svg"):
            shutil.copyfile(
                png.with_suffix(ending), tmp_path / "phantom/figures" / f"{name}{ending}"
            )
    page = study_page(tmp_path / "phantom/artefacts")
    paths = [path.stem for _, _, path in page["figures"]]
    assert sorted(paths) == sorted(names)
    for name in names:
        if name.endswith("_differences"):
            assert paths.index(name) + 1 == paths.index(name.removesuffix("_differences"))
    titles = [drawing.title for drawing in registry.tables_by_name(study).values()]
    assert [title for title, _, _ in page["tables"]] == titles
    names = ["methods", "differences", *PRINTED, "tasks"]
    assert [*registry.tables_by_name(study)][:7] == names


def test_every_study_has_a_section_that_is_linked(tmp_path):
    _, reader = page_of(tmp_path, *(section(name, name.title()) for name in ("digits", "cifar10")))
    sections = [section["id"] for section in reader.of("section")]
    assert sections == ["page:overview", "digits", "cifar10"]
    assert {f"#{section}" for section in sections} <= {link["href"] for link in reader.of("a")}
    _, reader = page_of(tmp_path)
    assert "No study has results yet." in reader.texts["main"]


@pytest.mark.long
def test_a_page_with_two_thousand_runs_stays_below_8_megabytes(tmp_path):
    add_study(tmp_path, seeds=200)
    text, reader = page_of(tmp_path, study_page(tmp_path / "phantom" / "artefacts"))
    assert "2,000 runs" in reader.texts["p"]
    assert len(text) < 8_000_000


def test_a_missing_image_leaves_the_previous_page(tmp_path):
    page_of(tmp_path, section("old", "Old"))
    broken = section("new", "New", figures=[("Gone", "", tmp_path / "gone.png")])
    with pytest.raises(FileNotFoundError, match=r"gone\.png"):
        render_page([broken], tmp_path / "index.html")
    assert "Old" in (tmp_path / "index.html").read_text()
