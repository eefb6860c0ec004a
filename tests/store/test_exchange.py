"""Exported rows: what is in them, what an import adds, what is refused, and what the jobs make of runs without weights."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.projects import ROOT
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.cli import check
from trueneg.cli.main import main
from trueneg.config.reading import load_configuration, read_configuration
from trueneg.config.runs import all_runs
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import encoded_runs, evaluate_runs
from trueneg.report.summary import summarise_study
from trueneg.store import user_files
from trueneg.store.exchange import SUMS, export_study, import_study, imported_rows
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
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sign(folder: Path) -> None:
    """Write checksums that fit the files as they are."""
    files = {place: content for place, content in sorted(contents(folder).items()) if place != SUMS}
    (folder / SUMS).write_text("".join(f"{hashlib.sha256(content).hexdigest()}  {place}\n" for place, content in files.items()))


class OfBlock:
    """Training and evaluation of a block of seeds, with the decoded images of the finished study."""

    def __init__(self, results: Path, store: Path, folder: Path):
        folder.mkdir()
        self.folder, self.manifest = folder, folder / "manifest.json"
        (source,) = results.glob("sources/*.npz")
        self.shared = {"source": source, "subsets": results / "tiny/subsets/digits/seed0-1.parquet", "store": store}
        columns = ["study", "dataset", "condition", "objective", "variant"]
        self.names = pd.read_parquet(results / "tiny" / ROWS)[columns].iloc[0].to_dict()

    def train(self) -> None:
        runs = [run.to_json() for run in all_runs("tiny", STUDIES["tiny"]) if run.objective == "CL"]
        train_runs(runs, manifest=self.manifest, **self.shared)

    def evaluate(self, **settings) -> pd.DataFrame:
        outputs = {name: self.folder / name for name in ("rows", "curves", "runs")}
        evaluate_runs(
            names=self.names, settings=EVALUATION | settings, manifest=self.manifest, device="cpu", **self.shared, **outputs
        )
        return sorted_rows(outputs["rows"])


def sorted_rows(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path).sort_values(COLUMNS).reset_index(drop=True)


def test_an_export_contains_numbers_records_and_checksums_but_neither_data_nor_weights(results, exported, tmp_path):
    files = contents(exported)
    assert {Path(place).suffix for place in files} <= {".json", ".parquet", ".txt"}
    listed = dict(line.split("  ")[::-1] for line in files.pop(SUMS).decode().splitlines())
    assert listed == {place: hashlib.sha256(content).hexdigest() for place, content in files.items()}
    assert sum(place.startswith("rows/") for place in files) == 3
    (record,) = (json.loads(content) for place, content in files.items() if place.startswith("user_files/sources/"))
    for run in json.loads(files[RECORDS]):
        assert run["source"]["checksum"] == record["data"]
        assert run["evaluated"]["settings"]["linear_probe"]["epochs"] == 2
    export_study("tiny", STUDIES, results, tmp_path)
    assert contents(tmp_path / "tiny") == contents(exported)


@pytest.fixture
def elsewhere(project):
    """The project's results as if its images had been in a folder called `images` on another machine; and its studies."""
    results = project.path / "results"
    record = results / "tiny" / RECORDS
    record.write_text(record.read_text().replace('"path": null', '"path": "images"'))
    dataset = tiny_study()["dataset"] | {"path": "data/own"}
    studies = load_configuration({"tiny": tiny_study(dataset=dataset)}, "test").studies
    (read,) = results.glob("sources/*.files.json")
    content = json.loads(read.read_text())
    content["settings"]["path"] = "images"
    content["files"] = {"images/train.parquet": {"size": 1, "modified": 1, "checksum": "0"}}
    moved = all_runs("tiny", studies["tiny"])[0].settings["dataset"] | {"path": "images"}
    read.unlink()
    record = user_files.of_images(moved).record(results)
    record.write_text(json.dumps(content))
    return results, studies, record


def test_an_export_names_the_data_as_its_configuration_does_and_not_where_a_machine_has_them(elsewhere, tmp_path):
    results, studies, _ = elsewhere
    export_study("tiny", studies, results, tmp_path)
    content = contents(tmp_path / "tiny")
    for run in json.loads(content[RECORDS]):
        assert run["settings"]["dataset"]["path"] == "data/own"
        assert run["images"] > 0  # a key that is called like the folder
    ((place, found),) = ((place, json.loads(found)) for place, found in content.items() if "user_files" in place)
    assert found["settings"]["path"] == "data/own"
    assert found["settings"].keys() == {"source", "path", "resolution", "download"}
    assert list(found["files"]) == ["data/own/train.parquet"]
    reading = user_files.of_images(all_runs("tiny", studies["tiny"])[0].settings["dataset"])
    assert place == f"user_files/{reading.place}.files.json"
    import_study(tmp_path / "tiny", tmp_path / "results")  # checksums and ids agree


