"""A tuned study: winners from pilot rows, their comparison on new seeds, and their names in
tables.
"""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import synthetic
from tests.report.test_summary import OUTPUTS
from tests.studies import tuned_study

from trueneg.config import runs
from trueneg.config.reading import load_configuration, read_configuration
from trueneg.errors import UserError
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.report import registry
from trueneg.report.findings import answer_of
from trueneg.report.gathered import SHARED_TEST, Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.summary import select_winners, summarise_study
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import load_rows, to_table
from trueneg.store.winners import chosen

KNN = Measurement("knn", "accuracy", "all")
BEST = {"HCL": 0.2, "Oracle": 0.5}  # temperatures


def loaded(**changes):
    return load_configuration({"tuned": tuned_study(**changes)}, "test")


def measured_rows(job, variant, drawn):
    """Rows of a job: BEST is the best temperature on the validation split only; CL is constant."""
    objective, temperature = job.row_names["objective"], json.loads(variant).get("temperature", 0.5)
    for seed, split in itertools.product([run.seed for run in job.runs], ("validation", "test")):
        is_best = (BEST.get(objective) == temperature) == (split == "validation")
        value = 0.5 if objective == "CL" else 0.5 + 0.1 * is_best + 0.001 * drawn.random()
        row = {
            **job.row_names,
            "variant": variant,
            "seed": seed,
            "run": f"{job.objective}-{seed}",
            "split": split,
        }
        yield {**row, **KNN._asdict(), "value": value}
        yield {**row, **Measurement("knn", "chance")._asdict(), "value": 0.1}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The folder with the rows, winners and artefacts of both stages, and the settings of the
    selection.
    """
    tmp_path = tmp_path_factory.mktemp("tuned")
    configuration, drawn = loaded(), np.random.default_rng(0)
    (study,), trainings = configuration.studies.values(), TrainingJobs(configuration)
    jobs, parts = list(runs.jobs("tuned", study)), {True: [], False: []}
    for job in (job for job in jobs if job.is_pilot):
        parts[True] += measured_rows(job, job.row_names["variant"], drawn)
    to_table(parts[True]).to_parquet(tmp_path / "pilots.parquet")
    settings = trainings.selecting(SimpleNamespace(study="tuned"))
    winners, validation = tmp_path / "winners.json", tmp_path / "tuning.parquet"
    select_winners([tmp_path / "pilots.parquet"], settings, winners=winners, validation=validation)
    for job in (job for job in jobs if not job.is_pilot):
        variant = chosen(job.to_json(), winners)[0] if job.family else job.row_names["variant"]
        parts[False] += measured_rows(job, variant, drawn)
    to_table(parts[False]).to_parquet(tmp_path / "rows-of-blocks.parquet")
    synthetic.curves(("digits",), gains=study.objectives, seeds=2).to_parquet(
        tmp_path / "curves-of-blocks.parquet"
    )
    (tmp_path / "runs-of-blocks.json").write_text("[]")
    inputs = SimpleNamespace(
        rows=[tmp_path / "rows-of-blocks.parquet"], curves=[tmp_path / "curves-of-blocks.parquet"]
    )
    inputs.samples = []
    inputs.runs, inputs.pilots, inputs.winners, inputs.published = (
        [tmp_path / "runs-of-blocks.json"],
        [],
        str(winners),
        "",
    )
    outputs = SimpleNamespace(**{key: tmp_path / name for key, name in OUTPUTS.items()})
    summarise_study("tuned", study.model_dump(mode="json"), inputs, outputs)
    return tmp_path, settings


def test_winners_are_selected_on_the_validation_split_and_written_reproducibly(both):
    folder, settings = both
    content = json.loads((folder / "winners.json").read_text())
    selected = content["winners"]["digits"]
    assert {name: winner["variant"]["temperature"] for name, winner in selected.items()} == BEST | {
        "CL": 0.2
    }
    assert [candidate["tied"] for candidate in selected["CL"]["candidates"]] == [False, True]
    assert (content["rule"], content["measured"]) == ("largest mean", KNN._asdict())
    assert {candidate["runs"] for candidate in selected["HCL"]["candidates"]} == {
        f"HCL,temperature={t},beta=2-100 HCL,temperature={t},beta=2-101" for t in (0.2, 0.5)
    }
    assert set(load_rows(folder / "tuning.parquet")["split"]) == {"validation"}
    before = (folder / "winners.json").read_bytes()
    select_winners(
        [folder / "pilots.parquet"],
        settings,
        winners=folder / "winners.json",
        validation=folder / "tuning.parquet",
    )
    assert (folder / "winners.json").read_bytes() == before


def test_a_tuned_study_is_compared_on_new_seeds(both):
    folder, _ = both
    gathered = Gathered(folder)
    selection = gathered.selection.set_index("objective")
    assert selection["candidates"].to_dict() == {
        "CL": 2,
        "HCL": 2,
        "Oracle": 2,
        "Hardness": 1,
        "CL-untuned": 1,
    }
    assert selection.loc["Hardness", "variant"] == selection.loc["HCL", "variant"]
    assert selection.loc["HCL", "at edge"] == "temperature"
    rows = load_rows(folder / "rows-of-blocks.parquet")
    values = {
        name: KNN.rows_of(rows[(rows["objective"] == name) & (rows["split"] == "test")]).set_index(
            "seed"
        )["value"]
        for name in ("HCL", "CL")
    }
    assert gathered.comparison["primary"]["difference"] == pytest.approx(
        (values["HCL"] - values["CL"]).mean()
    )
    assert gathered.comparison["seeds"] == 2


def test_selection_on_test_data_is_said_only_if_seeds_draw_them(both):
    folder, _ = both
    gathered = Gathered(folder)
    assert SHARED_TEST in gathered.selection_notes
    file = Path(__file__).parents[2] / "config/studies/banking77_tuned.yaml"
    # official test texts; each seed draws labels
    gathered.study = read_configuration([file]).studies["banking77_tuned"]
    assert SHARED_TEST not in gathered.selection_notes


def test_tables_show_selected_values_ties_and_edges(both):
    folder, _ = both
    gathered = Gathered(folder)
    names = {name: text for (_, name), text in gathered.names.items()}
    assert names == {
        "CL": "CL (t = 0.2 of 0.2, 0.5)",
        "HCL": "HCL (β = 2; t = 0.2 of 0.2, 0.5)",
        "Oracle": "Oracle (t = 0.5 of 0.2, 0.5)",
        "Hardness": "Hardness (β = 2, t = 0.2, as HCL)",
        "CL-untuned": "CL-untuned",
    }
    tables = registry.tables_by_name(gathered.study)
    made = tables["differences"].made(gathered)
    assert {name for group in made.groups for name, _ in group.lines} == {
        f"{name} − CL" for name in names.values() if name != names["CL"]
    }
    notes = " ".join(made.notes)
    assert all(part in notes for part in ("kNN", "2 seeds", names["CL"], "Tied", "edge"))
    assert "HCL (temperature = 0.2)" in gathered.note_on({"digits"}, {"HCL"})
    assert "edge" not in gathered.note_on({"digits"}, {"CL-untuned"})
    made = tables["candidates"].made(gathered)
    remarks = {
        (group.title, name): cells[-1].text for group in made.groups for name, cells in group.lines
    }
    assert remarks["digits; CL", "t = 0.5"] == "tied"
    assert "edge of t" in remarks["digits; HCL", "β = 2, t = 0.2"]
    assert remarks["digits; HCL", "β = 2, t = 0.5"] == ""


def test_answers_give_the_selected_values_at_the_edge_of_their_grid(both):
    gathered = Gathered(both[0])
    text = gathered.comparison["primary"]["answer"]
    assert "edge" in text
    for name, value in (("HCL", 0.2), ("CL", 0.2), ("Oracle", 0.5)):
        assert f"{name} (temperature = {value})" in text
    assert "Hardness" not in text  # not compared
    comparison = json.loads((both[0] / "comparison.json").read_text())
    for entry in comparison["selection"]:
        entry["at edge"] = ""
    without = answer_of(
        gathered.study, compared_rows(gathered), gathered.dataset, comparison["selection"]
    )
    assert "edge" not in " ".join(without)


def test_rows_of_another_variant_than_the_winner_raise_an_error(both, tmp_path):
    folder, _ = both
    rows = load_rows(folder / "rows-of-blocks.parquet")
    rows["variant"] = rows["variant"].mask(rows["objective"] == "Oracle", '{"temperature":0.2}')
    rows.to_parquet(tmp_path / "rows-of-blocks.parquet")
    inputs = SimpleNamespace(
        rows=[tmp_path / "rows-of-blocks.parquet"],
        curves=[folder / "curves-of-blocks.parquet"],
        runs=[],
    )
    inputs.pilots, inputs.winners, inputs.published = [], str(folder / "winners.json"), ""
    inputs.samples = []
    outputs = SimpleNamespace(**{key: tmp_path / name for key, name in OUTPUTS.items()})
    with pytest.raises(UserError, match=r"Oracle.*0\.5"):
        summarise_study("tuned", tuned_study(), inputs, outputs)


@pytest.mark.parametrize(
    ("winners", "fact"),
    [
        ({}, "no winner of HCL on digits"),
        ({"HCL": {"beta": 3.0}}, "HCL on digits is .*3.*expected"),
        ({"HCL": {"beta": 2.0, "temperature": 0.2}}, "HCL on digits was .*without .*0.5.*Repeat"),
    ],
)
def test_winners_that_do_not_match_the_study_raise_an_error(tmp_path, winners, fact):
    numbers = {
        "seeds": 1,
        "mean": 0.5,
        "standard deviation": None,
        "low": None,
        "high": None,
        "runs": "r",
        "tied": False,
    }
    of_dataset = {
        name: {"variant": value, "candidates": [{"variant": value, **numbers}]}
        for name, value in winners.items()
    }
    content = {
        "rule": "largest mean",
        "seeds": [100],
        "measured": KNN._asdict(),
        "winners": {"digits": of_dataset},
    }
    path = tmp_path / "winners.json"
    path.write_text(json.dumps(content))
    (study,) = loaded().studies.values()
    job = next(job for job in runs.jobs("tuned", study) if job.objective == "HCL")
    with pytest.raises(UserError, match=fact):
        chosen(job.to_json(), path)
    for damaged in (
        {"winners": content["winners"]},
        content | {"winners": {"digits": {"HCL": {}}}},
        [],
    ):
        path.write_text(json.dumps(damaged))
        with pytest.raises(
            UserError,
            match=r"winners\.json: cannot be read as the winners .*correct tuning\.winners",
        ):
            chosen(job.to_json(), path)
