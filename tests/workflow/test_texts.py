"""A text study as a real workflow, from a restricted table of pairs to the page, and what an edited
table runs again.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.projects import Project, new_project
from tests.studies import tiny_texts, tiny_words
from trueneg.cli.main import main
from trueneg.store.run_store import RunStore

pytestmark = pytest.mark.long  # `make test-studies` runs whole text studies

SECRET, TABLE, RATED = "Quokka", "data/my pairs.csv", "data/rated pairs.csv"
COLUMNS = {
    "text_column": "question",
    "positive_column": "answer",
    "negative_columns": ["wrong"],
    "label_column": "topic",
}
READ = {"source": "text_table", "path": TABLE, "restricted": True, **COLUMNS}
SHARED = {"CL", "Mined", "Oracle", "untrained"}
LEARNED = {"CL", "DCL-LM", "DCL-permuted", "DCL-constant", "Remove", "Oracle"}


def study(folder) -> dict:
    """Two towers, one of them trained, on pairs with hard negatives; η and similarities come from a
    likelihood study.
    """
    tower = tiny_texts()["text_encoder"] | {"truncate": True}
    dcl = {
        name: {"name": "dcl", "class_probability": name}
        for name in ("language model", "permuted", "constant mean")
    }
    return tiny_texts(
        dataset=READ
        | {"text": "words", "positives": "given"}
        | {
            "labels": {"train": 4, "validation_unseen": 2, "test_unseen": 2},
            "rated": {"path": RATED},
        },
        text_encoder=tower | {"model": f"{folder}/bert"},
        positive_encoder=tower | {"model": f"{folder}/other", "train": {"last": 1}},
        projection={"name": "residual", "dimensions": 8},
        objectives={
            "CL": {"name": "cl", "directions": "both"},
            "DCL-LM": dcl["language model"],
            "DCL-permuted": dcl["permuted"],
            "DCL-constant": dcl["constant mean"],
            "Remove": {"name": "remove", "by": "text", "directions": "both"},
            "Oracle": {"name": "oracle", "directions": "both"},
        },
        primary={"labels": "unseen", "treatment": "DCL-LM", "baseline": "CL", "oracle": "Oracle"},
    )


def unrestricted(folder) -> dict:
    """One frozen tower, on pairs drawn from the labels of another table."""
    return tiny_texts(
        dataset={"source": "text_table", "path": "data/open texts.csv", "label_column": "label"},
        text_encoder=tiny_texts()["text_encoder"] | {"model": f"{folder}/bert"},
        objectives={
            "CL": {"name": "cl"},
            "Mined": {"name": "cl", "hard_negatives": {"num_negatives": 2}},
            "Oracle": {"name": "oracle"},
        },
        primary={"labels": "seen", "treatment": "Oracle", "baseline": "CL", "oracle": "Oracle"},
        seeds=1,
    )


def words() -> dict:
    return tiny_words(
        reports=READ | {"labels": {"train": 4, "validation_unseen": 2, "test_unseen": 2}}
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intents")
    project = new_project(folder / "my project")
    (project.path / "data").mkdir()
    kinds = ("question", "answer", "wrong")
    rows = [
        [f"topic {label}", *(f"{SECRET} {kind} {number} on topic {label}" for kind in kinds)]
        for label in range(8)
        for number in range(16)
    ]
    pd.DataFrame(rows, columns=["topic", *kinds]).to_csv(project.path / TABLE, index=False)
    texts = [
        [f"text {number} on {label}", f"topic {label}"]
        for label in range(4)
        for number in range(12)
    ]
    pd.DataFrame(texts, columns=["text", "label"]).to_csv(
        project.path / "data/open texts.csv", index=False
    )
    rated = [
        [f"{SECRET} {number}", f"{SECRET} {number + number % 3}", number % 3] for number in range(9)
    ]
    pd.DataFrame(rated, columns=["first", "second", "score"]).to_csv(
        project.path / RATED, index=False
    )
    for seed, name in enumerate(("bert", "other")):
        folder_of("bert", folder / name, seed)
    project.configure(words=words(), intents=study(folder), open=unrestricted(folder))
    (project.path / "snakemake.log").write_text(project.run())
    return project


@pytest.fixture
def project(finished, tmp_path, monkeypatch):
    """A copy of it, as the working directory."""
    monkeypatch.chdir(finished.copy(tmp_path / "project").path)
    return Project(Path.cwd())


def test_a_table_of_pairs_becomes_rows_of_every_task_and_objective(finished):
    results = finished.path / "results"
    rows = pd.read_parquet(results / "intents/artefacts/rows.parquet")
    assert set(rows["objective"]) == LEARNED  # two different towers share no space before training
    assert set(rows["task"]) == {"knn", "linear probe", "retrieval", "clustering", "similarity"}
    assert set(rows["labels"].dropna()) == {"seen", "unseen"}
    assert np.isfinite(rows["value"]).all()
    page = (results / "index.html").read_text()
    assert all(f'id="{name}"' in page for name in ("intents", "open"))
    assert set(pd.read_csv(results / "open/tables/texts.csv")["objective"]) >= SHARED
    assert "False negatives among the nearest texts" in page
    sentences = next(
        table
        for table in map(pd.read_parquet, (results / "texts").glob("*.parquet"))
        if "eta" in table
    )
    scored = sentences["eta"].notna()
    # no text of another label than those to train on, and no rated one
    assert 0 < scored.mean() < 1
    assert not scored[sentences["split"] == "rated"].any()
    # the labels to train on, and −1 of hard negatives
    assert sentences.loc[scored, "class"].nunique() <= 5
    assert finished.planned() == {}
    checked = finished.trueneg("check", "study.yaml").stdout
    assert "text_table: 2 of 2 runs finished" in checked
    assert checked.count("Nothing to train: every run is in the store.") == 2
    assert "sentences up to date; scored by 1 of 1 language models" in checked


def test_why_names_the_language_model_of_class_probabilities_and_similarities(finished, capsys):
    results, models = finished.path / "results", {}
    for identifier, record in RunStore(results / "runs").records().items():
        assert main(["why", identifier, "--json", "-", "--results", str(results)]) == 0
        models[record["objective"]] = [
            model["name"] for model in json.loads(capsys.readouterr().out)["language models"]
        ]
    assert models.keys() == {*LEARNED, *SHARED}
    assert (
        models["DCL-LM"]
        == models["DCL-permuted"]
        == models["DCL-constant"]
        == models["Remove"]
        != []
    )
    assert models["CL"] == models["Mined"] == models["Oracle"] == models["untrained"] == []


def content(path) -> str:
    """Return what a file says, as text."""
    is_table = path.suffix == ".parquet" and ".checksums" not in path.parts
    return (
        str(pd.read_parquet(path).to_dict())
        if is_table
        else path.read_bytes().decode(errors="replace")
    )


def test_restricted_texts_are_in_no_log_figure_or_page_and_only_their_owner_reads_their_files(
    finished,
):
    files = [
        path
        for folder in ("results", ".snakemake")
        for path in (finished.path / folder).rglob("*")
        if path.is_file()
    ]
    with_text = {
        path
        for path in [*files, finished.path / "snakemake.log"]
        if SECRET.lower() in content(path).lower()
    }
    # tables of texts, and vocabularies
    assert {path.suffix for path in with_text} == {".parquet", ".json"}
    assert [path for path in with_text if path.stat().st_mode & 0o077] == []
    assert {path.suffix for path in files if path not in with_text} >= {
        ".log",
        ".svg",
        ".csv",
        ".tex",
        ".html",
        ".npz",
    }
    assert not with_text & {
        *(finished.path / "results/intents").rglob("*"),
        *(finished.path / "results/runs").rglob("*"),
    }


def test_an_edited_table_runs_the_whole_chain_and_is_reported_as_changed(project, capsys):
    table = pd.read_csv(TABLE)
    table.loc[0, "question"] += ", edited"
    table.to_csv(TABLE, index=False)
    planned = project.planned()
    expected = {
        "captions",
        "language_model",
        "score",
        "eta",
        "texts",
        "subsets",
        "features",
        "train",
        "evaluate",
        "compare",
    }
    assert planned.keys() >= expected
    assert main(["check", "study.yaml"]) == 0
    checked = capsys.readouterr().out
    assert re.search(rf"data changed: .*{TABLE}", checked)
    assert "sentences outdated" in checked
    assert "12 runs to train" in checked
    assert checked.count("Nothing to train") == 1  # the other table's study
    assert main(["runs", "--json", "-"]) == 0
    states = [(run["study"], run["state"]) for run in json.loads(capsys.readouterr().out)]
    assert {*states} == {("intents", "finished, data changed"), ("open", "finished")}
    assert main(["why", "results/intents/tables/texts.csv"]) == 0
    assert f"data changed: {TABLE}" in capsys.readouterr().out


def test_damaged_texts_are_found(project, capsys):
    assert main(["check", "--files", "study.yaml"]) == 0
    assert ": 0 damaged" in capsys.readouterr().out
    (damaged,) = {
        path for path in Path("results/texts").glob("*.parquet") if "eta" in pd.read_parquet(path)
    }
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert main(["check", "--files", "study.yaml"]) == 1
    printed = capsys.readouterr()
    assert f"{damaged} " in printed.out + printed.err
    assert f"`snakemake {damaged}`" in printed.out + printed.err


def test_imported_rows_are_drawn_without_the_texts_and_restricted_ones_are_not_exported(
    finished, tmp_path, capsys
):
    configuration, results = (
        str(finished.path / "study.yaml"),
        ["--results", str(finished.path / "results")],
    )
    exported, fresh = tmp_path / "exported", new_project(tmp_path / "fresh")
    assert main(["rows", "export", configuration, str(exported), *results]) == 1
    assert "intents uses restricted data" in capsys.readouterr().err
    assert main(["rows", "export", configuration, str(exported), "--study", "open", *results]) == 0
    assert main(["rows", "import", str(exported), "--results", str(fresh.path / "results")]) == 0
    fresh.configure(open=yaml.safe_load(Path(configuration).read_text())["open"])
    table = "results/open/tables/texts.csv"
    assert set(fresh.planned(table)) == {"compare", "draw_open"}
    fresh.run(table)
    for drawn in (table, "results/open/figures/false_negatives_mined.svg"):
        assert (fresh.path / drawn).read_text() == (finished.path / drawn).read_text()
