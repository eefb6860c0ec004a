"""A headless Chromium; where there is none, the tests say what is missing."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, driven by Playwright, which needs no browser of its own then."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install 'trueneg[browser]'")
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as started:
        # Containers often run as root, whom Chromium's sandbox refuses; the pages are our own.
        yield started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, which checks a page for those who cannot see it, or cannot use a mouse."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is missing: pip install 'trueneg[browser]'")
    (folder,) = package.__path__
    with open(f"{folder}/axe.min.js", encoding="utf-8") as source:
        return source.read()
