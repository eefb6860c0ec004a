"""Sentences about findings contain the numbers of the rows and match the outcome."""

import json

import numpy as np
import pandas as pd
import pytest
import synthetic
import yaml
from scipy import stats
from synthetic import numbers, tidy
from tests.browser.pages import add_likelihoods, add_study
from tests.studies import tiny_words

from trueneg.io.seals import seal
from trueneg.report import findings
from trueneg.report.findings import finding, sentence
from trueneg.report.gathered import Gathered
from trueneg.report.tables.building import Named, comparisons
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.stats.comparison import primary_contrast
from trueneg.stats.measurement import Measurement

ACCURACY, AREA = Measurement("knn", "accuracy", "all"), Measurement("zero-shot", "AUC")
SCALES = {ACCURACY: 100, AREA: 1}


def interval_of(differences):
    low, high = stats.ttest_1samp(differences, 0).confidence_interval()
    return [np.mean(differences), low, high]


@pytest.mark.parametrize(
    ("measured", "gains", "margin", "outcome", "words"),
    [
        (ACCURACY, [0.02, 0.03, 0.025], None, "better", "HCL gains"),
        (ACCURACY, [-0.02, -0.03, -0.025], None, "worse", "HCL loses"),
        (ACCURACY, [0.02, 0.03, 0.025], 0.1, "better by less than the margin", "HCL gains"),
        (ACCURACY, [0.002, -0.003, 0.0], 0.01, "equivalent", "equivalent"),
        (ACCURACY, [0.03, -0.04, 0.0], None, "undecided", "cannot tell"),
        (AREA, [0.02, 0.03, 0.025], None, "better", "HCL gains"),
    ],
)
def test_a_finding_states_the_outcome_and_the_difference_with_its_interval(
    measured, gains, margin, outcome, words
):
    cl = np.array([0.5, 0.52, 0.54])
    rows = tidy(measured, {"CL": cl, "HCL": cl + gains}, dataset="digits")
    row = primary_contrast(rows, "HCL", "CL", measured, "digits", margin)
    assert row["outcome"] == outcome
    text = finding(row, "HCL", "CL")
    assert words in text
    expected = SCALES[measured] * np.array(interval_of(np.array(gains)))
    if outcome.startswith(("better", "worse")):  # the sign is in the word
        expected = np.array([abs(expected[0]), *sorted(abs(expected[1:]))])
    margins = [100 * margin] if margin else []
    seeds = len(gains)  # so few that they are said
    assert sorted(numbers(text)) == pytest.approx(
        sorted([*margins, *expected, seeds]), abs=0.00051 * SCALES[measured]
    )


@pytest.mark.parametrize("clusters", [601, 55])
def test_an_interval_over_test_samples_names_their_groups_only_if_these_are_larger(clusters):
    cl = np.linspace(0.5, 0.54, 6)
    rows = tidy(ACCURACY, {"CL": cl, "HCL": cl + 0.01 * np.arange(6)}, dataset="mine")
    found = {"objective": "HCL", "baseline": "CL", "low": -0.01, "high": 0.06, "p": 0.2}
    found |= {"p equivalence": None, "clusters": clusters, "samples": 601}
    row = primary_contrast(
        rows, "HCL", "CL", ACCURACY, "mine", crossed=pd.DataFrame([found], dtype=object)
    )
    text = finding(row, "HCL", "CL")
    assert clusters in numbers(text)
    assert ("groups" in text) == (clusters < 601)


@pytest.mark.parametrize("gains", [[0.03], [0.2, 0.2, 0.2]])
def test_a_finding_without_an_interval_is_undecided(gains):
    cl = np.linspace(0.5, 0.54, len(gains))
    row = primary_contrast(
        tidy(ACCURACY, {"CL": cl, "HCL": cl + gains}, dataset="digits"),
        "HCL",
        "CL",
        ACCURACY,
        "digits",
    )
    assert "cannot tell" in finding(row, "HCL", "CL")


def test_the_sentence_of_a_trained_study_contains_the_differences_of_its_rows(tmp_path):
    add_study(tmp_path)
    folder = tmp_path / "phantom" / "artefacts"
    rows = pd.read_parquet(folder / "rows.parquet")
    chosen = Measurement("zero-shot", "AUC").rows_of(rows[rows["split"] == "test"])
    values = chosen[chosen["objective"].isin(("CL", "DCL-LM", "Oracle"))].pivot(
        index="seed", columns="objective", values="value"
    )
    expected = interval_of(values["DCL-LM"] - values["CL"])
    stated = numbers(sentence(Gathered(folder)))
    assert stated[: len(expected)] == pytest.approx(expected, abs=5.1e-4)


def test_the_sentence_of_a_likelihood_study_contains_the_correlations_of_its_scorers(tmp_path):
    add_likelihoods(tmp_path)
    text = sentence(Gathered(tmp_path / "words" / "artefacts"))
    points, _, _ = synthetic.likelihoods()
    points = points[points["finding"]]
    repeated = points.loc[points.index.repeat(points["count"])]
    rho = {
        scorer: stats.spearmanr(rows["log_likelihood"], rows["log_class_probability"]).statistic
        for scorer, rows in repeated.groupby("scorer")
    }
    values = numbers(text)
    assert [values[0], values[-3]] == pytest.approx([rho["masked LM"], rho["length"]], abs=5.1e-3)


