"""What the page holds beside its text: runs, curves, origins of numbers, examples; and nothing of restricted data."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from tests.browser.pages import STALE, add_examples, add_study, add_theory

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.page import StudyPage, render_page
from trueneg.report.page.artefacts import Artefacts
from trueneg.report.page.contrasts import baseline_of, compared_values, glance, measurements, t_quantiles
from trueneg.report.page.curves import curves_of
from trueneg.report.page.inline import json_text
from trueneg.report.page.marks import marks_of
from trueneg.report.page.origins import Origins, files_of
from trueneg.report.page.run_list import other_runs, runs_of
from trueneg.report.tables import compare_each


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
    rows = pd.read_parquet(artefacts.folder / "rows.parquet")
    own = rows[(rows["split"] == "test") & (rows["task"] == "zero-shot") & (rows["metric"] == "AUC") & (rows["seed"] == 2)]
    expected = own.set_index("objective")["value"]
    for row in table[table["seed"] == 2].itertuples():
        assert row.value == pytest.approx(expected[row.objective], rel=1e-4)


def test_long_curves_keep_their_first_and_last_epoch_and_true_values(artefacts, monkeypatch):
    monkeypatch.setattr("trueneg.report.page.curves.MOST_POINTS", 7)
    monkeypatch.setattr("trueneg.report.page.curves.FEWEST_POINTS", 7)
    held = curves_of(artefacts)
    curves = artefacts.curves.set_index(["objective", "seed", "epoch"])
    for record, run in zip(artefacts.records, held["runs"], strict=True):
        epochs = held["epochs"][run[0]]
        assert (epochs[0], epochs[-1], len(epochs)) == (1, 20, 7)
        for monitor, values in zip(held["monitors"], run[1:], strict=True):
            true = curves.loc[[(record["objective"], record["seed"], epoch) for epoch in epochs], monitor]
            if values is None:
                assert true.isna().all()
            else:
                np.testing.assert_allclose(values, true, rtol=1e-3)
    assert all(run[1:][held["monitors"].index("share at bound")] is None for run in held["runs"][:1])  # CL has no bound


@pytest.mark.parametrize(
    ("title", "line", "column", "expected"),
    [
        ("phantom; zero-shot", "CL", "AUC", ("phantom", ["CL"])),
        ("phantom (uninformative at this size)", "DCL-LM", "− CL (points)", ("phantom", ["DCL-LM", "CL"])),
        ("phantom", "DCL-LM − ReCo", "AUC", ("phantom", ["DCL-LM", "ReCo"])),
        ("all data", "Oracle", "AUC", ("phantom", ["Oracle"])),
    ],
)
def test_a_cell_leads_to_the_runs_behind_it(artefacts, title, line, column, expected):
    origins = Origins(artefacts, "CL")
    ((places,),) = origins.of_table(
        Table(pd.DataFrame(), [("", column), ("", "note")], [Group(title, [(line, [Cell("0.81"), Cell("–")])])])
    )
    assert places[1] is None
    found = origins.listed[places[0]]
    assert (found["dataset"], found["objectives"]) == expected


def test_a_swept_objective_leads_to_the_runs_that_were_selected(artefacts):
    origins = Origins(artefacts, "CL")
    found = origins.listed[origins.of_runs("phantom", ["DCL"])]
    assert found["objectives"] == [artefacts.selection["phantom", "DCL"]]
    assert found["objectives"][0].startswith("DCL,class_probability=")


def test_a_printed_number_leads_to_what_printed_it(artefacts):
    origins = Origins(artefacts, "CL")
    group = Group("phantom; a-paper, Table 1: AUC; ours: zero-shot", [("CL", [Cell("0.80"), Cell("0.79")])])
    ((places,),) = origins.of_table(Table(pd.DataFrame(), [("", "ours"), ("", "published")], [group]))
    assert origins.listed[places[1]] == {"printed": "a-paper, Table 1: AUC"}
    assert origins.listed[places[0]]["objectives"] == ["CL"]


def test_the_differences_at_a_glance_are_the_primary_measurements(artefacts):
    rows = pd.read_parquet(artefacts.folder / "rows.parquet")
    chosen = rows["objective"].isin(("CL", "DCL-LM", "Oracle"))
    values = compare_each(rows[chosen], "CL", [("zero-shot", "", "AUC"), ("grounding", "", "CNR")])
    origins = Origins(artefacts, "CL")
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
    assert origins.listed[line["origin"]] == {"dataset": "phantom", "objectives": ["DCL-LM", "CL"]}
    assert baseline_of(values) == "CL"


def test_measurements_carry_the_means_and_halves_of_intervals(artefacts):
    rows = pd.read_parquet(artefacts.folder / "rows.parquet")
    values = compare_each(
        rows[rows["objective"].isin(("CL", "DCL-LM"))], "CL", [("retrieval sentence", "relevant=truth", "Recall")]
    )
    held = measurements(values, "CL")
    assert held["metrics"]["Recall"] == {"scale": 100.0, "unit": "points"}
    for row in held["rows"]:
        found = rows[
            (rows["objective"] == row[3]) & (rows["task"] == "retrieval sentence") & (rows["setting"] == "relevant=truth")
        ]
        found = found[(found["metric"] == "Recall") & (found["split"] == "test")]["value"]
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
