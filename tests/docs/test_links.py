"""Every link of the documentation has a target."""

import re

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_and_anchor_resolves(page):
    lost = []
    for target in links(page):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or not place.is_relative_to(ROOT):
            lost.append(f"{target}: there is no {place}")
        elif anchor and anchor not in anchors(place):
            lost.append(
                f"{target}: {name_of(place)} has the anchors {', '.join(sorted(anchors(place)))}"
            )
    assert not lost, "\n".join(lost)


def test_links_and_anchors_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A *title* of `code`, with ηs\n\n[here](#a-title-of-code-with-ηs) and"
        " ![there](image.png)\n\n    [not](this)\n"
    )
    assert links(page) == ["#a-title-of-code-with-ηs", "image.png"]
    assert anchors(page) == {"a-title-of-code-with-ηs"}


def test_every_test_that_a_page_names_exists():
    named = [
        (page, *test.split("::"))
        for page in PAGES
        for test in re.findall(r"`(tests/[\w/]+\.py::\w+)`", page.read_text(encoding="utf-8"))
    ]
    assert named
    for page, file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (page, file, test)
