"""The page in a browser: no errors, nothing fetched, legible on a phone and in the dark, usable by keyboard, quick."""

import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats

from tests.browser.pages import OBJECTIVES, SECONDS, add_examples, add_study, add_theory
from tests.report import synthetic
from trueneg.io import privacy
from trueneg.report.drawing import save
from trueneg.report.figures.by_condition import accuracy_by_condition
from trueneg.report.findings import sentence
from trueneg.report.formats import from_frame
from trueneg.report.gathered import Gathered
from trueneg.report.page import StudyPage, render_page, study_page
from trueneg.report.page.provenance import Provenance
from trueneg.report.tables.comparisons import layout_table
from trueneg.stats.measurement import Measurement

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
VIEWS = ("page:overview", "phantom", "theory", "page:runs", "page:compare")
MANY = 2000
# In the browser, so that starting and transport do not count: until the rows have been laid out.
TIMED = """([act, times]) => {
  const found = [];
  for (let n = 0; n < times; n += 1) {
    const start = performance.now();
    new Function(act)();
    document.querySelector("table.runs").getBoundingClientRect();
    found.push(performance.now() - start);
  }
  return found;
}"""


def small_page(folder, title="A small phantom", **changes):
    """A study with all that a page can show: a figure, a table, runs, curves, examples; and one without runs."""
    add_study(folder, title=title, **changes)
    add_examples(folder)
    add_theory(folder)
    artefacts = folder / "phantom" / "artefacts"
    drawn = accuracy_by_condition(synthetic.rows(seeds=3), synthetic.FRACTIONS, Measurement("knn", "accuracy", "all"))
    png, _, _ = save(drawn, folder / "phantom" / "figures" / "by fraction", "Accuracy")
    phantom = replace(
        study_page(artefacts),
        figures=[("By r", "A caption.", png)],
        tables=[("Tasks", "With paired differences.", layout_table(Gathered(artefacts), "tasks"))],
    )
    numbers = ("Numbers", "", from_frame(pd.DataFrame({"estimator": ["biased"], "value": [0.25]})))
    made = Provenance(settings={"kind": "theory"}, folder=folder / "theory" / "artefacts")
    theory = StudyPage("theory", "Theory", answer="One number.", tables=[numbers], config="kind: theory\n", provenance=made)
    return render_page([phantom, theory], folder / "index.html")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    small_page(folder)
    return folder


@pytest.fixture
def visit(browser, results):
    """Opens a view; what went wrong there fails the test at its end."""
    contexts, wrong = [], []

    def opened(view="", path=None, **options):
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: wrong.append(dialog.message))
        tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
        tab.set_default_timeout(10_000)
        tab.goto((path or results / "index.html").as_uri() + (f"#{view}" if view else ""))
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_part_opens_without_errors_and_axe_finds_nothing(visit, axe, scheme, size):
    tab = visit(color_scheme=scheme, viewport=size)
    tab.evaluate(axe)
    for view in VIEWS:
        tab.evaluate("view => { location.hash = view }", view)
        tab.wait_for_function("view => document.getElementById(view).checkVisibility()", arg=view)
        tab.evaluate("document.querySelectorAll('details:not([name])').forEach((one) => (one.open = true))")
        panel = tab.locator(f"#{view} button.number".replace("page:", "page\\:"))
        if panel.count():
            panel.first.click()  # with what made a number
        assert tab.locator("section.view:visible").count() == 1
        found = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == [], view
        assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), f"{view} is too wide"
        tab.keyboard.press("Escape")


