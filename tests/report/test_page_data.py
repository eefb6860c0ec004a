"""The page contains a study's runs, provenance and examples, and no restricted data."""

import html
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from statsmodels.stats.power import tt_solve_power
from tests.browser.pages import STALE, add_examples, add_likelihoods, add_study, add_theory, page_of
from tests.report.synthetic_pairs import PRINTED, PUBLISHED
from tests.studies import tiny_words

from trueneg.io import privacy
from trueneg.report import registry
from trueneg.report.findings import report, sentence
from trueneg.report.formats import Cell
from trueneg.report.gathered import Gathered
from trueneg.report.labels import variant_name
from trueneg.report.page import render_page, study_page
from trueneg.report.page.provenance import Provenance
from trueneg.stats.measurement import Measurement

AUC = Measurement("zero-shot", "AUC")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    add_study(folder)
    add_examples(folder)
    return folder


@pytest.fixture(scope="module")
def artefacts(results):
    return results / "phantom" / "artefacts"


@pytest.fixture(scope="module")
def page(artefacts):
    return study_page(artefacts)


@pytest.fixture
def provenance(page, artefacts):
    """The provenance of the study's numbers, before any number was looked up."""
    return Provenance(page["provenance"].runs, page["provenance"].settings, artefacts)


def test_runs_have_their_provenance(provenance):
    states = [run["state"] for run in provenance.runs]
    assert states == ["stale"] + ["finished"] * (len(states) - 1)
    first = provenance.runs[0]
    assert first["made"]["Code"] == f"version 1 except training/image-text: {STALE}"
    assert first["made"]["Commit"] == "8a226e2ecca8"
    for key in ("epochs", "batch_size"):
        assert first["configuration"][f"training.{key}"] == json.dumps(
            first["settings"]["training"][key]
        )


def runs_at(described):
    """Objective and seed of the runs behind a number."""
    return {(run["objective"], run["seed"]) for run in described["runs"]}


def test_the_provenance_of_a_cell_is_its_runs_or_its_publication(provenance):
    ids = [run["id"] for run in provenance.runs]
    cells = [
        Cell("0.81", runs=f"{ids[7]} {ids[2]}"),
        Cell("–", runs=ids[0]),
        Cell("0.80", printed="a paper"),
        Cell("3 seeds"),
    ]
    places = [provenance.of_cell(cell) for cell in cells]
    assert places[1] is None
    assert provenance.of_cell(Cell("0.7", runs=f"{ids[2]} {ids[7]}")) == places[0]
    described = provenance.described()
    assert [run["id"] for run in described[places[0]]["runs"]] == [ids[2], ids[7]]
    assert described[places[2]] == {"printed": "a paper"}
    assert [run["id"] for run in described[places[3]]["runs"]] == ids  # of the whole study


def test_provenance_separates_differing_settings_from_shared_ones(provenance):
    ids = {run["objective"]: run["id"] for run in provenance.runs}
    provenance.of_runs([ids["CL"], ids["ReCo"]])
    (described,) = provenance.described()
    assert "objective.name" in described["differing"]
    shared = dict(line.split(": ", 1) for line in described["shared"])
    assert "training.epochs" in shared
    assert not shared.keys() & set(described["differing"])


def test_examples_of_an_earlier_configuration_are_not_shown(tmp_path):
    add_study(tmp_path)
    add_examples(tmp_path)
    folder = tmp_path / "phantom" / "artefacts"
    page = study_page(folder)
    shutil.copy(
        folder / "retrieval/phantom/CL.parquet", folder / "retrieval/phantom/Removed.parquet"
    )
    (folder / "retrieval/other").mkdir()
    shutil.copy(folder / "retrieval/phantom/CL.parquet", folder / "retrieval/other/CL.parquet")
    assert study_page(folder)["examples"] == page["examples"]
    assert len(page["examples"]["queries"]) == 4


@pytest.fixture(scope="module")
def with_all_tables(tmp_path_factory):
    """A study with named contrasts and published numbers, and its page."""
    folder = tmp_path_factory.mktemp("tables")
    add_study(folder, contrasts=[{"treatment": "DCL", "baseline": "ReCo"}], published=PUBLISHED)
    gathered = Gathered(folder / "phantom" / "artefacts")
    return gathered, study_page(gathered.folder)


