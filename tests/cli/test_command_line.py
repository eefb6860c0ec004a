"""The command ``trueneg``: exit code 1 and complete sentences for user errors, otherwise facts on
standard output.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.config.mistakes import with_key
from tests.config.test_config import REFUSED
from tests.data.image_layouts import pngs, random_images, write_parquet
from tests.studies import tiny_study
from trueneg.cli.estimates import EVALUATED, START
from trueneg.cli.main import main
from trueneg.cli.why import Origin, as_text
from trueneg.io.seals import seal


def parquet_study(path):
    """A study of the user's images in parquet files: four classes, 8 × 8 pixels."""
    dataset = {
        "source": "parquet",
        "path": str(path),
        "rare_classes": [2, 3],
        "fraction": 0.5,
        "validation": 0.2,
        "test": 0.25,
    }
    training = {"epochs": 1, "batch_size": 16, "device": "cpu"}
    return tiny_study(dataset=dataset, training=training, augmentation={"name": "none"})


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with a parquet file of 80 images."""
    folder = tmp_path_factory.mktemp("images")
    write_parquet(
        folder / "train.parquet", pngs(random_images(80, (8, 8, 3))), (np.arange(80) % 4).tolist()
    )
    return folder


def check(folder, study, capsys):
    """Run ``trueneg check``; return the exit code and the output."""
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"tiny": study} if "tiny" not in study else study))
    code = main(["check", str(path), "--results", str(folder / "results")])
    return code, capsys.readouterr()


def assert_user_error(code, captured):
    assert code == 1
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert lines
    assert all(line.rstrip().endswith((".", "?")) for line in lines)
    assert "Traceback" not in captured.err


SHARED = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@given(data=st.data(), path=st.sampled_from(sorted(REFUSED)))
@settings(max_examples=60, **SHARED)
def test_invalid_values_are_reported(tmp_path, capsys, data, path):
    assert_user_error(
        *check(tmp_path, with_key(tiny_study(), path, data.draw(REFUSED[path])), capsys)
    )


@given(
    names=st.lists(
        st.sampled_from(["nowhere", "..", "results", "study.yaml", ""]), min_size=1, max_size=3
    )
)
@settings(max_examples=20, **SHARED)
def test_paths_without_images_are_reported(tmp_path, capsys, names):
    folder = tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    for source in ("parquet", "cifar10", "stl10"):
        study = parquet_study(os.path.join(folder, *names))
        study["dataset"] |= {"source": source, "test": None}
        code, captured = check(tmp_path, study, capsys)
        if source == "parquet" or Path(study["dataset"]["path"]).exists():
            assert_user_error(code, captured)
        else:  # published images, which could be downloaded
            assert f"MISSING {Path(study['dataset']['path'])}" in captured.out


@given(share=st.floats(0, 0.999))
@settings(max_examples=30, **SHARED)
def test_truncated_files_are_reported(tmp_path, capsys, images, share):
    content = (images / "train.parquet").read_bytes()
    folder = tmp_path / "truncated"
    folder.mkdir(exist_ok=True)
    (folder / "train.parquet").write_bytes(content[: int(share * len(content))])
    assert_user_error(*check(tmp_path, parquet_study(folder), capsys))


def test_a_valid_study_is_described_with_its_cost(tmp_path, capsys, images):
    code, captured = check(tmp_path, parquet_study(images), capsys)
    assert code == 0
    # 80 images: 20 for testing, 12 for validation; of 48 for training, half of the two rare
    # classes' 24.
    assert "training 36 of 48" in captured.out
    assert f"CL: {images.name}: 0 of 2 runs finished" in captured.out
    assert "6 runs to train in 3 jobs" in captured.out
    seconds = 6 * START + 6 * 36 * EVALUATED
    assert f"as many evaluation jobs, and evaluating, about {seconds:.0f} s" in captured.out


def test_missing_runs_take_as_long_as_finished_ones_of_the_same_kind(
    finished_project, tmp_path, capsys
):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"tiny": tiny_study(seeds=3)}))
    assert main(["check", str(path), "--results", str(finished_project.path / "results")]) == 0
    output = capsys.readouterr().out
    assert "2 of 3 runs finished" in output
    (cost,) = (line for line in output.splitlines() if "3 runs to train" in line)
    assert "finished runs" in cost


def test_other_jobs_of_a_busy_machine_do_not_count(finished_project, tmp_path, capsys):
    results = tmp_path / "results"
    shutil.copytree(finished_project.path / "results", results, copy_function=shutil.copy2)
    records = [*results.glob("runs/*/run.json")]
    for path in records:
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"seconds": 7200, "cpu_seconds": 120}))
    seal(results, records)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"tiny": tiny_study(seeds=3)}))
    assert main(["check", str(path), "--results", str(results)]) == 0
    (cost,) = (line for line in capsys.readouterr().out.splitlines() if "3 runs to train" in line)
    assert len(records) > 0
    assert "about 6 min with one process (from finished runs on cpu)" in cost


def test_a_batch_larger_than_the_subset_is_reported_before_training(tmp_path, capsys, images):
    study = parquet_study(images)
    study["training"]["batch_size"] = 64
    code, captured = check(tmp_path, study, capsys)
    assert_user_error(code, captured)
    assert "batch_size is 64, but the subset of seed 0 contains 36" in captured.err


def test_runs_and_why_report_missing_runs_files_and_columns(tmp_path, capsys):
    assert main(["runs", "--results", str(tmp_path)]) == 0
    assert "There are no runs" in capsys.readouterr().out
    assert main(["why", "nothing", "--results", str(tmp_path)]) == 1
    assert "neither the id of a finished run nor a file" in capsys.readouterr().err
    assert main(["runs", "--results", str(tmp_path), "--sort", "speed"]) == 1
    assert "expected one of the columns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["rows", "--study", "other"], ["--study is other", "one of: tiny"]),
        (["study.yaml"], ["study.yaml is a file", "folder"]),
        (["rows"], ["results contains no evaluated runs of tiny", "run Snakemake"]),
    ],
    ids=["unknown study", "file", "no runs"],
)
def test_rows_that_cannot_be_exported_are_refused(tmp_path, monkeypatch, capsys, arguments, facts):
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(yaml.safe_dump({"tiny": tiny_study()}))
    code = main(["rows", "export", "study.yaml", *arguments, "--results", "results"])
    captured = capsys.readouterr()
    assert_user_error(code, captured)
    assert all(fact in captured.err for fact in facts)
    assert not Path("rows").exists()


def test_an_audit_is_not_written_below_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("texts.csv").write_text("text,label\nHello.,a\n")
    code = main(["audit", "texts.csv", "--mine", "--out", "texts.csv/audit"])
    captured = capsys.readouterr()
    assert_user_error(code, captured)
    assert "--out is texts.csv/audit, but texts.csv is a file" in captured.err


def test_runs_lists_the_runs_of_studies_with_their_metrics(finished_project, capsys):
    results = finished_project.path / "results"
    assert main(["runs", "--results", str(results), "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(run["study"], run["objective"], run["seed"]) for run in listed] == [
        ("tiny", objective, seed) for objective in ("CL", "DCL-true", "Oracle") for seed in (0, 1)
    ]
    assert all(0 <= run["tiny: test knn accuracy"] <= 1 for run in listed)
    assert main(["runs", "tiny", "--results", str(results), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == listed
    assert main(["runs", "other", "--results", str(results)]) == 0
    assert "There are no runs of other" in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 120])
def test_runs_fit_the_terminal_and_columns_left_out_are_named(
    finished_project, capsys, monkeypatch, width
):
    monkeypatch.setenv("COLUMNS", str(width))
    results = str(finished_project.path / "results")
    assert main(["runs", "--results", results, "--json", "-"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert main(["runs", "--results", results]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for run in runs:
        (line,) = (line.split() for line in lines if run["run"] in line)
        assert {run["state"], run["objective"], str(run["seed"])} <= {*line}
    shown = " ".join(lines)
    for column in runs[0].keys() - {"study", "run", "state", "objective", "seed"}:
        values = {str(run[column]) for run in runs}
        assert column.removeprefix("tiny: ") in shown
        # shared values are printed once
        assert len(values) > 1 or values < {*shown.replace(";", " ").split(), ""}


def why(project, result):
    """Return the provenance of a result as values and as text, from the project's copy of the
    package.
    """
    command = [sys.executable, "-m", "trueneg", "why", str(result), "--json", "-"]
    environment = os.environ | {"PYTHONPATH": str(project.path / "src")}
    done = subprocess.run(
        command, cwd=project.path, env=environment, capture_output=True, text=True, check=True
    )
    origin = json.loads(done.stdout)
    fields = {key.removeprefix("language "): value for key, value in origin.items()}
    return origin, as_text(Origin(**fields))


def test_why_reports_the_provenance_of_rows_figures_lines_of_tables_and_runs(
    finished_project, capsys
):
    results = finished_project.path / "results"
    origin, text = why(finished_project, results / "tiny/rows/digits/CL/seed0-1.parquet")
    assert {run["objective"] for run in origin["runs"]} == {"CL"}
    assert origin["settings"]["training"]["batch_size"] == 64
    assert origin["differing"]["training.batch_size"] == 64
    assert "training.learning_rate" not in origin["differing"]
    assert origin["stale"] == []
    run = origin["runs"][0]
    machine = run["machine"]["host"], run["machine"]["cpu"]
    for fact in (
        run["id"],
        "version 1",
        run["data"],
        *machine,
        "training.batch_size: 64",
        "0.0 GPU seconds",
    ):
        assert fact in text
    assert {"torch", "pandas", "snakemake", "scipy"} <= set(run["versions"])
    assert run["evaluated"]["code"]["versions"]["task/images/knn"] == 1
    assert run["gpu_seconds"] == 0
    assert run["seconds"] == pytest.approx(sum(attempt["seconds"] for attempt in run["attempts"]))
    origin, text = why(finished_project, results / "tiny/figures/training_loss.png")
    assert len(origin["runs"]) == origin["time"]["runs"] == 6
    assert origin["comparison"]["primary"]["answer"] in text
    table = results / "tiny/tables/accuracy.csv"
    line = next(
        number
        for number, row in enumerate(table.read_text().splitlines(), 1)
        if ",DCL-true," in row
    )
    origin, _ = why(finished_project, f"{table}:{line}")
    # The line also shows the difference from CL.
    expected = {(objective, seed) for objective in ("CL", "DCL-true") for seed in (0, 1)}
    assert {(run["objective"], run["seed"]) for run in origin["runs"]} == expected
    origin, text = why(finished_project, run["id"])
    assert [record["id"] for record in origin["runs"]] == [run["id"]]
    assert origin["differing"]["training.epochs"] == 1
    alone = table.with_name("alone.tex")
    alone.touch()
    assert len(why(finished_project, alone)[0]["runs"]) == 6  # without a table of numbers, all runs
    for form in (".csv", ".tex"):
        assert len(why(finished_project, table.with_suffix(form))[0]["runs"]) == 6
    lines = table.read_text().splitlines()
    table = table.with_name("part.csv")
    table.write_text("\n".join([lines[0], lines[line - 1]]))
    assert {
        (run["objective"], run["seed"]) for run in why(finished_project, table)[0]["runs"]
    } == expected
    assert main(["why", f"{table}:1", "--results", str(results)]) == 1
    assert "there is no such line; expected 2 to" in capsys.readouterr().err


def test_why_reports_what_is_out_of_date(project):
    results = project.path / "results"
    figure = results / "tiny/figures/training_loss.png"
    rows = results / "tiny/artefacts/rows.parquet"
    os.utime(rows)
    origin, text = why(project, figure)
    assert len(origin["stale"]) == 1
    assert "is older than" in text
    os.utime(figure)
    assert why(project, figure)[0]["stale"] == []
    drawn = results / "tiny/drawings/figures/training_loss.json"
    drawn.write_text(json.dumps(json.loads(drawn.read_text()) | {"code": "another"}))
    assert ["trueneg.report" in reason for reason in why(project, figure)[0]["stale"]] == [True]
    # older than the rows, but of today's code
    other = why(project, results / "tiny/figures/share_at_bound.png")[0]["stale"]
    assert ["trueneg.report" in reason for reason in other] == [False]
    (run, *_) = results.glob("runs/*/run.json")
    record = json.loads(run.read_text())
    record["code"]["versions"]["subsets"] = 0
    run.write_text(json.dumps(record | {"finished": "later"}))
    seal(results, [run])
    origin, _ = why(project, rows)
    assert origin["stale"] == ["1 of the runs: trained again since it was evaluated"]
    assert "trained with subsets version 0 (now 1)" in why(project, run.parent.name)[1]


def test_checking_and_listing_do_not_import_torch(tmp_path):
    """The command answers in a second; torch is imported only to measure."""
    code = (
        "import sys; from trueneg.cli.main import main; main(['runs', '--results', sys.argv[1]]); "
    )
    code += "print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith("False")