def test_the_colours_follow_the_scheme(visit):
    grounds = [
        visit(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor") for scheme in ("light", "dark")
    ]
    bright = [sum(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(", ")) for ground in grounds]
    assert bright[0] > 700
    assert bright[1] < 100


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_overview_has_each_studys_answer_and_figure_and_leads_to_its_parts(visit, results, size):
    tab = visit(viewport=size)
    card = tab.locator(".studies > li").first
    assert sentence(Gathered(results / "phantom" / "artefacts")) in card.inner_text()
    assert card.get_by_role("img").evaluate("image => image.decode().then(() => image.getBoundingClientRect().width > 250)")
    card.get_by_role("link", name="figures").click()
    assert tab.get_by_role("heading", name="By r").is_visible()
    assert tab.locator("section.view:visible").get_attribute("id") == "phantom"
    assert "A small phantom" in tab.title()
    assert tab.locator("nav [aria-current]").inner_text() == "phantom"


def panel_of(tab):
    return tab.get_by_role("dialog", name="Where the number comes from")


def test_a_number_is_reached_by_keyboard_and_leads_to_what_made_it(visit):
    tab = visit("phantom")
    table = tab.locator("#phantom .glance table")
    table.locator("button").first.focus()
    before = tab.evaluate("document.activeElement.textContent")
    tab.keyboard.press("ArrowDown")
    after = tab.evaluate("document.activeElement.textContent")
    assert after != before
    assert after in table.locator("tr", has_text="DCL-LM").inner_text()
    assert table.locator("button[tabindex='0']").count() == 1  # one stop of the Tab key
    tab.keyboard.press("Enter")
    panel = panel_of(tab)
    words = (
        "CL; DCL-LM",
        "phantom",
        "0–5",
        "8a226e2ecca8",
        "7e3f7e3f",
        "cpu",
        "torch 2.15.0",
        "0 GPU seconds",
        "12 runs",
        "1 stale",
    )
    for word in words:
        assert word in panel.inner_text()
    assert f"{12 * SECONDS / 60:.1f} min" in panel.inner_text()
    tab.keyboard.press("Escape")
    assert panel.count() == 0
    assert tab.evaluate("document.activeElement.textContent") == after


def test_the_configuration_that_made_a_number_is_the_runs(visit, results):
    tab = visit("phantom")
    tab.locator("#phantom summary", has_text="Tasks").click()
    tab.locator("details tr", has=tab.get_by_role("rowheader", name="ReCo")).first.locator("button").first.click()
    panel = panel_of(tab)
    panel.locator("summary", has_text="Configuration").click()
    said = dict(line.split(": ", 1) for line in panel.locator("pre").first.inner_text().splitlines())
    records = json.loads((results / "phantom" / "artefacts" / "runs.json").read_text())
    training = next(record for record in records if record["objective"] == "ReCo")["settings"]["training"]
    assert {key: json.loads(said[f"training.{key}"]) for key in ("epochs", "batch_size", "learning_rate")} == {
        key: training[key] for key in ("epochs", "batch_size", "learning_rate")
    }
    panel.get_by_role("button", name="Show these runs in the list").click()
    tab.wait_for_function("document.getElementById('page:run-count').textContent.startsWith('6 of 60')")
    assert set(column(tab, 4)) == {"ReCo"}


def test_a_study_leads_to_its_own_runs(visit):
    tab = visit("phantom")
    tab.get_by_role("link", name="Runs of this study").click()
    tab.wait_for_selector("#page\\:run-table")
    assert tab.get_by_label("Study").input_value() == "phantom"
    assert len(column(tab, 1)) == 60


def test_a_study_without_runs_names_its_files(visit):
    tab = visit("theory")
    tab.locator("#theory td button").first.click()
    panel = panel_of(tab)
    panel.locator("summary", has_text="Files").click()
    assert "theory/artefacts/simulation/numbers.parquet" in panel.inner_text()


def test_all_parts_are_reached_with_the_tab_key_and_focus_is_seen(visit):
    tab = visit("phantom")
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    assert tab.locator("section.view:visible").get_attribute("id") == "phantom"  # the part that was shown
    for _ in range(20):
        tab.keyboard.press("Shift+Tab")
        if tab.evaluate("document.activeElement.textContent") == "Compare":
            break
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    tab.keyboard.press("Enter")
    assert tab.get_by_role("heading", name="Two studies side by side").is_visible()


def test_without_javascript_all_but_the_comparison_can_be_read(visit, results):
    tab = visit(java_script_enabled=False)
    assert tab.get_by_text(sentence(Gathered(results / "phantom" / "artefacts"))).is_visible()
    assert tab.locator(".card img").first.is_visible()
    assert not tab.get_by_role("link", name="Compare").is_visible()
    tab.get_by_role("navigation").get_by_role("link", name="phantom").click()
    for words in ("Does it help?", "Paired differences at a glance", "By r", "Configuration"):
        assert tab.locator("#phantom").get_by_text(words).first.is_visible()
    tab.locator("#phantom .glance button").first.click()
    assert "12 runs" in panel_of(tab).inner_text()
    tab.keyboard.press("Escape")
    tab.get_by_role("link", name="Runs", exact=True).click()
    assert len(column(tab, 1)) == 60


# Runs


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    add_study(folder, seeds=MANY // 10)
    render_page([study_page(folder / "phantom" / "artefacts")], folder / "index.html")
    return folder


def column(tab, number):
    """What stands in a column of the runs that are listed."""
    return tab.locator(f".runs tbody tr:visible > :nth-child({number})").all_inner_texts()


@pytest.mark.long
def test_two_thousand_runs_are_sorted_and_filtered(visit, many, record_property):
    tab = visit("page:runs", many / "index.html")
    count = tab.locator("#page\\:run-count")
    assert count.inner_text() == "2,000 runs"
    sorting = tab.evaluate(TIMED, ["document.querySelectorAll('.runs thead button')[4].click()", 9])
    assert column(tab, 5)[:12] == ["0"] * 10 + ["1"] * 2
    choose = "const one = document.getElementById('page:filter-3'); one.value = one.value ? '' : 'ReCo'; "
    filtering = tab.evaluate(TIMED, [choose + "one.dispatchEvent(new Event('input', { bubbles: true }))", 9])
    assert count.inner_text() == "200 of 2,000 runs"
    assert set(column(tab, 4)) == {"ReCo"}
    for name, times in (("sorting", sorting), ("filtering", filtering)):
        record_property(f"{name}, ms", round(float(np.median(times)), 1))


def test_sorting_orders_numbers_as_numbers_and_turns_round(visit, results):
    tab = visit("page:runs")
    for order in ("ascending", "descending"):
        tab.get_by_role("button", name="primary").click()
        assert tab.locator(".runs thead th").nth(6).get_attribute("aria-sort") == order
        cells = column(tab, 7)
        seen = [float(text) for text in cells if text != "–"]  # candidates that were not selected have no test value
        assert len(cells) == 60
        assert "–" not in cells[: len(seen)]
        assert seen == sorted(seen, reverse=order == "descending")


def test_stale_runs_are_found_by_their_state(visit):
    tab = visit("page:runs")
    tab.get_by_label("State").select_option("stale")
    assert column(tab, 6) == ["stale"]
    tab.get_by_role("button", name="Clear filters").click()
    tab.get_by_label("Id, commit, device").fill("00001f")
    assert column(tab, 1) == [f"{0x1F:012x}"]


# Comparison


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The same study with other rows, another setting, and words that would do harm where they were read as HTML."""
    folder = tmp_path_factory.mktemp("elsewhere")
    title = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    add_study(folder, title=title, training={"epochs": 3})
    rows = pd.read_parquet(folder / "phantom" / "artefacts" / "rows.parquet")
    rows["value"] += 0.01 * rows["seed"]
    rows.to_parquet(folder / "phantom" / "artefacts" / "rows.parquet")
    render_page([replace(study_page(folder / "phantom" / "artefacts"), answer=title)], folder / "index.html")
    return folder


def test_a_study_is_compared_with_that_of_another_page(visit, results, elsewhere):
    tab = visit("page:compare")
    tab.get_by_label("Add another results page").set_input_files(elsewhere / "index.html")
    tab.wait_for_function("document.getElementById('page:compare-said').textContent !== ''")
    assert "1 study from index.html" in tab.locator("#page\\:compare-said").inner_text()
    assert tab.locator("#page\\:compare-b").input_value() == "phantom (index)"
    body = tab.locator("#page\\:comparison")
    assert "<script>alert(2)</script>" in body.inner_text()  # as text
    assert body.locator("img, script").count() == 0
    assert body.locator("tr", has_text="training.epochs").locator("td").all_inner_texts() == ["2", "3"]
    cells = body.locator("tr", has=tab.get_by_role("rowheader", name="DCL-LM")).first.locator("td").all_inner_texts()
    values = []
    for folder in (results, elsewhere):
        rows = pd.read_parquet(folder / "phantom" / "artefacts" / "rows.parquet")
        own = Measurement("zero-shot", "AUC").rows_of(rows[rows["split"] == "test"])
        values.append(own[own["objective"] == "DCL-LM"]["value"])
    welch = stats.ttest_ind(values[1], values[0], equal_var=False)
    difference = values[1].mean() - values[0].mean()
    # The page takes the whole degrees of freedom below Welch's.
    half = stats.t.ppf(0.975, math.floor(welch.df)) * difference / welch.statistic
    got = cells[4].replace("−", "-").replace("[", "").replace("]", "").replace(",", "").split()
    assert [float(text) for text in got] == pytest.approx([difference, difference - half, difference + half], abs=6e-4)


def test_without_variation_over_seeds_the_difference_of_two_studies_has_no_interval(visit):
    tab = visit("page:compare")
    apart = """([x, y]) => apart(x, y, JSON.parse(byId("page:data").textContent).t)"""
    varied = {"mean": "80.0 ± 1.2", "value": 80.0, "half": 1.2, "seeds": 4}
    for half in (None, 0.0):
        equal = {"mean": "81.0 ± –", "value": 81.0, "half": half, "seeds": 4}
        assert tab.evaluate(apart, [varied, equal]) == "+1.0"
        assert tab.evaluate(apart, [equal, varied]) == "−1.0"
    assert re.fullmatch(r"0\.0 \[−1\.\d, \+1\.\d\]", tab.evaluate(apart, [varied, varied]))


def test_a_study_beside_itself_differs_in_nothing(visit):
    tab = visit("page:compare")
    tab.locator("#page\\:compare-b").select_option("phantom")
    said = tab.locator("#page\\:comparison").inner_text()
    assert "All means and intervals are identical." in said
    assert "Settings, code, machine and libraries are the same." in said
    tab.locator("#page\\:compare-b").select_option("theory")
    assert "no measurement on the same data set in common" in tab.locator("#page\\:comparison").inner_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<p>Hello</p>", "it contains no studies"),
        ('<script class="study-data">{"format": 0}</script>', "its data have format 0"),
        ('<script class="study-data">{"format": </script>', "its data are damaged"),
    ],
)
def test_another_file_is_refused_in_a_sentence(visit, tmp_path, content, said):
    (tmp_path / "other.html").write_text(content)
    tab = visit("page:compare")
    tab.get_by_label("Add another results page").set_input_files(tmp_path / "other.html")
    tab.wait_for_function("document.getElementById('page:compare-said').textContent !== ''")
    assert tab.locator("#page\\:compare-said").inner_text().startswith(f"other.html cannot be used: {said}")


# Examples


def test_figures_and_thumbnails_are_shown(visit):
    tab = visit("phantom")
    figure = tab.locator(".figures img")
    figure.scroll_into_view_if_needed()
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth > 100)")
    hit = tab.get_by_role("region", name="Retrieval").get_by_role("img", name="Result 1").first
    hit.scroll_into_view_if_needed()
    assert spread(hit) > 20  # noise, not an empty box


def spread(picture):
    """Of the brightness of what is shown."""
    return np.asarray(Image.open(io.BytesIO(picture.screenshot())).convert("L"), float).std()


def test_objectives_answer_the_same_query_side_by_side(visit, results):
    tab = visit("phantom")
    look = tab.get_by_role("region", name="Retrieval")
    assert look.locator("blockquote:visible").inner_text() == "Small left effusion. 0"
    for place, objective in enumerate(OBJECTIVES):
        shown = look.locator(".pair:visible > div").nth(place)
        assert shown.locator("h4").inner_text() == objective
        assert f"rank {2 + place}" in shown.inner_text()
        assert [item.get_attribute("class") for item in shown.locator("li").all()] == ["true", "no", "own", "true", "no"]
    look.get_by_text("image to text: image 1").click()
    assert not look.get_by_text("text to image").first.locator("..").locator("blockquote").is_visible()
    table, _ = privacy.read_table(results / "phantom" / "artefacts" / "retrieval" / "phantom" / "CL.parquet")
    expected = table[(table["direction"] == "image to text") & (table["query"] == 1)]["text"].tolist()
    assert look.locator(".said:visible").all_inner_texts()[:5] == expected


def test_heatmaps_stand_beside_each_other_with_their_boxes(visit, results):
    tab = visit("phantom")
    look = tab.get_by_role("region", name="Grounding")
    paths = [results / "phantom" / "artefacts" / "overlays" / "phantom" / f"{name}.parquet" for name in OBJECTIVES]
    overlays = [pd.read_parquet(path).iloc[0] for path in paths]
    captions = [f"{name} CNR {row['CNR']:.3g}" for name, row in zip(OBJECTIVES, overlays, strict=True)]
    assert look.locator("figcaption:visible").all_inner_texts()[1:] == captions
    box = look.locator("rect.over:visible").first
    assert [float(box.get_attribute(name)) for name in ("x", "y")] == [overlays[0]["x0"][0], overlays[0]["y0"][0]]
    assert look.locator("image.heat:visible").count() == len(OBJECTIVES)
    look.get_by_label("heatmap").uncheck()
    look.get_by_label("boxes").uncheck()
    assert look.locator("image.heat:visible, rect:visible").count() == 0
