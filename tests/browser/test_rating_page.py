"""Pairs are rated by keyboard alone, without a network, and texts are shown as they are."""

import csv

import numpy as np
import pandas as pd
import pytest

from trueneg.evaluation.thumbnails import thumbnail
from trueneg.report.audit_page import write_page, write_rating_page

STRANGE = [
    "<b>bold</b><script>document.title = 'changed'</script>",
    '"><img src=x onerror="document.title = \'changed\'">',
    "مرحبا بالعالم \u202e abc",
    "👩‍👩‍👧 and 🇩🇪",
    "x" * 5000,
]


@pytest.fixture
def pairs():
    """A sample of twenty pairs."""
    lines = [
        ("0123456789ab", 3 * number, f"anchor {number}", "", STRANGE[number % 5], "")
        for number in range(20)
    ]
    return pd.DataFrame(
        lines, columns=["sample", "pair", "anchor", "positive", "negative", "false"]
    )


@pytest.fixture
def visit(browser):
    """Return a function that opens a file; errors and requests fail the test."""
    problems = []
    context = browser.new_context(viewport={"width": 390, "height": 800}, accept_downloads=True)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("file:", "blob:", "data:")) or problems.append(request.url)
        ),
    )

    def opened(path):
        page.goto(path.as_uri())
        return page

    yield opened
    context.close()
    assert problems == []


def test_twenty_pairs_are_rated_by_keyboard_and_saved(visit, pairs, tmp_path):
    path = tmp_path / "rate.html"
    write_rating_page(path, "<i>file</i>.csv", pairs)
    page = visit(path)
    shown = page.locator("article:visible")
    for number, key in enumerate("ynu" * 6 + "yn"):
        assert shown.count() == 1
        assert shown.locator("dd").last.inner_text() == STRANGE[number % 5]
        page.keyboard.press(key)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("u")  # instead of y, of the last but one
    assert page.locator("#progress").inner_text() == "20 of 20 rated"
    assert "changed" not in page.title()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    saved = download.value.path().read_text()
    page.reload()
    assert page.locator("#progress").inner_text() == "20 of 20 rated"
    page.keyboard.press("Tab")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.path().read_text() == saved
    rows = list(csv.DictReader(saved.splitlines()))
    assert [row["pair"] for row in rows] == [str(3 * number) for number in range(20)]
    assert "".join(row["false"] for row in rows) == "ynu" * 6 + "un"
    assert {row["sample"] for row in rows} == {"0123456789ab"}


def test_what_was_skipped_is_shown_again_and_choices_stay_in_view(visit, pairs, tmp_path):
    path = tmp_path / "rate.html"
    write_rating_page(path, "file", pairs)
    page = visit(path)
    for key in ("ArrowRight", "n", "ArrowDown", *"n" * 17):  # not the first and the third
        page.keyboard.press(key)
    shown = page.locator("article:visible")
    assert shown.get_attribute("data-pair") == "0"
    page.keyboard.press("y")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert shown.locator("dd").last.inner_text() == STRANGE[4]
    choices = shown.locator("button")
    assert all(choices.nth(number).bounding_box()["y"] < 800 for number in range(3))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    choices.nth(2).click()
    assert page.locator("#progress").inner_text() == "20 of 20 rated"


def test_both_pages_are_accessible_and_show_texts_as_texts(visit, axe, pairs, tmp_path):
    shares = pd.DataFrame({"rank": ["1", "2–5"], "false": [0.5, 0.25]})
    similar = pd.DataFrame({"similarity": [0.9] * 5, "anchor": STRANGE, "negative": STRANGE})
    tables = {"by rank": shares, "by similarity": shares, "most similar pairs": similar}
    write_page(tmp_path / "audit", "<i>file</i>", STRANGE[1], [STRANGE[0]], tables)
    write_rating_page(tmp_path / "rate.html", "file", pairs)
    page = visit(tmp_path / "audit/index.html")
    cells = page.locator("td:nth-child(2)").all_inner_texts()[-5:]
    assert cells == STRANGE
    assert page.locator("img").count() == 1
    for file in ("audit/index.html", "rate.html"):
        page = visit(tmp_path / file)
        assert page.title().startswith("TrueNeg: ")
        page.evaluate(axe)
        found = page.evaluate("axe.run()")
        assert [violation["id"] for violation in found["violations"]] == []


def test_images_to_rate_are_embedded_and_fit_a_narrow_screen(visit, pairs, tmp_path):
    path = tmp_path / "rate.html"
    wide = thumbnail(np.zeros((3, 60, 600), np.uint8), 500)
    write_rating_page(path, "file", pairs, {"anchor 0": wide, "anchor 1": wide})
    page = visit(path)
    assert page.locator("article:visible img").evaluate("image => image.naturalWidth") == 500
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("y")
    assert page.locator("article:visible img").count() == 1
    page.keyboard.press("y")
    assert page.locator("article:visible img").count() == 0
