"""Exports and imports of rows: their content, what is refused, and jobs that use runs without
weights.
"""

import hashlib
import io
import itertools
import json
import lzma
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.curves import curves_of
from tests.projects import ROOT
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.cli.main import main
from trueneg.config.reading import load_configuration, read_configuration
from trueneg.config.runs import all_runs
from trueneg.data.images import loading
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import encoded_runs, evaluate_runs
from trueneg.io.seals import seal
from trueneg.report.summary import summarise_study
from trueneg.specs.kinds.images import ImageStudy
from trueneg.store import exchange
from trueneg.store.archive import POINTS, STUDY, is_other, read_archive
from trueneg.store.evaluations import evaluation, keep_evaluation
from trueneg.store.exchange import export_study, import_study
from trueneg.store.identity import evaluation_digest
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
    """The archive of the tiny study."""
    folder = tmp_path_factory.mktemp("exported")
    export_study("tiny", STUDIES, results, folder)
    return folder / "tiny.tar.xz"


@pytest.fixture
def imported(exported, tmp_path) -> Path:
    """Results that contain nothing but the import."""
    import_study(exported, tmp_path / "results")
    return tmp_path / "results"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files but locks, by path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def members(archive: Path) -> dict[str, bytes]:
    """Return the content of the files of an archive, by name."""
    with tarfile.open(archive) as file:
        return {member.name: file.extractfile(member).read() for member in file}


def pack(archive: Path, content: dict[str, bytes]) -> None:
    """Write an archive with Python's own module."""
    with tarfile.open(archive, "w:xz") as file:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


def description(archive: Path) -> dict:
    return json.loads(members(archive)[STUDY])


def records(archive: Path) -> list[dict]:
    return [
        json.loads(data) for name, data in members(archive).items() if name.endswith("/run.json")
    ]


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


def test_an_archive_contains_the_folders_of_runs_without_weights_and_the_same_bytes_again(
    results, exported, tmp_path
):
    files = members(exported)
    assert next(iter(files)) == STUDY
    described = json.loads(files.pop(STUDY))
    assert (described["format"], described["study"], described["missing"]) == (3, "tiny", {})
    assert (described["protocol"], described["tuning"]) == (None, None)
    assert described["files"] == ["subsets/digits/seed0-1.parquet"]
    subsets = files.pop("files/subsets/digits/seed0-1.parquet")
    assert subsets == (results / "tiny/subsets/digits/seed0-1.parquet").read_bytes()
    ((place, record),) = described["user_files"].items()
    assert record == json.loads((results / f"{place}.files.json").read_text())
    assert place.startswith("sources/")
    runs = RunStore(results / "runs").records()
    assert len(runs) == 6
    assert {name.split("/")[1] for name in files} == runs.keys()
    for name, data in files.items():
        if not name.endswith(".parquet"):
            assert data == (results / name).read_bytes()
            assert ("evaluated" in name) != ("code" in json.loads(data))
    assert len(files) == 3 * len(runs)
    export_study("tiny", STUDIES, results, tmp_path)
    assert (tmp_path / "tiny.tar.xz").read_bytes() == exported.read_bytes()


def test_an_archive_gives_the_rows_and_curves_of_the_study(results, exported):
    archive = read_archive(exported)
    for table, folder in ((archive.rows(), "rows"), (curves_of(exported), "artefacts/curves")):
        paths = sorted((results / "tiny" / folder).glob("*/*/*.parquet"))
        original = pd.concat(map(pd.read_parquet, paths), ignore_index=True)
        sides = [
            side.sort_values([*COLUMNS[: 1 + 6 * (folder == "rows")]], ignore_index=True)
            for side in (table[list(original)], original)
        ]
        pd.testing.assert_frame_equal(*sides, check_dtype=False, rtol=1e-6)


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
    described = description(folder / "tiny.tar.xz")
    assert described["missing"] == {PLACE: reason}
    assert PLACE not in described["blocks"]
    assert f"missing: {PLACE}" in import_study(folder / "tiny.tar.xz", tmp_path / "results")


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
    missing = description(tmp_path / "tiny.tar.xz")["missing"]
    assert missing.pop("digits/Oracle/seed0-1") == "trained with other settings"
    assert missing == {f"digits/{name}/seed0-1": "not trained" for name in more}
    assert sentence.endswith("3 more.")
    assert len(records(tmp_path / "tiny.tar.xz")) == 4