def test_the_sentence_of_a_likelihood_study_names_each_of_several_corpora(tmp_path):
    add_likelihoods(tmp_path)
    folder = tmp_path / "words" / "artefacts"
    settings = tiny_words(reports={"source": "phantom", "correlation": [-0.8, 0.0]})
    (folder / "study.yaml").write_text(
        yaml.safe_dump(LikelihoodStudy.model_validate(settings).model_dump(mode="json"))
    )
    summary = pd.read_parquet(folder / "assumption/phantom/summary.parquet")
    unclear = {"spearman": 0.07, "low": -0.31, "high": 0.44}
    for corpus, changed in (("correlation=-0.8", {}), ("correlation=0", unclear)):
        (folder / "assumption" / corpus).mkdir()
        summary.assign(corpus=corpus, **changed).to_parquet(
            folder / f"assumption/{corpus}/summary.parquet"
        )
    first, second = sentence(Gathered(folder)).split(" With correlation = 0: ")
    assert first.startswith("With correlation = -0.8: ")
    assert "rises with" in first
    assert "no clear relation" in second
    assert numbers(second)[0] == 0.07


def test_no_answer_is_printed_from_damaged_or_missing_files(tmp_path):
    add_study(tmp_path, "first")
    (tmp_path / "index.html").write_text("")
    folder = tmp_path / "first" / "artefacts"
    rows, intact = folder / "rows.parquet", (folder / "rows.parquet").read_bytes()
    seal(tmp_path, [rows, folder / "comparison.json"])
    planned = {str(folder / "study.yaml")}
    answer = sentence(Gathered(folder))
    assert answer in findings.report(tmp_path, ["first"], planned)
    rows.write_bytes(intact[:-1] + b"!")
    text = findings.report(tmp_path, ["first"], planned)
    assert answer not in text
    assert f"{rows} was damaged or edited" in text
    rows.unlink()
    text = findings.report(tmp_path, ["first"], planned)
    assert answer not in text
    assert f"{rows} is missing. Run `snakemake" in text


def test_the_sentence_of_a_likelihood_study_says_whether_likelihoods_were_computed(tmp_path):
    folder = tmp_path / "words" / "artefacts"
    folder.mkdir(parents=True)
    reports = {"source": "image_table", "path": "images", "table": "table.csv"}
    settings = LikelihoodStudy.model_validate(tiny_words(reports=reports))
    (folder / "study.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json")))
    assert "No likelihoods were computed" in sentence(Gathered(folder))
    corpus = tmp_path / "words" / "text" / "image_table"
    corpus.mkdir(parents=True)
    (corpus / "eta.parquet").touch()
    assert "text/image_table/eta.parquet" in sentence(Gathered(folder))


def test_the_terminal_shows_the_sentence_of_each_study_on_the_page_with_a_link(tmp_path):
    names = ["first", "second", "unfinished"]
    for name in names[:2]:
        add_study(tmp_path, name)
    planned = {str(tmp_path / name / "artefacts" / "study.yaml") for name in names}
    assert findings.report(tmp_path, names, planned) == ""  # no page yet
    (tmp_path / "index.html").write_text("")
    (tmp_path / "second" / "artefacts" / "comparison.json").write_text(json.dumps({"seeds": 3}))
    text = findings.report(tmp_path, names, planned)
    answer = sentence(Gathered(tmp_path / "first" / "artefacts"))
    assert answer in text
    assert "comparison.json" in text
    for name in names:
        assert (f"index.html#{name}" in text) == (name != "unfinished")
    earlier = findings.report(tmp_path, names, ())
    assert answer not in earlier
    assert earlier.count("earlier") == 2


@pytest.mark.parametrize(("low", "outcome"), [(0.02, "equivalent"), (-0.021, "undecided")])
def test_the_oracles_gain_over_samples_decides_whether_equivalence_is_tested(low, outcome):
    """Over seeds alone, it exceeds the margin in both cases."""
    cl = np.linspace(0.5, 0.54, 8)
    noise = np.tile([0.0005, -0.0005], 4)
    rows = tidy(
        ACCURACY, {"CL": cl, "DCL": cl + noise, "Oracle": cl + 0.03 + noise}, dataset="mine"
    )
    common = {"baseline": "CL", "p": 0.2, "clusters": 100, "samples": 100}
    crossed = pd.DataFrame(
        [
            common | {"objective": "DCL", "low": -0.004, "high": 0.004, "p equivalence": 0.001},
            common | {"objective": "Oracle", "low": low, "high": 0.084, "p equivalence": 1.0},
        ],
        dtype=object,
    )
    row = primary_contrast(
        rows, "DCL", "CL", ACCURACY, "mine", 0.005, oracle="Oracle", crossed=crossed
    )
    assert row["outcome"] == outcome
    named = Named("mine", ACCURACY, "DCL", oracle="Oracle", crossed=crossed)
    table = comparisons(rows, "CL", [ACCURACY], {ACCURACY: 0.005}, named)
    assert table.set_index("contrast").loc["DCL − CL", "outcome"] == outcome
