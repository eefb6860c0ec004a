"""What the page holds beside its text: runs, curves, origins of numbers, examples; and nothing of restricted data."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from tests.browser.pages import STALE, add_examples, add_study, add_theory
from tests.report.synthetic_pairs import PUBLISHED

from trueneg.report import catalogue
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import variant_name
from trueneg.report.page import StudyPage, render_page
from trueneg.report.page.artefacts import Artefacts
from trueneg.report.page.contrasts import compared_values, glance, measurements, t_quantiles
from trueneg.report.page.curves import curves_of
from trueneg.report.page.inline import json_text
from trueneg.report.page.marks import marks_of
from trueneg.report.page.origins import Origins, files_of
from trueneg.report.page.run_list import other_runs, runs_of
from trueneg.report.tables import compare
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import load_rows

AUC = Measurement("zero-shot", "AUC")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    add_study(folder)
    add_examples(folder)
    return folder


@pytest.fixture(scope="module")
def artefacts(results):
    return Artefacts.read(results / "phantom" / "artefacts")


def data_of(path, name="phantom"):
    """The data of a study, as the page's script reads them."""
    found = re.search(rf'<script type="application/json" class="study-data" data-study="{name}">(.*?)</script>', path.read_text())
    return json.loads(found[1])


@pytest.mark.parametrize("text", ["</script><b>", "<!--<script>", "&lt;", "\u2028", "\x00\x1b", "\ud800", "η − \\u003c"])
def test_data_cannot_end_their_element_and_are_read_back_as_they_were(text):
    written = str(json_text({text: [text, 1.5, None]}))
    assert json.loads(written) == {text: [text, 1.5, None]}
    assert written.isascii()
    assert not re.search(r"[<>&]", written)
    assert not re.search(r"[\x00-\x1f]", written)


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([float("nan")])


def test_every_run_is_listed_with_what_made_it(artefacts):
    listed = runs_of(artefacts)
    table = pd.DataFrame(listed["rows"], columns=listed["columns"])
    assert table["run"].tolist() == [record["id"] for record in artefacts.records]
    assert table["state"].tolist() == ["stale"] + ["finished"] * (len(table) - 1)
    assert len(listed["settings"]) == table["objective"].nunique()  # the seeds share theirs
    assert len(listed["environments"]) == len({record["fingerprint"] for record in artefacts.records})
    assert listed["environments"][table["environment"][0]]["fingerprint"] == STALE
    for row, record in zip(table.itertuples(), artefacts.records, strict=True):
        assert listed["settings"][row.settings] == record["settings"]
    rows = load_rows(artefacts.folder / "rows.parquet")
    expected = AUC.rows_of(rows[rows["split"] == "test"]).set_index("run")["value"]
    for row in table.itertuples():
        assert row.value == pytest.approx(expected[row.run], rel=1e-4)


def test_long_curves_keep_their_first_and_last_epoch_and_true_values(artefacts, monkeypatch):
    monkeypatch.setattr("trueneg.report.page.curves.MOST_POINTS", 7)
    monkeypatch.setattr("trueneg.report.page.curves.FEWEST_POINTS", 7)
    held = curves_of(artefacts)
    curves = artefacts.curves.set_index(["run", "epoch"])
    for record, run in zip(artefacts.records, held["runs"], strict=True):
        epochs = held["epochs"][run[0]]
        assert (epochs[0], epochs[-1], len(epochs)) == (1, 20, 7)
        for monitor, values in zip(held["monitors"], run[1:], strict=True):
            true = curves.loc[[(record["id"], epoch) for epoch in epochs], monitor]
            if values is None:
                assert true.isna().all()
            else:
                np.testing.assert_allclose(values, true, rtol=1e-3)
    assert all(run[1:][held["monitors"].index("share at bound")] is None for run in held["runs"][:1])  # CL has no bound


def runs_at(artefacts, origin):
    """Objective and seed of the runs that an origin names."""
    return [(artefacts.records[place]["objective"], artefacts.records[place]["seed"]) for place in origin["runs"]]


