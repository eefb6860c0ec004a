"""A headless Chromium; tests are skipped with instructions if it is missing."""

import shutil

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, driven by Playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install 'trueneg[browser]'"
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as started:
        # Chromium's sandbox does not work for root, who runs most containers; the pages are our
        # own.
        yield started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, which checks accessibility."""
    package = pytest.importorskip(
        "axe_playwright_python", reason="axe-core is missing: pip install 'trueneg[browser]'"
    )
    (folder,) = package.__path__
    with open(f"{folder}/axe.min.js", encoding="utf-8") as source:
        return source.read()