@pytest.mark.parametrize("name", ["methods", "tasks", *PRINTED, "differences"])
def test_the_provenance_of_every_number_is_the_runs_of_its_objectives(name, with_all_tables):
    gathered, page = with_all_tables
    shown = registry.tables_by_name(gathered.study)[name].made(gathered)
    provenance = Provenance(page["provenance"].runs, page["provenance"].settings, gathered.folder)
    best = gathered.chosen("DCL")
    labels = dict.fromkeys(
        ("DCL", gathered.names[gathered.dataset, "DCL"]), variant_name("DCL", best)
    )
    for group in shown.groups:
        for line, cells in group.lines:
            for cell, (_, column) in zip(cells, shown.columns, strict=True):
                place = provenance.of_cell(cell)
                described = None if place is None else provenance.described()[place]
                if described is not None and "printed" in described:
                    assert name in PRINTED
                    assert described["printed"] in {
                        f"{paper['paper']}, {of}" for paper in PUBLISHED for of in paper["tables"]
                    }
                if described is None or "runs" not in described:
                    assert described is None or cell.text.startswith("–")
                    continue
                objectives = [
                    *line.rpartition("; ours: ")[2].split(" − "),
                    *(["CL"] if "− CL" in column or column == "outcome" else []),
                ]
                expected = {
                    (labels.get(name, name), seed) for name in objectives for seed in range(6)
                }
                assert runs_at(described) == expected, (line, column, cell)


