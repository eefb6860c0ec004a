"""Files that are damaged while keeping their times: Snakemake does not notice, but no number
changes silently.
"""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from tests.studies import tiny_study

# A file of each kind that the pipeline writes.
KINDS = (
    "results/sources/digits-*.npz",
    "results/tiny/subsets/digits/seed0-1.parquet",
    "results/tiny/manifests/digits/CL/seed0-1.json",
    "results/tiny/rows/digits/CL/seed0-1.parquet",
    "results/tiny/artefacts/curves/digits/CL/seed0-1.parquet",
    "results/tiny/artefacts/runs/digits/CL/seed0-1.json",
    "results/tiny/artefacts/rows.parquet",
    "results/tiny/artefacts/comparison.json",
    "results/tiny/figures/training_loss.png",
    "results/tiny/tables/accuracy.csv",
    "results/runs/*/model.safetensors",
    "results/runs/*/run.json",
    "results/runs/*/training.parquet",
)
ALL_OF_RUN = ("model.safetensors", "run.json", "training.parquet")
MANIFEST = "results/tiny/manifests/digits/CL/seed0-1.json"


def overwrite(path, content: bytes) -> None:
    """Replace a file's content and keep its modification time."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def halve_values(path):
    """Halve the values of a table of rows, which stays a valid file, and keep its time; return the
    intact table.
    """
    table, status = pd.read_parquet(path), path.stat()
    table.assign(value=table["value"] / 2).to_parquet(path, index=False)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return table


def flip_a_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def first_run(project):
    """The folder of the first run of a manifest."""
    return (
        project.path
        / "results/runs"
        / json.loads((project.path / MANIFEST).read_text())["runs"][0]["id"]
    )


def test_check_files_names_every_damaged_file_and_its_remedy(project):
    assert project.trueneg("check", "study.yaml", "--files").returncode == 0
    damaged = {pattern: sorted(project.path.glob(pattern))[0] for pattern in KINDS}
    runs = sorted(path.parent for path in project.path.glob("results/runs/*/run.json"))
    for folder, pattern in zip(
        runs, (pattern for pattern in KINDS if "/runs/*/" in pattern), strict=False
    ):
        damaged[pattern] = folder / pattern.rpartition("/")[2]  # each in another run
    for path in damaged.values():
        overwrite(path, flip_a_byte(path.read_bytes()))
    (runs[3] / "training.parquet").unlink()
    done = project.trueneg("check", "--files")
    assert done.returncode == 1
    assert f"{len(damaged) + 1} damaged" in done.stdout
    for path in (*damaged.values(), runs[3] / "training.parquet"):
        place = str(path.relative_to(project.path))
        (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith(place)]
        assert (
            "trains the run again"
            if "/runs/" in place and "tiny" not in place
            else f"`snakemake {place}`"
        ) in line
    assert "Traceback" not in done.stdout + done.stderr


def test_check_files_names_every_missing_file_and_what_makes_it(project):
    block = "digits/CL/seed0-1"
    gone = [
        f"results/tiny/{name}"
        for name in (
            f"rows/{block}.parquet",
            f"artefacts/curves/{block}.parquet",
            "artefacts/rows.parquet",
            "artefacts/comparison.json",
            "tables/accuracy.csv",
        )
    ]
    runs = sorted(path.parent for path in project.path.glob("results/runs/*/run.json"))
    gone += [f"results/runs/{runs[number].name}/{name}" for number, name in enumerate(ALL_OF_RUN)]
    for path in gone:
        (project.path / path).unlink()
    shutil.rmtree(runs[len(ALL_OF_RUN)])
    done = project.trueneg("check", "study.yaml", "--files")
    assert done.returncode == 1
    # a missing curve or model leaves a record that does not fit
    assert f"2 damaged, {len(gone) - 2 + 1} missing" in done.stdout
    for path in gone:
        place = path.removesuffix("/run.json")
        (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith(place)]
        is_run = "/runs/" in path
        assert ("trains the run again" if is_run else f"Run `snakemake {path}`") in line
    assert f"  results/runs/{runs[len(ALL_OF_RUN)].name} has no finished run" in done.stdout
    assert "Errno" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte,
        lambda content: content[: len(content) // 2],
        lambda content: bytes(len(content)),
    ],
)
def test_why_reports_a_damaged_table_without_a_traceback(project, damage):
    table = "results/tiny/tables/accuracy.csv"
    overwrite(project.path / table, damage((project.path / table).read_bytes()))
    done = project.trueneg("why", table)
    assert table in done.stdout + done.stderr
    assert "damaged" in done.stdout + done.stderr or "cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_damaged_model_stops_the_study_until_its_run_is_removed(project):
    run = first_run(project)
    before = pd.read_parquet(project.path / "results/tiny/artefacts/rows.parquet")
    weights, status = load_file(run / "model.safetensors"), (run / "model.safetensors").stat()
    zeroed = {
        name: np.zeros_like(value) if "conv" in name else value for name, value in weights.items()
    }
    save_file(zeroed, run / "model.safetensors")
    os.utime(run / "model.safetensors", ns=(status.st_atime_ns, status.st_mtime_ns))
    project.configure(tiny=tiny_study(seeds=3))
    done = project.snakemake("rows", "--keep-going")
    assert done.returncode != 0
    assert f"{run.name}/model.safetensors is damaged" in done.stdout + done.stderr
    shutil.rmtree(run)  # as the message says; Snakemake has removed the manifest
    project.run("rows")
    after = pd.read_parquet(project.path / "results/tiny/artefacts/rows.parquet")
    both = before.merge(
        after, on=[name for name in before if name != "value"], suffixes=("", " after")
    )
    assert len(both) == len(before)
    assert (both["value"] == both["value after"]).all()


@pytest.mark.long
def test_a_damaged_block_is_not_compared(project):
    rows, summary = (
        "results/tiny/rows/digits/CL/seed0-1.parquet",
        "results/tiny/artefacts/comparison.json",
    )
    intact = halve_values(project.path / rows)
    (project.path / summary).unlink()
    done = project.snakemake(summary)
    assert done.returncode != 0
    assert f"{rows} was damaged or edited" in done.stdout + done.stderr
    (project.path / rows).unlink()
    project.run(summary)
    pd.testing.assert_frame_equal(pd.read_parquet(project.path / rows), intact)
    assert project.trueneg("check", "study.yaml", "--files").returncode == 0


def test_neither_the_page_nor_the_list_of_runs_shows_damaged_numbers(project):
    rows = "results/tiny/artefacts/rows.parquet"
    halve_values(project.path / rows)
    done = project.trueneg("runs")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{rows} was damaged or edited" in done.stderr
    (project.path / "results/index.html").unlink()
    done = project.snakemake("results/index.html")
    assert done.returncode != 0
    assert f"{rows} was damaged or edited" in done.stdout + done.stderr


def test_blocks_without_rows_are_reported_and_evaluated_by_the_next_call(project):
    block = "digits/CL/seed0-1"
    for path in (
        f"rows/{block}.parquet",
        f"artefacts/curves/{block}.parquet",
        f"artefacts/runs/{block}.json",
    ):
        (project.path / "results/tiny" / path).unlink()  # as after a failed evaluation
    checked = project.trueneg("check", "study.yaml").stdout
    assert f"1 trained block without rows, which Snakemake will evaluate: {block}" in checked
    assert block in project.trueneg("why", "results/tiny/tables/accuracy.csv").stdout
    for target in ((), ("rows",)):
        assert project.planned(*target)["evaluate"] == 1


@pytest.mark.long
def test_the_printed_remedy_for_a_damaged_model_restores_it(project):
    run = first_run(project)
    intact = (run / "model.safetensors").read_bytes()
    overwrite(run / "model.safetensors", flip_a_byte(intact))
    done = project.trueneg("check", "study.yaml", "--files")
    (line,) = [line for line in done.stdout.splitlines() if "model.safetensors is damaged" in line]
    assert f"Remove the folder results/runs/{run.name}" in line
    assert MANIFEST in line
    assert "damaged" in project.trueneg("why", run.name).stdout
    shutil.rmtree(run)
    (project.path / MANIFEST).unlink()
    assert project.planned()["train"] == 1
    project.run()
    assert (run / "model.safetensors").read_bytes() == intact
    assert project.trueneg("check", "study.yaml", "--files").returncode == 0


@pytest.mark.long
def test_check_files_reports_no_intact_or_removed_file(project):
    project.configure(tiny=tiny_study(seeds=[0]))
    project.run()
    # of the earlier configuration
    for path in project.path.glob("results/tiny/*/digits/*/seed0-1.*"):
        path.unlink()
    for path in project.path.glob("results/sources/*.npz"):  # decoded again when a job needs it
        path.unlink()
    done = project.trueneg("check", "study.yaml", "--files")
    assert (done.returncode, " 0 damaged, 0 missing" in done.stdout) == (0, True)
    # manifests and rows of three objectives
    assert "results/tiny: 6 files removed that this configuration does not need" in done.stdout