def test_a_cell_leads_to_the_runs_that_it_was_made_from(artefacts):
    origins, ids = Origins(artefacts), [record["id"] for record in artefacts.records]
    cells = [Cell("0.81", runs=f"{ids[7]} {ids[2]}"), Cell("–", runs=ids[0]), Cell("0.80", printed="a paper"), Cell("3 seeds")]
    ((places,),) = origins.of_table(Table(pd.DataFrame(), [("", "")] * 4, [Group("any title", [("any name", cells)])]))
    assert places[1] is None
    assert [origins.listed[place] for place in (places[0], *places[2:])] == [
        {"runs": [2, 7]},
        {"printed": "a paper"},
        {"runs": list(range(len(ids)))},  # of the whole study
    ]


@pytest.mark.parametrize("name", ["tasks", "contrasts", "published", "differences"])
def test_every_number_of_a_table_leads_to_the_runs_of_its_objectives(name, tmp_path):
    named = [{"treatment": "DCL", "baseline": "ReCo"}]
    add_study(tmp_path, contrasts=named, published=PUBLISHED)
    artefacts = Artefacts.read(tmp_path / "phantom" / "artefacts")
    gathered = Gathered(artefacts.folder)
    shown = catalogue.tables_by_name(gathered.study)[name].made(gathered)
    origins = Origins(artefacts)
    best = next(one["variant"] for one in artefacts.comparison["selection"] if one["objective"] == "DCL")
    labels = {"DCL": variant_name("DCL", best)}
    for group, places in zip(shown.groups, origins.of_table(shown), strict=True):
        for (line, cells), of_line in zip(group.lines, places, strict=True):
            for cell, place, (_, column) in zip(cells, of_line, shown.columns, strict=True):
                if place is None or "printed" in origins.listed[place]:
                    assert place is None or column.startswith("published")
                    continue
                differing = name in ("contrasts", "differences") or "− CL" in column
                objectives = ["DCL", "ReCo"] if name == "contrasts" else [line, *(["CL"] if differing else [])]
                expected = {(labels.get(one, one), seed) for one in objectives for seed in range(6)}
                assert set(runs_at(artefacts, origins.listed[place])) == expected, (line, column, cell)


def test_the_differences_at_a_glance_are_the_primary_measurements(artefacts):
    rows = load_rows(artefacts.folder / "rows.parquet")
    chosen = rows["objective"].isin(("CL", "DCL-LM", "Oracle"))
    values = compare(rows[chosen], "CL", [AUC, Measurement("grounding", "CNR")])
    origins = Origins(artefacts)
    (group,) = glance(compared_values([values, pd.DataFrame({"value": [1.0]}), values]), artefacts, origins)
    assert [(line["objective"], line["role"]) for line in group["lines"]] == [("DCL-LM", "primary"), ("Oracle", "oracle")]
    line = group["lines"][0]
    primary = artefacts.comparison["primary"]
    assert line["text"].startswith(f"+{primary['difference']:.3f}")
    # The drawing's axis is linear: its ticks say where a value stands.
    (first, low), (last, high) = group["ticks"][0], group["ticks"][-1]
    ends = [float(text.replace("−", "-")) for text in (low, high)]
    for place, key in (("left", "low"), ("centre", "difference"), ("right", "high")):
        expected = np.interp(primary[key], ends, [first, last])
        assert line[place] == pytest.approx(expected, abs=0.06)
    expected = {(objective, seed) for objective in ("DCL-LM", "CL") for seed in range(6)}
    assert set(runs_at(artefacts, origins.listed[line["origin"]])) == expected