def set_gains(folder, gains, margin=None):
    """Write rows in which the treatment gains so much over the baseline on the test split."""
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["primary"]["margin"] = margin
    (folder / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    rows = pd.read_parquet(folder / "rows.parquet")
    measured = Gathered(folder).primary.rows_of(rows[rows["split"] == "test"])
    by_objective = dict(list(measured.sort_values("seed").groupby("objective")))
    treatment, baseline = (
        by_objective[study["primary"][side]] for side in ("treatment", "baseline")
    )
    rows.loc[treatment.index, "value"] = baseline["value"].to_numpy() + gains
    rows.to_parquet(folder / "rows.parquet")


def test_marks_and_warnings_state_the_caveats(page, tmp_path):
    marks, count = dict(page["marks"]), len(page["provenance"].runs)
    assert marks["stale"] == f"stale: 1 of {count} runs"
    assert "few" not in marks  # six seeds
    assert any(
        f"1 of {count} runs" in warning and "stale" in warning for warning in page["warnings"]
    )
    add_study(tmp_path)
    path = tmp_path / "phantom" / "artefacts" / "comparison.json"
    comparison = json.loads(path.read_text()) | {"seeds": 3}
    set_gains(path.parent, [0.001, 0.0012, 0.0008, 0.001, 0.0011, 0.0009], margin=0.01)
    comparison["headroom"][0]["label"] = "no clear headroom"
    path.write_text(json.dumps(comparison))
    page = study_page(path.parent)
    marks = dict(page["marks"])
    assert marks["better"] == "DCL-LM: better by less than the margin"
    assert marks["headroom"] == "no clear headroom"
    assert marks["few"] == "too few seeds: 3"
    assert any(warning.startswith("3 seeds") for warning in page["warnings"])


@pytest.mark.parametrize(
    ("cpus", "shown"),
    [((), ()), (("EPYC", "EPYC"), ()), (("EPYC", "Xeon"), ("EPYC; Xeon", "differ"))],
)
def test_the_page_says_when_runs_come_from_several_types_of_cpu(tmp_path, cpus, shown):
    add_study(tmp_path)
    path = tmp_path / "phantom" / "artefacts" / "runs.json"
    runs = json.loads(path.read_text())
    for run, cpu in zip(runs[-2:], cpus, strict=False):  # the other records are older
        run["evaluated"] = run | {"settings": {}, "machine": run["machine"] | {"cpu": cpu}}
    path.write_text(json.dumps(runs))
    warnings = [warning for warning in study_page(path.parent)["warnings"] if "CPU" in warning]
    assert len(warnings) == bool(shown)
    assert all(fact in warning for warning in warnings for fact in shown)


def test_the_page_says_what_the_data_are_and_which_objective_is_numerically_the_baseline(tmp_path):
    add_study(tmp_path)
    path = tmp_path / "phantom" / "artefacts" / "runs.json"
    runs = json.loads(path.read_text())
    facts = {"negatives": 63, "expected": {"texts": 1.25}}
    of_eta = {
        "eta": dict.fromkeys(("minimum", "mean", "most"), 2e-5) | {"maximum": 4e-5},
        "only_eta": True,
    }
    for run in runs:
        if run["seed"]:  # the runs of the first seed are those of an earlier version
            run["false_negatives"] = facts | of_eta if run["objective"] == "DCL-LM" else facts
        if run["objective"] == "Oracle":  # as if it were not trained, and so had no negatives
            run["settings"]["objective"] = {"name": "untrained"}
            run["false_negatives"] = {"negatives": 31, "expected": {"texts": 0.6}}
    path.write_text(json.dumps(runs))
    page = study_page(path.parent)
    text = render_page([page], tmp_path / "index.html").read_text()
    (known,) = (line for line in page["data"] if "63 negatives" in line)
    assert all(part in known for part in ("1.25", "2 %", "have its text"))
    assert not any("31 negatives" in line for line in page["data"])
    (of_eta,) = (line for line in page["data"] if "η" in line)
    assert all(part in of_eta for part in ("DCL-LM", "2e-05 to 4e-05", "average 2e-05"))
    (warning,) = (line for line in page["warnings"] if "numerically" in line)
    assert all(
        part in warning
        for part in (
            "DCL-LM is numerically uncorrected",
            "at most 0.0013",
            "about 1.25 (2 %) have its text",
        )
    )
    assert all(line in html.unescape(text) for line in (known, of_eta, warning))


@pytest.mark.parametrize(
    ("encoders", "is_said"),
    [
        ({}, False),  # networks from scratch
        ({"encoder": {"name": "timm", "train": "none"}}, False),  # the texts' is trained
        ({key: {"name": "vectors", "train": "none"} for key in ("encoder", "text_encoder")}, True),
        ({"text_encoder": {"name": "open_clip", "train": {"last": 2}}}, False),
    ],
)
def test_the_page_says_that_its_answer_is_that_of_a_head(tmp_path, encoders, is_said):
    add_study(tmp_path)
    path = tmp_path / "phantom" / "artefacts" / "runs.json"
    runs = json.loads(path.read_text())
    for run in runs:
        run["settings"] |= encoders
    path.write_text(json.dumps(runs))
    assert any("Only a head was trained" in fact for fact in study_page(path.parent)["facts"]) == (
        is_said
    )


SECRET = "A sentence of a patient"


@pytest.mark.parametrize("marked_by", ["the files", "the source"])
def test_the_page_shows_only_numbers_of_restricted_data(tmp_path, marked_by):
    source = (
        {"dataset": {"source": "mimic_cxr", "text": "reports", "path": "data/mimic"}}
        if marked_by == "the source"
        else {}
    )
    add_study(tmp_path, **source)
    add_examples(tmp_path, restricted=marked_by == "the files", text=SECRET)
    folder = tmp_path / "phantom" / "artefacts"
    overlays = [
        text
        for path in folder.glob("overlays/*/*.parquet")
        for text in pd.read_parquet(path)["sentence"]
    ]
    assert overlays
    page = study_page(folder)
    text = render_page([page], tmp_path / "index.html").read_text()
    assert page["finding"] in text
    assert not any(secret in text for secret in (SECRET, *overlays))
    assert "data:image" not in text
    assert all(record["id"] in text for record in json.loads((folder / "runs.json").read_text()))
    assert "no text or images" in text


@pytest.mark.parametrize("restricted", [False, True])
def test_suspects_are_shown_escaped_and_never_of_restricted_data(tmp_path, restricted):
    add_study(tmp_path)
    folder = tmp_path / "phantom" / "artefacts"
    (folder / "suspects").mkdir()
    pair = {"text": "<i>one</i>", "label": "ant", "text2": SECRET, "label2": "bee"}
    privacy.write_table(
        pd.DataFrame([pair | {"similarity": 0.98765}]),
        folder / "suspects/phantom.parquet",
        restricted,
    )
    text = render_page([study_page(folder)], tmp_path / "index.html").read_text()
    for part in ("&lt;i&gt;one", SECRET, ">0.988<", "with different labels"):
        assert (part in text) is not restricted
    assert "<i>one" not in text


def test_rendering_the_same_folder_twice_gives_the_same_page(results, artefacts):
    def written():
        return render_page([study_page(artefacts)], results / "index.html").read_bytes()

    assert written() == written()


def test_the_provenance_of_a_study_without_runs_lists_its_files(tmp_path):
    add_theory(tmp_path)
    provenance = Provenance(settings={"kind": "theory"}, folder=tmp_path / "theory" / "artefacts")
    provenance.of_runs()
    (described,) = provenance.described()
    (line,) = described["files"]
    assert line.endswith("theory/artefacts/simulation/numbers.parquet")


def test_a_likelihood_study_without_known_classes_states_what_it_measures(tmp_path):
    folder = tmp_path / "words" / "artefacts"
    folder.mkdir(parents=True)
    reports = {"source": "text_table", "path": "texts.csv", "text_column": "text"}
    study = tiny_words(reports=reports, eta={"a": 0.25, "k": 0.75}) | {
        "language_models": {"Small": {}, "Other": {}}
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    corpus = tmp_path / "words" / "text" / "text_table"
    corpus.mkdir(parents=True)
    (corpus / "eta.parquet").touch()
    page = study_page(folder)
    for fact in ("Small", "Other", "0.25", "0.75", "text/text_table/eta.parquet"):
        assert fact in page["finding"]
    text = html.unescape(render_page([page], tmp_path / "index.html").read_text())
    assert text.count(page["finding"]) == 2  # on the overview and in the study's section
    assert page["finding"] in report(tmp_path, ["words"], [str(folder / "study.yaml")])


def test_the_page_of_a_likelihood_study_shows_the_provenance_of_its_language_models(tmp_path):
    add_likelihoods(tmp_path)
    text = page_of(tmp_path).read_text()
    assert 'popovertarget="words:made:0"' in text
    trained, missing, released = re.findall(r"<dl>\s*<dt>Model</dt>.*?</dl>", text, flags=re.DOTALL)
    facts = (
        "BERT (abcdef)",
        f"<dt>Version</dt><dd>{STALE}</dd>",
        "8a226e2ecca8",
        "torch 2.15.0",
        "2.5 min",
        "7e3f",
    )
    for fact in (*facts, "GPU seconds not recorded"):
        assert fact in trained
    assert "BERT<" in missing
    assert "7e3f" in missing
    assert "released<" in released
    assert "7e3f" not in released


def test_the_answer_says_what_more_seeds_would_cost_and_what_to_use_and_export(tmp_path):
    add_study(tmp_path)
    folder = tmp_path / "phantom" / "artefacts"
    page = study_page(folder)
    assert "trueneg export" not in " ".join(page["facts"])  # no weights are here
    assert page["finding"] == sentence(Gathered(folder))
    assert not any(fact in page["finding"] for fact in page["facts"])
    gathered = Gathered(folder)
    rows = gathered.primary.rows_of(gathered.rows[gathered.rows["split"] == "validation"])
    labelled = [
        "Oracle",
        "DCL-true",
        *(name for name in gathered.study.objectives if name.startswith("Remove-labels")),
    ]
    means = rows.groupby("objective")["value"].mean().drop(labelled, errors="ignore").sort_values()
    of_best = rows[rows["objective"] == means.index[-1]].sort_values("value")
    run = tmp_path / "runs" / of_best["run"].iloc[-1]
    run.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", "model.safetensors"):
        (run / name).write_text("{}")
    page = study_page(folder)
    # all methods are better than CL in this study
    assert f"Use {means.index[-1]}" in page["finding"]
    assert f"trueneg export {run.name} exported; " in page["facts"][-1]
    path = folder / "comparison.json"
    comparison = json.loads(path.read_text())
    noise = np.array([-1, 1, -1, 1, -1, 1]) * 0.02 * np.sqrt(5 / 6)  # a deviation of 0.02
    set_gains(folder, 0.01 + noise)
    page = study_page(folder)
    facts = " ".join(page["facts"])
    needed = int(np.ceil(tt_solve_power(0.5, power=0.8, alpha=0.05)))
    runs = needed * len(gathered.study.objectives)
    assert f"{needed} seeds detect it with a power of 80 %" in facts
    assert f"{runs} runs, about " in facts
    set_gains(folder, 1e-6 + noise)
    assert "more than 1,000 seeds" in " ".join(study_page(folder)["facts"])
    sides = {side: comparison["primary"][side] for side in ("objective", "baseline")}
    of_samples = {"low": -0.1, "high": 0.1, "p": 0.9, "p equivalence": 0.9, "clusters": 9}
    comparison["crossed"] = [sides | of_samples | {"samples": 9}]
    path.write_text(json.dumps(comparison))
    facts = " ".join(study_page(folder)["facts"])
    assert "More seeds alone need not decide it" in facts
    assert "1,000 seeds" not in facts


def test_the_answer_advises_the_baseline_if_no_method_is_better_on_the_test_split(tmp_path):
    add_study(tmp_path)
    folder = tmp_path / "phantom" / "artefacts"
    gathered = Gathered(folder)
    place = ["seed", "split", "task", "metric", "labels", "fraction", "direction", "k", "group"]
    rows = pd.read_parquet(folder / "rows.parquet")
    of_cl = rows[rows["objective"] == "CL"].drop_duplicates(place).set_index(place)["value"]
    noise = pd.Series(np.random.default_rng(0).normal(0, 1e-3, len(rows)), rows.index)
    values = (
        pd.Series(of_cl.reindex(pd.MultiIndex.from_frame(rows[place])).to_numpy(), rows.index)
        + noise
    )
    is_changed = (rows["split"] == "test") & (rows["objective"] != "CL") & values.notna()
    rows.assign(value=rows["value"].mask(is_changed, values)).to_parquet(folder / "rows.parquet")
    validation = gathered.primary.rows_of(gathered.rows[gathered.rows["split"] == "validation"])
    best = validation[validation["objective"] == "CL"].sort_values("value").iloc[-1]
    run = tmp_path / "runs" / best["run"]
    run.mkdir(parents=True, exist_ok=True)
    for name in ("run.json", "model.safetensors"):
        (run / name).write_text("{}")
    page = study_page(folder)
    assert "Use CL: " in page["finding"]
    assert f"trueneg export {run.name} exported; " in page["facts"][-1]