def test_long_curves_are_thinned_to_evenly_spaced_epochs(project, tmp_path):
    results = project.path / "results"
    for path in results.glob(f"runs/*/{RunStore.CURVES}"):
        curve = pd.read_parquet(path).iloc[:1]
        pd.concat([curve.assign(epoch=epoch) for epoch in range(1, 201)]).to_parquet(path)
        seal(results, [path])
    export_study("tiny", STUDIES, results, tmp_path / "exported")
    assert description(tmp_path / "exported/tiny.tar.xz")["points"] == POINTS
    import_study(tmp_path / "exported/tiny.tar.xz", tmp_path / "results")
    curves = pd.read_parquet(tmp_path / f"results/tiny/artefacts/curves/{PLACE}.parquet")
    for _, run in curves.groupby("run"):
        epochs = run["epoch"].to_numpy()
        assert (len(epochs), epochs[0], epochs[-1]) == (POINTS, 1, 200)
        assert set(np.diff(epochs)) <= {199 // (POINTS - 1), 199 // (POINTS - 1) + 1}
    export_study("tiny", STUDIES, tmp_path / "results", tmp_path / "again")
    again = (tmp_path / "again/tiny.tar.xz").read_bytes()
    assert again == (tmp_path / "exported/tiny.tar.xz").read_bytes()


def test_an_import_restores_all_files_with_one_time_and_is_exported_to_the_same_bytes(
    results, exported, imported, tmp_path
):
    restored, made = contents(imported / "tiny"), contents(results / "tiny")
    curves = {place for place in restored if "/curves/" in place}
    assert {place: restored[place] for place in restored.keys() - curves}.items() <= made.items()
    kinds = ("manifests/", "rows/", "artefacts/runs/", "artefacts/curves/")
    assert set(restored) == {place for place in made if is_other(place) or place.startswith(kinds)}
    for place in curves:  # in single precision
        sides = (pd.read_parquet(folder / "tiny" / place) for folder in (imported, results))
        pd.testing.assert_frame_equal(*sides, check_dtype=False, rtol=1e-6)
    times = {path: path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*.*")}
    assert len(set(times.values())) == 1
    store = RunStore(imported / "runs")
    assert {store.state(run) for run in store.records()} == {"imported"}
    assert store.records() == RunStore(results / "runs").records()
    export_study("tiny", STUDIES, imported, tmp_path / "again")
    assert (tmp_path / "again/tiny.tar.xz").read_bytes() == exported.read_bytes()
    before = contents(imported)
    import_study(exported, imported)
    assert contents(imported) == before
    times = {path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*.*")}
    assert len(times) == 1


def test_an_import_replaces_what_was_damaged_or_lost(exported, imported):
    before = contents(imported)
    lost = imported / "tiny" / RECORDS
    damaged = imported / "tiny/subsets/digits/seed0-1.parquet"
    lost.unlink()
    (imported / "tiny" / ROWS).write_bytes(b"PAR1")
    damaged.write_bytes(b"PAR1")
    import_study(exported, imported)
    assert contents(imported) == before
    times = {path.stat().st_mtime_ns for path in (imported / "tiny").rglob("*.*")}
    assert len(times) == 1


def test_an_import_replaces_a_run_that_was_killed_before_its_record(exported, tmp_path):
    results = tmp_path / "results"
    identifier = records(exported)[0]["id"]
    store = RunStore(results / "runs")
    with store.owned(identifier) as folder:
        (folder / RunStore.MODEL).write_bytes(b"of another training")
    import_study(exported, results)
    assert store.state(identifier) == "imported"
    assert not (folder / RunStore.MODEL).exists()


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
    assert description(tmp_path / "exported/tiny.tar.xz")["protocol"] == protocol
    import_study(tmp_path / "exported/tiny.tar.xz", tmp_path / "other")
    assert json.loads((tmp_path / "other/tiny/protocol.json").read_text()) == protocol
    (tmp_path / "protocol.md").write_text("HCL - CL\n")
    with pytest.raises(UserError, match="frozen"):
        export_study("tiny", studies, tmp_path / "other", tmp_path / "again")


def test_winners_are_computed_from_the_rows_of_the_pilot_seeds(tmp_path):
    archive = tmp_path / "phantom_replication.tar.xz"
    shutil.copyfile(ROOT / "evidence/phantom_replication.tar.xz", archive)
    files = members(archive)
    described = json.loads(files[STUDY])
    import_study(archive, tmp_path / "results")
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
        pack(archive, files | {STUDY: json.dumps(described).encode()})
        with pytest.raises(UserError, match=message):
            import_study(archive, tmp_path / "forged")
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
        evaluation(RunStore(imported / "runs"), run, EVALUATION | {"knn": {"neighbours": 7}})
    (path,) = (imported / "runs" / run).glob(RunStore.EVALUATED)
    intact = path.read_text()
    path.write_text(intact.replace('"value": 0.', '"value": 1.'))
    with pytest.raises(
        UserError, match=f"{path} was damaged or edited.*import the exported study again"
    ):
        evaluation(RunStore(imported / "runs"), run, EVALUATION)
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


def of_first(kind: str):
    """Return a function that gives the name of the first file of a kind in the folders of runs."""
    return lambda files: min(name for name in files if name.rpartition("/")[2].startswith(kind))


def edit(kind: str, change):
    """Return a function that edits the parsed content of the first file of a kind."""

    def edited(files: dict[str, bytes]) -> None:
        name = STUDY if kind == STUDY else of_first(kind)(files)
        content = json.loads(files[name])
        change(content)
        files[name] = json.dumps(content).encode()

    return edited


def remove(kind: str):
    return lambda files: files.pop(of_first(kind)(files))


def rename_block(described: dict, place: str) -> None:
    described["blocks"][place] = described["blocks"].pop(PLACE)


def rename_run(described: dict) -> None:
    described["blocks"][PLACE]["manifest"]["runs"][0]["id"] = "0123"


DAMAGES = {
    "no record": (remove("run.json"), "expected its record, one file of rows"),
    "no rows": (remove("evaluated-"), "expected its record, one file of rows"),
    "unknown file": (lambda files: files.update({"notes.txt": b""}), "notes.txt"),
    "summary": (
        lambda files: files.update({"files/artefacts/comparison.json": b"{}"}),
        "comparison.json",
    ),
    "weights": (
        lambda files: files.update({"runs/0123/model.safetensors": b""}),
        "model.safetensors",
    ),
    "unlisted run": (lambda files: files.update({"runs/0123/run.json": b"{}"}), "runs/0123"),
    "unlisted file": (
        lambda files: files.update({"files/subsets/digits/seed7.parquet": b""}),
        "seed7.parquet is not listed",
    ),
    "missing file": (remove("seed0-1.parquet"), "seed0-1.parquet is missing"),
    "parent folder": (
        lambda files: files.update({"files/subsets/../seed0.parquet": b""}),
        "subsets/../seed0",
    ),
    "other format": (edit(STUDY, lambda study: study.update(format=2)), "format"),
    "no format": (edit(STUDY, lambda study: study.pop("format")), "format"),
    "other study": (edit(STUDY, lambda study: study.update(study="tinyer")), "tinyer"),
    "data outside": (
        edit(STUDY, lambda study: study.update(user_files={"sources/../../x": {}})),
        "sources/../../x",
    ),
    "invalid data": (
        edit(STUDY, lambda study: study.update(user_files={"sources/x": {}})),
        STUDY,
    ),
    "other settings": (
        edit("run.json", lambda run: run["settings"]["training"].update(learning_rate=0.5)),
        "has settings and data of run",
    ),
    "incomplete record": (edit("run.json", lambda run: run.pop("data")), "run.json"),
    "other checksum": (edit("run.json", lambda run: run.update(checksum="0")), "different runs"),
    "other block": (edit(STUDY, lambda study: rename_block(study, f"{PLACE}/..")), "seed0-1/.."),
    "block outside": (
        edit(STUDY, lambda study: rename_block(study, "../CL/seed0-1")),
        "../CL/seed0-1",
    ),
    "other run": (edit(STUDY, rename_run), "runs/0123"),
    "rows of another study": (
        edit(STUDY, lambda study: study["blocks"][PLACE]["names"].update(study="tinyer")),
        "tinyer",
    ),
    "not finite": (
        edit("evaluated-", lambda found: found["rows"][0].update(value=float("inf"))),
        "finite",
    ),
    "repeated": (
        edit("evaluated-", lambda found: found["rows"].append(found["rows"][0])),
        "once per split",
    ),
    "no values": (
        edit("evaluated-", lambda found: found["rows"][0].pop("value")),
        "value is missing",
    ),
    "other evaluation": (
        edit(STUDY, lambda study: study["evaluation"]["knn"].update(neighbours=7)),
        "other settings",
    ),
    "damaged curve": (
        lambda files: files.update({of_first("training.parquet")(files): b"PAR1"}),
        "training.parquet",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_archives_are_refused_and_nothing_is_written(
    exported, tmp_path, damage, capsys
):
    files = members(exported)
    change, named = DAMAGES[damage]
    change(files)
    pack(tmp_path / "tiny.tar.xz", files)
    assert_refused(tmp_path, capsys, named)


def assert_refused(folder: Path, capsys, named: str) -> None:
    """Import the archives in a folder, and expect one line that contains `named`."""
    assert main(["rows", "import", str(folder), "--results", str(folder / "results")]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert named in output.err
    assert len(output.err.splitlines()) == 1
    assert not (folder / "results").exists()


@pytest.mark.parametrize("damage", ["truncated", "changed", "text", "empty"])
def test_a_file_that_is_no_intact_archive_is_refused(exported, tmp_path, damage, capsys):
    data = exported.read_bytes()
    place = len(data) // 2
    changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    content = {"truncated": data[:place], "changed": changed, "text": b"rows", "empty": b""}
    (tmp_path / "tiny.tar.xz").write_bytes(content[damage])
    assert_refused(tmp_path, capsys, "cannot be read as an archive")


def test_an_archive_with_a_flipped_bit_is_refused_wherever_it_is(exported, tmp_path):
    """tarfile alone ends silently at a damaged header, as if the files before it were all."""
    data = exported.read_bytes()
    path = tmp_path / exported.name
    for place in range(0, len(data), len(data) // 100):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(UserError, match="cannot be read as an archive"):
            read_archive(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_members_that_are_no_files_are_refused(exported, tmp_path, kind, capsys):
    with tarfile.open(tmp_path / "tiny.tar.xz", "w:xz") as file:
        for name, data in members(exported).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if name.endswith("/run.json"):
                member.type, member.linkname, member.size = kind, "/etc/passwd", 0
            file.addfile(member, io.BytesIO(data))
    assert_refused(tmp_path, capsys, "run.json")


def test_a_member_that_occurs_twice_is_refused(exported, tmp_path, capsys):
    with tarfile.open(tmp_path / "tiny.tar.xz", "w:xz") as file:
        for _ in range(2):
            for name, data in members(exported).items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
    assert_refused(tmp_path, capsys, "'study.json' is not a file of an exported study")


def test_a_member_that_would_fill_the_memory_is_refused(exported, tmp_path, capsys):
    hole = tarfile.TarInfo("runs/0123/run.json")
    hole.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (5 * 2**30)  # the size with its holes
    header[148:156] = b"%06o\0 " % tarfile.calc_chksums(header)[0]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        member = tarfile.TarInfo(STUDY)
        member.size = len(members(exported)[STUDY])
        file.addfile(member, io.BytesIO(members(exported)[STUDY]))
    packed = archive.getvalue()[: 512 + -(-member.size // 512) * 512] + bytes(header) + bytes(1024)
    (tmp_path / "tiny.tar.xz").write_bytes(lzma.compress(packed))
    assert_refused(tmp_path, capsys, "larger than exports are")


@pytest.mark.parametrize("name", ["..", ".", ".checksums", "runs"])
def test_a_name_that_leads_out_of_the_studies_is_refused(exported, tmp_path, capsys, name):
    files = members(exported)
    edit(STUDY, lambda study: study.update(study=name, blocks={}, files=[]))(files)
    (tmp_path / "in").mkdir()
    archive = tmp_path / f"in/{name}.tar.xz"
    pack(archive, {STUDY: files[STUDY]})
    assert main(["rows", "import", str(archive), "--results", str(tmp_path / "results")]) == 1
    assert f"contains the study {name!r}" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [tmp_path / "in"]


def other_study(exported: Path, folder: Path, neighbours: int) -> Path:
    """Write an archive of another study with the same runs, evaluated with other settings."""
    content = members(exported)
    described = json.loads(content.pop(STUDY).replace(b'"study": "tiny"', b'"study": "twin"'))
    described["evaluation"]["knn"]["neighbours"] = neighbours
    files = {}
    for name, data in content.items():
        if "/evaluated-" in name:
            found = json.loads(data)
            found["evaluated"]["settings"]["knn"]["neighbours"] = neighbours
            for row in found["rows"]:
                row["value"] = 0.25
            digest = evaluation_digest(ImageStudy, found["evaluated"]["settings"])
            files[f"{name.rpartition('/')[0]}/evaluated-{digest}.json"] = json.dumps(found).encode()
        else:
            files[name] = data
    folder.mkdir(parents=True, exist_ok=True)
    pack(folder / "twin.tar.xz", {STUDY: json.dumps(described).encode()} | files)
    return folder / "twin.tar.xz"


def test_studies_that_share_runs_are_imported_in_any_order_and_healed(exported, tmp_path):
    twin = other_study(exported, tmp_path, 7)
    orders = {"first": [exported, twin], "last": [twin, exported]}
    for name, archives in orders.items():
        for archive in archives:
            import_study(archive, tmp_path / name)
    assert contents(tmp_path / "first") == contents(tmp_path / "last")
    values = pd.read_parquet(tmp_path / "first/twin" / ROWS)["value"]
    assert set(values) == {0.25}
    before = contents(tmp_path / "last")
    shutil.rmtree(next((tmp_path / "last/runs").iterdir()))
    for archive in (exported, twin):
        import_study(archive, tmp_path / "last")
    assert contents(tmp_path / "last") == before


def test_blocks_whose_runs_are_of_another_training_are_named(exported, tmp_path):
    content = members(other_study(exported, tmp_path, 5))
    described = json.loads(content.pop(STUDY))
    for run in described["blocks"][PLACE]["manifest"]["runs"]:
        name = f"runs/{run['id']}/run.json"
        run["checksum"] = "f" * 64  # trained on another machine
        content[name] = json.dumps(json.loads(content[name]) | {"checksum": "f" * 64}).encode()
    pack(tmp_path / "twin.tar.xz", {STUDY: json.dumps(described).encode()} | content)
    for first, second in itertools.permutations((exported, tmp_path / "twin.tar.xz")):
        results = tmp_path / f"{first.stem}-{second.stem}"
        import_study(first, results)
        assert f"not imported: {PLACE}, whose runs in that store" in import_study(second, results)


def test_an_archive_with_the_rows_of_another_evaluation_replaces_the_tables(exported, tmp_path):
    results = tmp_path / "results"
    for neighbours in (5, 7, 5):
        import_study(other_study(exported, tmp_path / str(neighbours), neighbours), results)
        (record, *_) = json.loads((results / "twin" / RECORDS).read_text())
        assert record["evaluated"]["settings"]["knn"]["neighbours"] == neighbours


@pytest.mark.parametrize("calls", [1, 4, 9])
def test_an_interrupted_import_is_completed_by_the_next_one(
    exported, imported, tmp_path, monkeypatch, calls
):
    results = tmp_path / "other"
    counted = iter(range(calls))

    def interrupted(*arguments):
        if next(counted, None) is None:
            raise KeyboardInterrupt
        seal(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(exchange, "seal", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_study(exported, results)
    import_study(exported, results)
    assert contents(results) == contents(imported)
    times = {path.stat().st_mtime_ns for path in (results / "tiny").rglob("*.*")}
    assert len(times) == 1


def test_an_import_keeps_the_record_of_the_data_that_were_read_here(exported, tmp_path):
    results = tmp_path / "results"
    ((place, record),) = description(exported)["user_files"].items()
    path = results / f"{place}.files.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record | {"data": "own"}))
    import_study(exported, results)
    assert json.loads(path.read_text())["data"] == "own"


def test_rows_that_are_measured_again_replace_damaged_ones(project):
    store = RunStore(project.path / "results/runs")
    identifier = next(iter(store.records()))
    before = evaluation(store, identifier, EVALUATION)
    (path,) = store.folder(identifier).glob(RunStore.EVALUATED)
    path.write_text("{}")
    with pytest.raises(UserError, match=r"damaged or edited.*--forcerun evaluate"):
        evaluation(store, identifier, EVALUATION)
    settings = before["evaluated"]["settings"] | {"threads": 3}  # does not affect rows
    keep_evaluation(store, identifier, before["evaluated"] | {"settings": settings}, before["rows"])
    assert [*store.folder(identifier).glob(RunStore.EVALUATED)] == [path]
    assert evaluation(store, identifier, EVALUATION)["rows"] == before["rows"]


def test_rows_that_differ_from_the_tables_are_not_exported(project, tmp_path):
    results = project.path / "results"
    store = RunStore(results / "runs")
    run = json.loads((results / "tiny" / RECORDS).read_text())[0]["id"]
    found = evaluation(store, run, EVALUATION)
    found["rows"][0]["value"] /= 2
    keep_evaluation(store, run, found["evaluated"], found["rows"])
    export_study("tiny", STUDIES, results, tmp_path)
    reason = "measured again since its rows were gathered"
    assert description(tmp_path / "tiny.tar.xz")["missing"] == {PLACE: reason}


def test_an_import_keeps_runs_that_were_trained_here(exported, project, capsys):
    before = contents(project.path / "results")
    assert main(["rows", "import", str(exported), "--results", str(project.path / "results")]) == 0
    assert "kept 6 runs" in capsys.readouterr().out
    assert contents(project.path / "results") == before


@pytest.mark.parametrize(
    ("is_evaluated", "reason"),
    [
        (False, "not evaluated with these settings"),
        (True, "trained again since its evaluation"),  # for another study
    ],
)
def test_blocks_with_runs_that_were_retrained_since_their_evaluation_are_left_out(
    project, tmp_path, is_evaluated, reason
):
    results = project.path / "results"
    run = json.loads((results / "tiny" / RECORDS).read_text())[0]
    store = RunStore(results / "runs")
    before = evaluation(store, run["id"], EVALUATION)
    record = {key: value for key, value in run.items() if key not in ("checksum", "evaluated")}
    if is_evaluated:
        (store.folder(run["id"]) / RunStore.MODEL).write_bytes(b"another model")
    store.finish(run["id"], record)
    if is_evaluated:
        keep_evaluation(store, run["id"], before["evaluated"], before["rows"])
    export_study("tiny", STUDIES, results, tmp_path / "exported")
    archive = tmp_path / "exported/tiny.tar.xz"
    assert description(archive)["missing"] == {PLACE: reason}
    assert run["id"] not in {record["id"] for record in records(archive)}


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


def test_a_file_that_is_no_archive_is_neither_replaced_nor_imported(results, tmp_path, capsys):
    (tmp_path / "tiny.tar.xz").write_text("mine")
    with pytest.raises(UserError, match=r"tiny\.tar\.xz"):
        export_study("tiny", STUDIES, results, tmp_path)
    assert (tmp_path / "tiny.tar.xz").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert main(["rows", "import", str(tmp_path / "empty")]) == 1
    assert str(tmp_path / "empty") in capsys.readouterr().err


def test_check_runs_and_why_mark_imported_runs_even_without_the_data(
    imported, tmp_path, monkeypatch, capsys
):
    def absent(**settings):
        raise UserError("there are no images")

    monkeypatch.setattr(loading, "load_source", absent)
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


STEPS = st.tuples(st.sampled_from(["import", "export", "damage", "lose"]), st.integers(0, 10**6))


@given(steps=st.lists(STEPS, min_size=2, max_size=6))
@example(steps=[("import", 0), ("damage", 161227)])  # a manifest
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_damage_and_imports_ends_with_the_same_files(
    exported, tmp_path_factory, steps
):
    """An import heals what is damaged or lost, or names what to remove; an export never differs."""
    folder = tmp_path_factory.mktemp("sequence")
    results = folder / "results"
    import_study(exported, results)
    pristine = contents(results)
    for step, number in [*steps, ("import", 0)]:
        present = sorted(place for place in contents(results) if not place.startswith("."))
        path = results / present[number % len(present)]
        if step == "damage":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        elif step == "lose":
            path.unlink()
        elif step == "import":
            import_and_heal(exported, results)
            assert contents(results) == pristine
        else:
            export_or_name(results, folder, exported)


def refusal(function, *arguments) -> str:
    """Call a function, and return the message of its user error; empty if there is none."""
    try:
        function(*arguments)
    except UserError as error:
        return str(error)
    return ""


def import_and_heal(archive: Path, results: Path) -> None:
    """Import; first remove what is named as damaged: folders of runs, or files."""
    place = re.escape(str(results))
    named = rf"Remove the folder ({place}/runs/\w+)|({place}/\S+): cannot be read .*Delete it"
    while message := refusal(import_study, archive, results):
        found = re.search(named, message)
        assert found, message
        if found[1]:
            shutil.rmtree(found[1])
        else:
            Path(found[2]).unlink()


def export_or_name(results: Path, folder: Path, archive: Path) -> None:
    """Export; the archive has the same bytes, unless it or the error names what is missing."""
    if message := refusal(export_study, "tiny", STUDIES, results, folder):
        assert str(results) in message
        return
    exported, whole = members(folder / archive.name), members(archive)
    described = json.loads(exported.pop(STUDY))
    assert exported.items() <= whole.items()
    planned = json.loads(whole[STUDY])["blocks"].keys()
    assert described["missing"].keys() == planned - described["blocks"].keys()
