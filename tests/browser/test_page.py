"""The results page in a browser: it works without errors or network access, on phones, by keyboard
and without JavaScript.
"""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.browser.pages import OBJECTIVES, SECONDS, add_examples, add_study, add_theory, section
from tests.report import synthetic
from trueneg.io import privacy
from trueneg.report import registry
from trueneg.report.drawing import save
from trueneg.report.figures.by_condition import draw_by_place
from trueneg.report.findings import sentence
from trueneg.report.formats import from_frame
from trueneg.report.gathered import Gathered
from trueneg.report.page import render_page, study_page
from trueneg.report.page.provenance import Provenance
from trueneg.report.tables.comparisons import layout_table
from trueneg.stats.measurement import Measurement

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
VIEWS = ("page:overview", "phantom", "theory")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A page with a study that has figures, tables, runs and examples, and one without runs."""
    folder = tmp_path_factory.mktemp("results")
    add_study(folder, title="A small phantom")
    add_examples(folder)
    add_theory(folder)
    artefacts = folder / "phantom" / "artefacts"
    figure = draw_by_place(
        synthetic.rows(seeds=3), synthetic.FRACTIONS, [Measurement("knn", "accuracy", "all")]
    )
    png, _, _ = save(figure, folder / "phantom" / "figures" / "by fraction", "Accuracy")
    gathered = Gathered(artefacts)
    methods = registry.tables_by_name(gathered.study)["methods"]
    tables = [
        ("What does each method gain?", "", methods.made(gathered)),
        ("Tasks", "With paired differences.", layout_table(gathered, "tasks")),
    ]
    figures = [("The comparisons", "", png), ("By r", "A caption.", png)]
    phantom = study_page(artefacts) | {"figures": figures, "headline": 0, "tables": tables}
    numbers = ("Numbers", "", from_frame(pd.DataFrame({"estimator": ["biased"], "value": [0.25]})))
    provenance = Provenance(settings={"kind": "theory"}, folder=folder / "theory" / "artefacts")
    theory = section(
        "theory", "Theory", tables=[numbers], config="kind: theory\n", provenance=provenance
    )
    render_page([phantom, theory], folder / "index.html")
    return folder


@pytest.fixture
def visit(browser, results):
    """Return a function that opens a view; errors, warnings, dialogs and requests on any opened
    page fail the test.
    """
    contexts, problems = [], []

    def opened(view="", **options):
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "console",
            lambda message: (
                problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("dialog", lambda dialog: problems.append(dialog.message))
        tab.on(
            "request",
            lambda sent: (
                None if sent.url.startswith(("file:", "data:")) else problems.append(sent.url)
            ),
        )
        tab.set_default_timeout(60_000)  # in ms; other tests use the processor, too
        tab.goto((results / "index.html").as_uri() + (f"#{view}" if view else ""))
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def panel_of(tab):
    """The panel with the provenance of a number."""
    return tab.get_by_role("dialog", name="Where the number comes from")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_view_opens_without_errors_fits_the_screen_and_is_accessible(
    visit, axe, scheme, size
):
    tab = visit(color_scheme=scheme, viewport=size)
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)))
    assert brightness > 700 if scheme == "light" else brightness < 100
    tab.evaluate(axe)
    for view in VIEWS:
        tab.evaluate("view => { location.hash = view }", view)
        tab.wait_for_function("view => document.getElementById(view).checkVisibility()", arg=view)
        tab.evaluate(
            "document.querySelectorAll('details:not([name])').forEach((details) => (details.open ="
            " true))"
        )
        number = tab.locator(f"#{view} button.number".replace("page:", "page\\:"))
        if number.count():
            number.first.click()  # opens its provenance
        assert tab.locator("section.view:visible").count() == 1
        violations = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")[
            "violations"
        ]
        assert [
            (rule["id"], [node["html"][:120] for node in rule["nodes"][:3]]) for rule in violations
        ] == [], view
        assert tab.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), view
        tab.keyboard.press("Escape")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_an_overview_card_shows_the_answer_and_a_figure_and_links_to_the_study(
    visit, results, size
):
    tab = visit(viewport=size)
    card = tab.locator(".studies > li").first
    answer = sentence(Gathered(results / "phantom" / "artefacts"))
    assert answer in card.inner_text()
    assert card.get_by_role("img").evaluate(
        "image => image.decode().then(() => image.getBoundingClientRect().width > 250)"
    )
    card.get_by_role("link", name="figures").click()
    assert tab.get_by_role("heading", name="By r").is_visible()
    answer_box = tab.locator("#phantom .answer")
    assert answer in answer_box.inner_text()
    assert tab.locator("section.view:visible").get_attribute("id") == "phantom"
    assert "A small phantom" in tab.title()
    assert tab.locator("nav [aria-current]").inner_text() == "phantom"


def test_arrow_keys_move_between_numbers_and_enter_opens_their_provenance(visit):
    tab = visit("phantom")
    tab.locator("#phantom summary", has_text="Tasks").click()
    table = tab.locator("#phantom details table")
    table.locator("button").first.focus()
    before = tab.evaluate("document.activeElement.textContent")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    after = tab.evaluate("document.activeElement.textContent")
    assert after != before
    assert after in table.locator("tr", has_text="DCL-LM").inner_text()
    assert table.locator("button[tabindex='0']").count() == 1  # one stop of the Tab key
    tab.keyboard.press("Enter")
    panel = panel_of(tab)
    runs = (
        "CL; DCL-LM",
        "phantom",
        "0; 1; 2; 3; 4; 5",
        "12 runs",
        "1 stale",
        f"{12 * SECONDS / 60:.1f} min",
        "0 GPU seconds",
    )
    for fact in (*runs, "8a226e2ecca8", "7e3f7e3f", "cpu", "torch 2.15.0"):
        assert fact in panel.inner_text()
    tab.keyboard.press("Escape")
    assert panel.count() == 0
    assert tab.evaluate("document.activeElement.textContent") == after


def test_provenance_shows_the_settings_and_the_ids_of_the_runs(visit, results):
    tab = visit("phantom")
    tab.locator("#phantom summary", has_text="Tasks").click()
    tab.locator("details tr", has=tab.get_by_role("rowheader", name="ReCo")).first.locator(
        "button"
    ).first.click()
    panel = panel_of(tab)
    panel.locator("summary", has_text="Configuration").click()
    shown = dict(
        line.split(": ", 1) for line in panel.locator("pre").first.inner_text().splitlines()
    )
    records = json.loads((results / "phantom" / "artefacts" / "runs.json").read_text())
    training = next(record for record in records if record["objective"] == "ReCo")["settings"][
        "training"
    ]
    for key in ("epochs", "batch_size", "learning_rate"):
        assert json.loads(shown[f"training.{key}"]) == training[key]
    panel.locator("summary", has_text="Run ids").click()
    ids = {record["id"] for record in records if record["objective"] == "ReCo"}
    assert set(panel.locator("pre").last.inner_text().split()) == ids


def test_the_provenance_of_a_study_without_runs_lists_its_files(visit):
    tab = visit("theory")
    tab.locator("#theory td button").first.click()
    panel_of(tab).locator("summary", has_text="Files").click()
    assert "theory/artefacts/simulation/numbers.parquet" in panel_of(tab).inner_text()


def test_all_views_can_be_reached_by_keyboard_with_visible_focus(visit):
    tab = visit("phantom")
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    # skipping keeps the view
    assert tab.locator("section.view:visible").get_attribute("id") == "phantom"
    for _ in range(20):
        tab.keyboard.press("Shift+Tab")
        if tab.evaluate("document.activeElement.textContent") == "theory":
            break
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    tab.keyboard.press("Enter")
    assert tab.get_by_role("heading", name="Theory").is_visible()


def test_without_javascript_everything_is_readable(visit, results):
    tab = visit(java_script_enabled=False)
    answer = sentence(Gathered(results / "phantom" / "artefacts"))
    assert tab.get_by_text(answer).first.is_visible()
    assert tab.locator(".card img").first.is_visible()
    tab.get_by_role("navigation").get_by_role("link", name="phantom").click()
    for words in ("Does it help?", "Tasks", "By r", "Configuration"):
        assert tab.locator("#phantom").get_by_text(words).first.is_visible()
    tab.locator("#phantom td button").first.click()
    assert "6 runs" in panel_of(tab).inner_text()


def test_retrieval_examples_show_each_objectives_results_for_the_same_query(visit, results):
    tab = visit("phantom")
    figure = tab.locator(".figures img")
    figure.scroll_into_view_if_needed()
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth > 100)")
    region = tab.get_by_role("region", name="Retrieval")
    thumbnail = region.get_by_role("img", name="Result 1").first
    thumbnail.scroll_into_view_if_needed()
    # noise, not an empty box
    assert np.asarray(Image.open(io.BytesIO(thumbnail.screenshot())).convert("L"), float).std() > 20
    assert region.locator("blockquote:visible").inner_text() == "Small left effusion. 0"
    for place, objective in enumerate(OBJECTIVES):
        shown = region.locator(".pair:visible > div").nth(place)
        assert shown.locator("h3").inner_text() == objective
        assert f"rank {2 + place}" in shown.inner_text()
        assert [item.get_attribute("class") for item in shown.locator("li").all()] == [
            "true",
            "no",
            "own",
            "true",
            "no",
        ]
    region.get_by_text("image to text: image 1").click()
    assert (
        not region.get_by_text("text to image")
        .first.locator("..")
        .locator("blockquote")
        .is_visible()
    )
    table, _ = privacy.read_table(
        results / "phantom" / "artefacts" / "retrieval" / "phantom" / "CL.parquet"
    )
    expected = table[(table["direction"] == "image to text") & (table["query"] == 1)][
        "text"
    ].tolist()
    assert region.locator(".said:visible").all_inner_texts()[:5] == expected
