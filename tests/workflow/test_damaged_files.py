"""Files damaged after they were written, with their times kept: Snakemake does not notice, but no number changes silently."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from tests.projects import Project
from tests.studies import tiny_study
from trueneg.io.seals import seal

# A file of each kind that the pipeline writes, and what `trueneg check --files` says will follow from its removal.
KINDS = {
    "results/sources/digits-*.npz": "decoded again",
    "results/tiny/subsets/digits/seed0-1.parquet": "drawn again from the decoded data",
    "results/tiny/manifests/digits/CL/seed0-1.json": "listed again without training",
    "results/tiny/rows/digits/CL/seed0-1.parquet": "evaluated again",
    "results/tiny/artefacts/curves/digits/CL/seed0-1.parquet": "computed again",
    "results/tiny/artefacts/runs/digits/CL/seed0-1.json": "computed again",
    "results/tiny/artefacts/rows.parquet": "computed again",
    "results/tiny/artefacts/comparison.json": "computed again",
    "results/tiny/figures/training_loss.png": "drawn again from the artefacts",
    "results/tiny/tables/accuracy.csv": "drawn again from the artefacts",
    "results/runs/*/model.safetensors": "trains the run again",
    "results/runs/*/run.json": "trains the run again",
    "results/runs/*/training.parquet": "trains the run again",
}


def trueneg(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(project.path / "src")}
    command = [sys.executable, "-m", "trueneg", *arguments]
    return subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True)


def overwrite(path, content: bytes) -> None:
    """Replace a file's content and keep its modification time."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flip_a_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_check_files_names_every_damaged_file_and_what_to_do(project):
    assert trueneg(project, "check", "study.yaml", "--files").returncode == 0
    places = {pattern: sorted(project.path.glob(pattern))[0] for pattern in KINDS}
    runs = sorted(path.parent for path in project.path.glob("results/runs/*/run.json"))
    places |= {  # a run each
        pattern: folder / pattern.rpartition("/")[2]
        for folder, pattern in zip(runs, (one for one in KINDS if "/runs/*/" in one), strict=False)
    }
    for path in places.values():
        overwrite(path, flip_a_byte(path.read_bytes()))
    (project.path / "results/tiny/tables/differences.csv").unlink()
    done = trueneg(project, "check", "study.yaml", "--files")
    assert done.returncode == 1
    assert f"{len(places) + 1} damaged or missing" in done.stdout
    for pattern, path in places.items():
        (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith(str(path.relative_to(project.path)))]
        assert KINDS[pattern] in line
    assert "results/tiny/tables/differences.csv is missing. Run `snakemake results/tiny/tables/differences.csv`" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "damage", [flip_a_byte, lambda content: content[: len(content) // 2], lambda content: bytes(len(content))]
)
def test_check_files_and_why_say_a_damaged_table_in_a_sentence(project, damage):
    table = project.path / "results/tiny/tables/accuracy.csv"
    overwrite(table, damage(table.read_bytes()))
    done = trueneg(project, "why", "results/tiny/tables/accuracy.csv")
    assert "results/tiny/tables/accuracy.csv" in done.stdout + done.stderr
    assert "damaged" in done.stdout + done.stderr or "cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_model_of_a_finished_run_stops_the_study_until_the_run_is_removed(project):
    listed = json.loads((project.path / "results/tiny/manifests/digits/CL/seed0-1.json").read_text())
    run = project.path / "results/runs" / listed["runs"][0]["id"]
    before = pd.read_parquet(project.path / "results/tiny/artefacts/rows.parquet")
    weights = load_file(run / "model.safetensors")
    status = (run / "model.safetensors").stat()
    save_file(
        {name: np.zeros_like(value) if "conv" in name else value for name, value in weights.items()}, run / "model.safetensors"
    )
    os.utime(run / "model.safetensors", ns=(status.st_atime_ns, status.st_mtime_ns))
    project.configure(tiny=tiny_study(seeds=3))
    done = project.snakemake("rows", "--keep-going")
    assert done.returncode != 0
    assert f"{run.name}/model.safetensors is damaged" in done.stdout + done.stderr
    shutil.rmtree(run)  # what the message says; Snakemake has removed the manifest
    project.run("rows")
    after = pd.read_parquet(project.path / "results/tiny/artefacts/rows.parquet")
    keys = [name for name in before if name != "value"]
    both = before.merge(after, on=keys, suffixes=("", " after"))
    assert len(both) == len(before)
    assert (both["value"] == both["value after"]).all()


def test_a_damaged_block_is_not_compared(project):
    rows = project.path / "results/tiny/rows/digits/CL/seed0-1.parquet"
    intact, table = rows.read_bytes(), pd.read_parquet(rows)
    status = rows.stat()
    table.assign(value=table["value"] / 2).to_parquet(rows, index=False)  # a valid file with other numbers
    os.utime(rows, ns=(status.st_atime_ns, status.st_mtime_ns))
    summary = project.path / "results/tiny/artefacts/comparison.json"
    summary.unlink()
    done = project.snakemake("results/tiny/artefacts/comparison.json")
    assert done.returncode != 0
    assert f"{rows.relative_to(project.path)} was damaged or edited" in done.stdout + done.stderr
    rows.unlink()
    project.run("results/tiny/artefacts/comparison.json")
    pd.testing.assert_frame_equal(pd.read_parquet(rows), pd.read_parquet(overwritten(rows, intact)))
    assert trueneg(project, "check", "study.yaml", "--files").returncode == 0


def test_neither_the_page_nor_the_list_of_runs_shows_damaged_numbers(project):
    rows = project.path / "results/tiny/artefacts/rows.parquet"
    table, status = pd.read_parquet(rows), rows.stat()
    table.assign(value=table["value"] / 2).to_parquet(rows, index=False)
    os.utime(rows, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = trueneg(project, "runs")
    assert (done.returncode, done.stdout) == (1, "")
    assert "results/tiny/artefacts/rows.parquet was damaged or edited" in done.stderr
    (project.path / "results/index.html").unlink()
    done = project.snakemake("results/index.html")
    assert done.returncode != 0
    assert "results/tiny/artefacts/rows.parquet was damaged or edited" in done.stdout + done.stderr


def overwritten(path, content: bytes):
    copy = path.with_name("intact.copy")
    copy.write_bytes(content)
    return copy


def test_blocks_without_rows_are_named_and_evaluated_by_the_next_plain_call(project):
    place = "digits/CL/seed0-1"
    for pattern in ("rows/{}.parquet", "artefacts/curves/{}.parquet", "artefacts/runs/{}.json"):  # as after a failed evaluation
        (project.path / "results/tiny" / pattern.format(place)).unlink()
    assert (
        f"1 trained block without rows, which Snakemake will evaluate: {place}" in trueneg(project, "check", "study.yaml").stdout
    )
    assert place in trueneg(project, "why", "results/tiny/tables/accuracy.csv").stdout
    for target in ((), ("rows",)):
        assert project.planned(*target)["evaluate"] == 1


def test_the_printed_remedy_for_a_damaged_model_heals_with_a_plain_call(project):
    manifest = project.path / "results/tiny/manifests/digits/CL/seed0-1.json"
    run = project.path / "results/runs" / json.loads(manifest.read_text())["runs"][0]["id"]
    intact = (run / "model.safetensors").read_bytes()
    overwrite(run / "model.safetensors", flip_a_byte(intact))
    done = trueneg(project, "check", "study.yaml", "--files")
    (line,) = [line for line in done.stdout.splitlines() if "model.safetensors is damaged" in line]
    assert f"Remove the folder results/runs/{run.name}" in line
    assert str(manifest.relative_to(project.path)) in line
    assert "damaged" in trueneg(project, "why", run.name).stdout
    shutil.rmtree(run)
    manifest.unlink()
    assert project.planned()["train"] == 1
    project.run()
    assert (run / "model.safetensors").read_bytes() == intact
    assert trueneg(project, "check", "study.yaml", "--files").returncode == 0


def test_check_files_reports_no_intact_or_unplanned_file(project):
    project.configure(tiny=tiny_study(seeds=[0]))
    project.run()
    for path in project.path.glob("results/tiny/*/digits/*/seed0-1.*"):  # of the earlier configuration
        path.unlink()
    for path in project.path.glob("results/sources/*.npz"):  # decoded again when a job needs it
        path.unlink()
    done = trueneg(project, "check", "study.yaml", "--files")
    assert (done.returncode, " 0 damaged or missing" in done.stdout) == (0, True)


def test_weights_that_only_a_manifest_vouches_for_are_checked(project):
    """Records of earlier versions have no checksum of the weights."""
    listed = json.loads((project.path / "results/tiny/manifests/digits/CL/seed0-1.json").read_text())["runs"][0]
    run = project.path / "results/runs" / listed["id"]
    record = json.loads((run / "run.json").read_text())
    del record["checksum"]
    (run / "run.json").write_text(json.dumps(record))
    seal(project.path / "results", [run / "run.json"])
    assert trueneg(project, "check", "study.yaml", "--files").returncode == 0
    overwrite(run / "model.safetensors", flip_a_byte((run / "model.safetensors").read_bytes()))
    done = trueneg(project, "check", "study.yaml", "--files")
    assert done.returncode == 1
    assert (
        f"results/runs/{run.name} does not contain the model that results/tiny/manifests/digits/CL/seed0-1.json lists"
        in done.stdout
    )
