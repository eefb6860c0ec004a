"""Exports and imports of rows: their content, what is refused, and jobs that use runs without
weights.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.projects import ROOT
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.cli import planned_data
from trueneg.cli.main import main
from trueneg.config.reading import load_configuration, read_configuration
from trueneg.config.runs import all_runs
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import encoded_runs, evaluate_runs
from trueneg.io.seals import seal
from trueneg.report.summary import summarise_study
from trueneg.store.evidence import EPOCHS, STUDY, table_of
from trueneg.store.exchange import export_study, import_study, imported_rows
from trueneg.store.run_store import RunStore
from trueneg.training.engine import train_runs
from trueneg.training.simclr import SimCLR

STUDIES = load_configuration({"tiny": tiny_study()}, "test").studies
EVALUATION = STUDIES["tiny"].evaluation.model_dump(mode="json")
PLACE = "digits/CL/seed0-1"
ROWS, RECORDS = f"rows/{PLACE}.parquet", f"artefacts/runs/{PLACE}.json"
COLUMNS = ["run", "split", "task", "metric", "labels", "fraction", "group"]


@pytest.fixture(scope="module")
def results(finished_project) -> Path:
    """Results of the finished tiny study."""
    return finished_project.path / "results"


@pytest.fixture(scope="module")
def exported(results, tmp_path_factory) -> Path:
    """The exported tiny study."""
    folder = tmp_path_factory.mktemp("exported")
    export_study("tiny", STUDIES, results, folder)
    return folder / "tiny"


@pytest.fixture
def imported(exported, tmp_path) -> Path:
    """Results that contain nothing but the import."""
    import_study(exported, tmp_path / "results")
    return tmp_path / "results"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files but locks, by path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def description(folder: Path) -> dict:
    return json.loads((folder / STUDY).read_text())


def records(folder: Path) -> list[dict]:
    return [json.loads(text) for text in pd.read_parquet(folder / "runs.parquet")["record"]]


def sign(folder: Path) -> None:
    """Write checksums that match the files."""
    files = {
        name: hashlib.sha256(data).hexdigest()
        for name, data in contents(folder).items()
        if name != STUDY
    }
    (folder / STUDY).write_text(json.dumps(description(folder) | {"files": files}))


class CLBlock:
    """Training and evaluation of the block of CL, with the decoded images of the finished study."""

    def __init__(self, results: Path, store: Path, folder: Path):
        folder.mkdir()
        self.folder, self.manifest = folder, folder / "manifest.json"
        (source,) = results.glob("sources/*.npz")
        self.shared = {
            "source": source,
            "subsets": results / "tiny/subsets/digits/seed0-1.parquet",
            "store": store,
        }
        columns = ["study", "dataset", "condition", "objective", "variant"]
        self.names = pd.read_parquet(results / "tiny" / ROWS)[columns].iloc[0].to_dict()

    def train(self) -> None:
        runs = [run.to_json() for run in all_runs("tiny", STUDIES["tiny"]) if run.objective == "CL"]
        train_runs(runs, manifest=self.manifest, **self.shared)

    def evaluate(self, **settings) -> pd.DataFrame:
        outputs = {name: self.folder / name for name in ("rows", "curves", "runs")}
        evaluate_runs(
            names=self.names,
            settings=EVALUATION | settings,
            manifest=self.manifest,
            device="cpu",
            **self.shared,
            **outputs,
        )
        return sorted_rows(outputs["rows"])


def sorted_rows(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path).sort_values(COLUMNS).reset_index(drop=True)


def test_an_export_contains_rows_records_and_checksums_but_neither_data_nor_weights(
    results, exported, tmp_path
):
    files = contents(exported)
    names = {"rows", "curves", "runs", "subsets"}
    assert files.keys() == {STUDY, *(f"{name}.parquet" for name in names)}
    described = json.loads(files.pop(STUDY))
    assert described["files"] == {
        place: hashlib.sha256(content).hexdigest() for place, content in files.items()
    }
    assert (described["format"], described["study"], described["missing"]) == (2, "tiny", {})
    assert (described["protocol"], described["tuning"]) == (None, None)
    ((place, record),) = described["user_files"].items()
    assert record == json.loads((results / f"{place}.files.json").read_text())
    assert place.startswith("sources/")
    assert len(records(exported)) == 6
    for run in records(exported):
        assert run["source"]["checksum"] == record["data"]
        assert run["evaluated"]["settings"]["linear_probe"]["epochs"] == 2
        assert (
            run["code"]["versions"]["objective/images/" + run["settings"]["objective"]["name"]] == 1
        )
    export_study("tiny", STUDIES, results, tmp_path)
    assert contents(tmp_path / "tiny") == contents(exported)


def test_each_table_names_the_files_of_its_rows(results, exported):
    for path in exported.glob("*.parquet"):
        if path.stem != "runs":
            gathered = pd.read_parquet(path)
            for file, rows in gathered.groupby("file"):
                original = pd.read_parquet(results / "tiny" / file)
                pd.testing.assert_frame_equal(
                    rows[list(original)].reset_index(drop=True), original, check_dtype=False
                )


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("manifests/{}.json", "not trained"),
        ("rows/{}.parquet", "not evaluated"),
        ("artefacts/runs/{}.json", "not evaluated"),
    ],
)
def test_an_export_names_the_missing_blocks(project, tmp_path, capsys, lost, reason):
    (project.path / "results/tiny" / lost.format(PLACE)).unlink()
    folder, results = tmp_path / "exported", project.path / "results"
    assert (
        main(
            [
                "rows",
                "export",
                str(project.path / "study.yaml"),
                str(folder),
                "--results",
                str(results),
            ]
        )
        == 0
    )
    output = capsys.readouterr().out
    assert "4 runs" in output
    assert f"missing: {PLACE} ({reason})" in output
    assert description(folder / "tiny")["missing"] == {PLACE: reason}
    files = {
        file
        for table in ("rows", "curves")
        for file in pd.read_parquet(folder / f"tiny/{table}.parquet")["file"]
    }
    assert not any(PLACE in file for file in files)
    assert f"missing: {PLACE}" in import_study(folder / "tiny", tmp_path / "results")


def test_new_blocks_of_a_study_are_missing_and_changed_ones_outdated(results, tmp_path):
    more = {
        f"CL{number}": {"name": "cl", "temperature": 0.1 + 0.01 * number} for number in range(5)
    }
    grown = {**tiny_study()["objectives"], **more, "Oracle": {"name": "oracle", "temperature": 0.7}}
    sentence = export_study(
        "tiny",
        load_configuration({"tiny": tiny_study(objectives=grown)}, "test").studies,
        results,
        tmp_path,
    )
    missing = description(tmp_path / "tiny")["missing"]
    assert missing.pop("digits/Oracle/seed0-1") == "trained with other settings"
    assert missing == {f"digits/{name}/seed0-1": "not trained" for name in more}
    assert sentence.endswith("3 more.")
    assert len(records(tmp_path / "tiny")) == 4


def test_long_curves_are_thinned_to_evenly_spaced_epochs(project, tmp_path):
    place = f"artefacts/curves/{PLACE}.parquet"
    path = project.path / "results/tiny" / place
    curves = pd.read_parquet(path)
    curves = pd.concat([curves.assign(epoch=epoch) for epoch in range(1, 201)]).sort_values(
        ["seed", "epoch"]
    )
    curves.to_parquet(path, index=False)
    seal(project.path / "results", [path])
    export_study("tiny", STUDIES, project.path / "results", tmp_path / "exported")
    assert description(tmp_path / "exported/tiny")["epochs"] == EPOCHS
    import_study(tmp_path / "exported/tiny", tmp_path / "results")
    for _, run in pd.read_parquet(tmp_path / "results/tiny" / place).groupby("run"):
        epochs = run["epoch"].to_numpy()
        assert (len(epochs), epochs[0], epochs[-1]) == (EPOCHS, 1, 200)
        assert set(np.diff(epochs)) <= {199 // (EPOCHS - 1), 199 // (EPOCHS - 1) + 1}
    export_study("tiny", STUDIES, tmp_path / "results", tmp_path / "again")
    assert contents(tmp_path / "again/tiny") == contents(tmp_path / "exported/tiny")


def test_an_import_restores_all_files_with_one_time_and_is_exported_to_the_same_bytes(
    results, exported, imported, tmp_path
):
    restored, made = contents(imported / "tiny"), contents(results / "tiny")
    assert restored.items() <= made.items()
    assert set(restored) == {
        place
        for place in made
        if table_of(place) or place.startswith(("manifests/", "artefacts/runs/"))
    }
    assert (
        len({path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*") if path.is_file()})
        == 1
    )
    store = RunStore(imported / "runs")
    assert {store.state(run) for run in store.records()} == {"imported"}
    assert store.records().keys() == RunStore(results / "runs").records().keys()
    export_study("tiny", STUDIES, imported, tmp_path / "again")
    assert contents(tmp_path / "again/tiny") == contents(exported)
    times = {path: path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*")}
    import_study(exported, imported)
    assert times == {path: path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*")}


def test_an_import_keeps_the_commit_and_date_of_the_protocol(results, tmp_path, monkeypatch):
    (tmp_path / "protocol.md").write_text("DCL - CL\n")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results, tmp_path / "results", ignore=shutil.ignore_patterns("sources", "logs"))
    checksum = hashlib.sha256((tmp_path / "protocol.md").read_bytes()).hexdigest()
    protocol = {
        "file": "protocol.md",
        "checksum": checksum,
        "commit": "0123",
        "date": "2026-10-01T12:00:00+02:00",
    }
    (tmp_path / "results/tiny/protocol.json").write_text(json.dumps(protocol))
    studies = load_configuration({"tiny": tiny_study(protocol="protocol.md")}, "test").studies
    export_study("tiny", studies, tmp_path / "results", tmp_path / "exported")
    assert description(tmp_path / "exported/tiny")["protocol"] == protocol
    import_study(tmp_path / "exported/tiny", tmp_path / "other")
    assert json.loads((tmp_path / "other/tiny/protocol.json").read_text()) == protocol
    (tmp_path / "protocol.md").write_text("HCL - CL\n")
    with pytest.raises(UserError, match="frozen"):
        export_study("tiny", studies, tmp_path / "other", tmp_path / "again")


def test_winners_are_computed_from_the_rows_of_the_pilot_seeds(tmp_path):
    folder = tmp_path / "phantom_replication"
    shutil.copytree(ROOT / "evidence/phantom_replication", folder)
    described = description(folder)
    import_study(folder, tmp_path / "results")
    decision = json.loads(
        (tmp_path / "results/phantom_replication/tuning/winners.json").read_text()
    )
    winners = described["tuning"]["winners"]["phantom"]
    assert {
        name: winner["variant"] for name, winner in decision["winners"]["phantom"].items()
    } == winners
    tuning = pd.read_parquet(tmp_path / "results/phantom_replication/artefacts/tuning.parquet")
    assert set(tuning["seed"]) == set(described["tuning"]["seeds"])
    assert set(tuning["split"]) == {"validation"}
    candidates = described["tuning"]["candidates"]["CL"]
    without_winner = [variant for variant in candidates if json.loads(variant) != winners["CL"]]
    best = winners["CL"]
    for winners["CL"], described["tuning"]["candidates"]["CL"], message in (
        ({"logit_scale": 20.0}, candidates, "CL on phantom.*10.*20"),
        (best, [*candidates, candidates[0].replace("1", "7")], "phantom"),
        (best, without_winner, "CL on phantom"),
    ):
        (folder / STUDY).write_text(json.dumps(described))
        with pytest.raises(UserError, match=message):
            import_study(folder, tmp_path / "forged")
        assert not (tmp_path / "forged").exists()


def test_imported_runs_are_neither_retrained_nor_reevaluated(
    results, imported, tmp_path, monkeypatch
):
    monkeypatch.setattr(SimCLR, "train_epoch", None)  # not callable
    block = CLBlock(results, imported / "runs", tmp_path / "block")
    block.train()
    assert block.manifest.read_bytes() == (results / f"tiny/manifests/{PLACE}.json").read_bytes()
    pd.testing.assert_frame_equal(block.evaluate(threads=2), sorted_rows(results / "tiny" / ROWS))
    for name, place in (("curves", f"artefacts/curves/{PLACE}.parquet"), ("rows", ROWS)):
        assert set(pd.read_parquet(block.folder / name)) == set(
            pd.read_parquet(results / "tiny" / place)
        )
    made, before = (
        json.loads(path.read_text()) for path in (block.folder / "runs", results / "tiny" / RECORDS)
    )
    assert [run["evaluated"] for run in made] == [run["evaluated"] for run in before]


def test_a_block_with_imported_runs_trains_and_evaluates_only_the_others(
    results, imported, tmp_path
):
    store = RunStore(imported / "runs")
    block = CLBlock(results, store.path, tmp_path / "block")
    before = sorted_rows(results / "tiny" / ROWS)
    kept, missing = (before.loc[before["seed"] == seed, "run"].iloc[0] for seed in (0, 1))
    shutil.rmtree(store.folder(missing))
    block.train()
    assert (store.state(kept), store.state(missing)) == ("imported", "finished")
    after = block.evaluate()
    is_kept, is_knn = after["run"] == kept, after["task"] == "knn"
    pd.testing.assert_frame_equal(after[is_kept], before[is_kept])
    # training and nearest neighbours are deterministic
    pd.testing.assert_frame_equal(after[is_knn], before[is_knn])
    pd.testing.assert_frame_equal(after[COLUMNS], before[COLUMNS])


def test_imported_runs_refuse_other_evaluation_settings_and_steps_that_need_weights(
    results, imported, tmp_path
):
    block = CLBlock(results, imported / "runs", tmp_path / "block")
    block.train()
    run = json.loads(block.manifest.read_text())["runs"][0]["id"]
    with pytest.raises(UserError, match=f"{run}.*evaluation"):
        imported_rows(RunStore(imported / "runs"), run, EVALUATION | {"knn": {"neighbours": 7}})
    (path,) = (imported / "runs" / run).glob(RunStore.EVALUATED)
    intact = path.read_text()
    path.write_text(intact.replace('"value": 0.', '"value": 1.'))
    with pytest.raises(
        UserError, match=f"{path} was damaged or edited.*import the exported study again"
    ):
        imported_rows(RunStore(imported / "runs"), run, EVALUATION)
    path.write_text(intact)
    with (
        pytest.raises(UserError, match=f"{run}.*weights"),
        encoded_runs(manifest=block.manifest, device="cpu", threads=1, **block.shared),
    ):
        pass


def test_files_made_with_other_settings_are_not_summarised(results, tmp_path):
    """Snakemake does not notice that imported files were made with other settings."""
    files = {"rows": "rows", "curves": "artefacts/curves", "runs": "artefacts/runs"}

    class Paths:
        published, pilots, winners = None, (), ()

    for name, folder in files.items():
        setattr(Paths, name, sorted((results / "tiny" / folder).glob("*/*/*.*")))
    for key, changed in (
        ("training.epochs", tiny_study(training=tiny_study()["training"] | {"epochs": 2})),
        (
            "evaluation",
            tiny_study(evaluation={"linear_probe": {"epochs": 3, "label_fractions": [0.5, 1.0]}}),
        ),
    ):
        settings = (
            load_configuration({"tiny": changed}, "test").studies["tiny"].model_dump(mode="json")
        )
        with pytest.raises(UserError, match=rf"digits, CL, seed 0: .*\({key}"):
            summarise_study("tiny", settings, Paths, None)


def change_table(name: str, **columns):
    """Return a function that replaces columns of a table, and keeps its metadata."""

    def change(folder: Path) -> None:
        path = folder / f"{name}.parquet"
        table = pq.read_table(path)
        for column, function in columns.items():
            values = pa.array(
                function(table[column].to_pandas()), type=table.schema.field(column).type
            )
            table = table.set_column(table.column_names.index(column), column, values)
        pq.write_table(table, path)
        sign(folder)

    return change


def change_record(records: pd.Series) -> pd.Series:
    record = json.loads(records[1])
    record["settings"]["training"]["learning_rate"] = 0.5
    return records.where(records.index != 1, json.dumps(record))


def remove_records(folder: Path) -> None:
    table = pq.read_table(folder / "runs.parquet", filters=[("objective", "!=", "CL")])
    pq.write_table(table, folder / "runs.parquet")
    sign(folder)


def change_file(names: pd.Series) -> pd.Series:
    return names.str.replace("rows/digits/CL", "rows/../../CL")


def add_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("")


def add_summary(folder: Path) -> None:
    shutil.copyfile(folder / "rows.parquet", folder / "comparison.parquet")
    sign(folder)


def link_file(folder: Path) -> None:
    (folder / "curves.parquet").rename(folder.parent / "curves")
    (folder / "curves.parquet").symlink_to(folder.parent / "curves")


def change_description(**changes):
    return lambda folder: (folder / STUDY).write_text(json.dumps(description(folder) | changes))


def rename_files(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    metadata = {
        key: value.replace(b"rows/digits/CL", b"rows/../../CL")
        for key, value in table.schema.metadata.items()
    }
    pq.write_table(table.replace_schema_metadata(metadata), folder / "rows.parquet")
    change_table("rows", file=change_file)(folder)


DAMAGES = {
    "truncated": (lambda folder: (folder / "rows.parquet").write_bytes(b"PAR1"), "rows.parquet"),
    "missing": (lambda folder: (folder / "runs.parquet").unlink(), "runs.parquet"),
    "unlisted": (
        lambda folder: ((folder / "runs.parquet").unlink(), sign(folder)),
        "has no manifest and record",
    ),
    "unknown file": (add_file, "notes.txt"),
    "summary": (add_summary, "comparison.parquet"),
    "symbolic link": (link_file, "curves.parquet"),
    "other format": (change_description(format=3), "format"),
    "other study": (change_description(study="tinyer"), "tinyer"),
    "outside": (change_description(user_files={"sources/../../x": {}}), "sources/../../x"),
    "invalid record": (change_description(user_files={"sources/x": {}}), STUDY),
    "other settings": (change_table("runs", record=change_record), RECORDS),
    "no record": (change_table("runs", record=lambda texts: texts.str[:-1]), "runs.parquet"),
    "incomplete record": (
        change_table("runs", record=lambda texts: ["{}"] * len(texts)),
        "runs.parquet",
    ),
    "rows without records": (remove_records, f"{PLACE}.parquet has no"),
    "other block": (change_table("runs", block=lambda names: names + "/.."), "seed0-1/.."),
    "parent folder": (change_table("runs", dataset=lambda names: [".."] * len(names)), "../"),
    "rows of another study": (change_table("rows", study=lambda names: names + "er"), "tinyer"),
    "other run": (
        change_table("rows", run=lambda names: names.str.replace(names.iloc[0], "0123")),
        ROWS,
    ),
    "not finite": (
        change_table("rows", value=lambda values: values.where(values.index > 0, np.inf)),
        "rows/",
    ),
    "repeated": (change_table("rows", metric=lambda names: ["accuracy"] * len(names)), "rows/"),
    "other file": (change_table("rows", file=change_file), "rows/../../CL"),
    "other files": (rename_files, "rows/../../CL"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_files_are_refused_and_nothing_is_written(
    exported, tmp_path, damage, capsys
):
    shutil.copytree(exported, tmp_path / "copies/tiny")
    change, named = DAMAGES[damage]
    change(tmp_path / "copies/tiny")
    assert (
        main(["rows", "import", str(tmp_path / "copies"), "--results", str(tmp_path / "results")])
        == 1
    )
    output = capsys.readouterr()
    assert output.out == ""
    assert named in output.err
    assert len(output.err.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_an_import_keeps_runs_that_were_trained_here(exported, project, capsys):
    before = contents(project.path / "results")
    assert (
        main(["rows", "import", str(exported.parent), "--results", str(project.path / "results")])
        == 0
    )
    assert "kept 6 runs" in capsys.readouterr().out
    assert contents(project.path / "results") == before


def test_blocks_with_runs_that_were_retrained_since_their_evaluation_are_left_out(
    project, tmp_path
):
    results = project.path / "results"
    run = json.loads((results / "tiny" / RECORDS).read_text())[0]
    path = results / "runs" / run["id"] / RunStore.RECORD
    path.write_text(json.dumps(run | {"finished": "2099-01-01 00:00:00 +0000"}))
    seal(results, [path])
    export_study("tiny", STUDIES, results, tmp_path / "exported")
    assert description(tmp_path / "exported/tiny")["missing"] == {
        PLACE: "trained again since its evaluation"
    }
    assert run["id"] not in {record["id"] for record in records(tmp_path / "exported/tiny")}


def test_restricted_studies_are_not_exported(tmp_path):
    shipped = read_configuration([ROOT / "config/studies/mimic_cxr.yaml"]).studies
    reports = {"source": "image_table", "path": "images", "table": "table.csv", "restricted": True}
    table = load_configuration({"words": tiny_words(reports=reports)}, "test").studies
    for name, studies in [*((name, shipped) for name in shipped), ("words", table)]:
        with pytest.raises(UserError, match=f"{name} .*restricted"):
            export_study(name, studies, tmp_path / "results", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []
    phantom = load_configuration({"words": tiny_words(), "world": tiny_world()}, "test").studies
    assert export_study("world", phantom, tmp_path / "results", tmp_path / "exported") is None


def test_a_folder_with_other_content_is_neither_replaced_nor_imported(results, tmp_path, capsys):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/notes").write_text("mine")
    with pytest.raises(UserError, match="tiny exists"):
        export_study("tiny", STUDIES, results, tmp_path)
    assert (tmp_path / "tiny/notes").read_text() == "mine"
    assert main(["rows", "import", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_check_runs_and_why_mark_imported_runs_even_without_the_data(
    imported, tmp_path, monkeypatch, capsys
):
    def absent(**settings):
        raise UserError("there are no images")

    monkeypatch.setattr(planned_data, "load_source", absent)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"tiny": tiny_study()}))
    assert main(["check", str(path), "--results", str(imported)]) == 0
    output = capsys.readouterr().out
    assert "there are no images" in output
    assert output.count("2 of 2 runs finished (2 imported") == 3
    assert "every run is in the store" in output
    path.write_text(yaml.safe_dump({"tiny": tiny_study(seeds=3)}))
    assert main(["check", str(path), "--results", str(imported)]) == 0
    assert "3 runs to train" in capsys.readouterr().out
    assert main(["runs", "--json", "-", "--results", str(imported)]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert {run["state"] for run in runs} == {"finished, imported"}
    assert main(["why", runs[0]["run"], "--results", str(imported)]) == 0
    assert "(finished, imported)" in capsys.readouterr().out
    shutil.rmtree(imported / "sources")
    assert main(["check", str(path), "--results", str(imported)]) == 1
    assert capsys.readouterr().err == "there are no images\n"