def test_measurements_carry_the_means_and_halves_of_intervals(artefacts):
    rows, recall = load_rows(artefacts.folder / "rows.parquet"), Measurement("retrieval sentence", "R", "truth")
    held = measurements(compare(rows[rows["objective"].isin(("CL", "DCL-LM"))], "CL", [recall]), "CL")
    assert held["metrics"]["R"] == {"scale": 100.0, "unit": "points"}
    for row in held["rows"]:
        found = recall.rows_of(rows[(rows["objective"] == row[3]) & (rows["split"] == "test")])["value"]
        assert row[6:] == pytest.approx([6, found.mean(), stats.t.ppf(0.975, 5) * found.std() / 6**0.5], rel=1e-5)
        assert row[4].startswith(f"{100 * found.mean():.1f} ± ")


def test_marks_tell_what_must_be_known_first(artefacts):
    marks = dict(marks_of(artefacts))
    assert marks["small"] == "small default"
    assert marks["stale"] == f"stale: 1 of {len(artefacts.records)} runs"
    assert "few" not in marks  # six seeds
    comparison = dict(artefacts.comparison) | {"seeds": 3}
    comparison["primary"] = {"conclusion": "uninformative"}
    comparison["gate"] = [{"dataset": "phantom", "passed": False}]
    marks = dict(marks_of(Artefacts(artefacts.folder, artefacts.settings, comparison, artefacts.records)))
    assert marks["unsure"] == "uninformative"
    assert marks["few"] == "too few seeds: 3"


def test_quantiles_are_students():
    quantiles = t_quantiles()
    assert quantiles[0] == pytest.approx(12.7062, abs=1e-4)
    assert quantiles[9] == pytest.approx(2.2281, abs=1e-4)


SECRET = "A sentence of a patient"


@pytest.mark.parametrize("said_by", ["the files", "the settings"])
def test_of_restricted_data_the_page_shows_numbers_only(tmp_path, said_by):
    add_study(tmp_path)
    add_examples(tmp_path, restricted=said_by == "the files", text=SECRET)
    folder = tmp_path / "phantom" / "artefacts"
    if said_by == "the settings":
        settings = yaml.safe_load((folder / "study.yaml").read_text())
        settings["dataset"]["restricted"] = True
        (folder / "study.yaml").write_text(yaml.safe_dump(settings))
    overlays = [text for path in folder.glob("overlays/*/*.parquet") for text in pd.read_parquet(path)["sentence"]]
    assert overlays
    studies = [StudyPage("phantom", "Phantom", answer="One number: 0.81.")]
    text = render_page(studies, tmp_path / "index.html").read_text()
    assert "0.81" in text
    assert not any(secret in text for secret in (SECRET, *overlays))
    assert "data:image" not in text
    data = data_of(tmp_path / "index.html")
    assert data["examples"] == {"restricted": True, "retrieval": None, "grounding": None}
    assert len(data["runs"]["rows"]) == len(json.loads((folder / "runs.json").read_text()))
    assert "its numbers, and none of its text and images" in text


def test_the_same_folder_gives_the_same_page(results):
    def written():
        return render_page([StudyPage("phantom", "Phantom")], results / "index.html").read_bytes()

    assert written() == written()


def test_runs_that_no_study_holds_are_listed_too(tmp_path):
    begun = tmp_path / "runs" / "abcdefabcdef"
    begun.mkdir(parents=True)
    (begun / "lock").write_text("")
    assert other_runs(tmp_path, known=[]) == [{"run": "abcdefabcdef", "state": "begun"}]
    assert other_runs(tmp_path, known=["abcdefabcdef"]) == []
    assert other_runs(tmp_path / "nowhere", known=[]) == []


def test_a_study_without_runs_names_its_files_and_the_code_that_made_them(tmp_path):
    add_theory(tmp_path)
    folder = tmp_path / "theory" / "artefacts"
    assert files_of(Artefacts.read(folder))["code"] == ""
    (folder / "simulation" / "numbers.code").write_text("0123456789abcdef")
    found = files_of(Artefacts.read(folder))
    assert [one["path"] for one in found["files"]] == ["theory/artefacts/simulation/numbers.parquet"]
    assert found["code"] == "0123456789abcdef"