def test_a_record_with_digests_of_images_in_another_place_is_not_exported(elsewhere, tmp_path):
    results, studies, record = elsewhere
    content = json.loads(record.read_text())
    content["images"]["stamp"] = "0123456789abcdef"
    record.write_text(json.dumps(content))
    export_study("tiny", studies, results, tmp_path)
    assert not [place for place in contents(tmp_path / "tiny") if "user_files" in place]


def test_an_import_restores_the_files_with_one_time_and_exports_to_the_same_bytes(results, exported, imported, tmp_path):
    restored = contents(imported / "tiny")
    assert restored.items() <= contents(results / "tiny").items()
    assert {place for place in contents(exported) if not place.startswith("user_files/")} - {SUMS} == set(restored)
    assert len({path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*") if path.is_file()}) == 1
    store = RunStore(imported / "runs")
    assert {store.state(run) for run in store.records()} == {"imported"}
    assert store.records().keys() == RunStore(results / "runs").records().keys()
    export_study("tiny", STUDIES, imported, tmp_path / "again")
    assert contents(tmp_path / "again/tiny") == contents(exported)
    times = {path: path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*")}
    import_study(exported, imported)
    assert times == {path: path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*")}


def test_imported_runs_are_neither_trained_nor_evaluated_again(results, imported, tmp_path, monkeypatch):
    monkeypatch.setattr(SimCLR, "train_epoch", None)  # not callable
    block = OfBlock(results, imported / "runs", tmp_path / "block")
    block.train()
    assert block.manifest.read_bytes() == (results / f"tiny/manifests/{PLACE}.json").read_bytes()
    pd.testing.assert_frame_equal(block.evaluate(threads=2), sorted_rows(results / "tiny" / ROWS))
    for name, place in (("curves", f"artefacts/curves/{PLACE}.parquet"), ("rows", ROWS)):
        assert set(pd.read_parquet(block.folder / name)) == set(pd.read_parquet(results / "tiny" / place))
    made, before = (json.loads(path.read_text()) for path in (block.folder / "runs", results / "tiny" / RECORDS))
    assert [run["evaluated"] for run in made] == [run["evaluated"] for run in before]


def test_a_block_with_imported_runs_trains_and_evaluates_only_the_others(results, imported, tmp_path):
    block, store = OfBlock(results, imported / "runs", tmp_path / "block"), RunStore(imported / "runs")
    before = sorted_rows(results / "tiny" / ROWS)
    kept, missing = (before.loc[before["seed"] == seed, "run"].iloc[0] for seed in (0, 1))
    shutil.rmtree(store.folder(missing))
    block.train()
    assert (store.state(kept), store.state(missing)) == ("imported", "finished")
    after = block.evaluate()
    is_kept, is_knn = after["run"] == kept, after["task"] == "knn"
    pd.testing.assert_frame_equal(after[is_kept], before[is_kept])
    pd.testing.assert_frame_equal(after[is_knn], before[is_knn])  # the training is deterministic, and neighbours too
    pd.testing.assert_frame_equal(after[COLUMNS], before[COLUMNS])


def test_rows_of_other_evaluation_settings_and_steps_that_need_weights_are_refused(results, imported, tmp_path):
    block = OfBlock(results, imported / "runs", tmp_path / "block")
    block.train()
    run = json.loads(block.manifest.read_text())["runs"][0]["id"]
    with pytest.raises(UserError, match=f"{run}.*evaluation"):
        imported_rows(RunStore(imported / "runs"), run, EVALUATION | {"knn": {"neighbours": 7}})
    with (
        pytest.raises(UserError, match=f"{run}.*weights"),
        encoded_runs(manifest=block.manifest, device="cpu", threads=1, **block.shared),
    ):
        pass


def test_imported_files_of_other_settings_are_not_compared_as_the_studys(results, tmp_path):
    """Snakemake does not see changed settings of files that it did not make."""
    files = {"rows": "rows", "curves": "artefacts/curves", "runs": "artefacts/runs"}

    class Paths:
        published, pilots, winners = None, (), ()

    for name, folder in files.items():
        setattr(Paths, name, sorted((results / "tiny" / folder).glob("*/*/*.*")))
    for key, changed in (
        ("training.epochs", tiny_study(training=tiny_study()["training"] | {"epochs": 2})),
        ("evaluation", tiny_study(evaluation={"linear_probe": {"epochs": 3, "label_fractions": [0.5, 1.0]}})),
    ):
        settings = load_configuration({"tiny": changed}, "test").studies["tiny"].model_dump(mode="json")
        with pytest.raises(UserError, match=rf"digits, CL, seed 0: .*\({key}"):
            summarise_study("tiny", settings, Paths, None)


def change_records(folder: Path) -> None:
    records = json.loads((folder / RECORDS).read_text())
    records[1]["settings"]["training"]["learning_rate"] = 0.5
    (folder / RECORDS).write_text(json.dumps(records))
    sign(folder)


def change_rows(**columns):
    def change(folder: Path) -> None:
        rows = pd.read_parquet(folder / ROWS)
        rows.assign(**{name: value(rows[name]) for name, value in columns.items()}).to_parquet(folder / ROWS)
        sign(folder)

    return change


def name_a_file_outside(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_text("")
    with (folder / SUMS).open("a") as sums:
        sums.write(f"{hashlib.sha256(b'').hexdigest()}  tuning/../../outside\n")


DAMAGES = {
    "truncated": (lambda folder: (folder / ROWS).write_bytes((folder / ROWS).read_bytes()[:-9]), ROWS),
    "missing": (lambda folder: (folder / RECORDS).unlink(), RECORDS),
    "unlisted": (lambda folder: ((folder / RECORDS).unlink(), sign(folder)), RECORDS),
    "other settings": (change_records, RECORDS),
    "other study": (change_rows(study=lambda names: names + "er"), "tinyer"),
    "other run": (change_rows(run=lambda names: names.str.replace(names.iloc[0], "0123")), ROWS),
    "not finite": (change_rows(value=lambda values: values.where(values.index > 0, np.inf)), ROWS),
    "repeated": (change_rows(metric=lambda names: "accuracy", group=lambda names: None), ROWS),
    "outside": (name_a_file_outside, "outside"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_files_are_refused_before_anything_is_written(exported, tmp_path, damage, capsys):
    shutil.copytree(exported, tmp_path / "copies/tiny")
    change, named = DAMAGES[damage]
    change(tmp_path / "copies/tiny")
    assert main(["rows", "import", str(tmp_path / "copies"), "--results", str(tmp_path / "results")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert named in said.err
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_runs_that_were_trained_here_are_kept(exported, project, capsys):
    before = {place: content for place, content in contents(project.path / "results").items() if not place.endswith("/lock")}
    assert main(["rows", "import", str(exported.parent), "--results", str(project.path / "results")]) == 0
    assert "kept 6 runs" in capsys.readouterr().out
    assert before == {
        place: content for place, content in contents(project.path / "results").items() if not place.endswith("/lock")
    }


def test_runs_that_were_trained_again_since_they_were_evaluated_are_left_out(project, tmp_path):
    results = project.path / "results"
    run = json.loads((results / "tiny" / RECORDS).read_text())[0]
    (results / "runs" / run["id"] / RunStore.RECORD).write_text(json.dumps(run | {"finished": "2099-01-01 00:00:00 +0000"}))
    export_study("tiny", STUDIES, results, tmp_path / "exported")
    exported = contents(tmp_path / "exported/tiny")
    assert ROWS not in exported
    assert sum(place.startswith("rows/") for place in exported) == 2


def test_restricted_studies_are_not_exported(tmp_path):
    shipped = read_configuration([ROOT / "config/studies/mimic_cxr.yaml"]).studies
    reports = {"source": "table", "path": "reports.csv", "restricted": True}
    own = load_configuration({"words": tiny_words(reports=reports)}, "test").studies
    for name, studies in [*((name, shipped) for name in shipped), ("words", own)]:
        with pytest.raises(UserError, match=f"{name} .*restricted"):
            export_study(name, studies, tmp_path / "results", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []
    phantom = load_configuration({"words": tiny_words(), "world": tiny_world()}, "test").studies
    assert export_study("world", phantom, tmp_path / "results", tmp_path / "exported") is None


def test_a_folder_of_something_else_is_neither_replaced_nor_imported(results, tmp_path, capsys):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/notes").write_text("mine")
    with pytest.raises(UserError, match="tiny exists"):
        export_study("tiny", STUDIES, results, tmp_path)
    assert (tmp_path / "tiny/notes").read_text() == "mine"
    assert main(["rows", "import", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_check_runs_and_why_tell_imported_runs_without_their_data(imported, tmp_path, monkeypatch, capsys):
    def absent(**settings):
        raise UserError("there are no images")

    monkeypatch.setattr(check, "load_source", absent)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"tiny": tiny_study()}))
    assert main(["check", str(path), "--results", str(imported)]) == 0
    said = capsys.readouterr().out
    assert "there are no images" in said
    assert said.count("2 of 2 runs finished (2 imported") == 3
    assert "every run is in the store" in said
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
