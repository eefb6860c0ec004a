"""What is planned, trained, drawn and kept: real workflows on a tiny study."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.projects import ROOT, Project, new_project, planned_jobs
from tests.studies import tiny_study
from trueneg.report.findings import sentence
from trueneg.report.gathered import Gathered

NEVER = {"source", "subsets", "train", "evaluate", "compare", "embedding"}
MANIFESTS = "results/tiny/manifests/digits"


def test_the_study_ends_with_models_rows_figures_tables_and_page(finished_project):
    results = finished_project.path / "results"
    assert len(finished_project.models()) == 3 * 2
    rows = pd.read_parquet(results / "tiny/artefacts/rows.parquet")
    assert set(rows["objective"]) == {"CL", "DCL-true", "Oracle"}
    assert set(rows["seed"]) == {0, 1}
    assert set(rows["split"]) == {"validation", "test"}
    assert set(rows["task"]) == {"linear probe", "knn", "mean classifier", "largest class"}
    assert set(rows["run"]) == set(finished_project.models())
    for png in (results / "tiny/figures").glob("*.png"):
        assert png.with_suffix(".pdf").stat().st_size > 1000
        assert png.with_suffix(".txt").read_text().strip()
    assert {path.stem for path in (results / "tiny/figures").glob("*.png")} >= {
        "training_loss",
        "share_at_bound",
    }
    assert {path.suffix for path in (results / "tiny/tables").iterdir()} >= {".csv", ".tex"}
    # all objectives of a seed share it
    assert len(list((results / "tiny/subsets").rglob("*.parquet"))) == 1
    page = (results / "index.html").read_text()
    assert "Tiny" in page
    assert 'src="http' not in page
    assert finished_project.planned() == {}


def test_a_finished_workflow_prints_the_answer_of_each_study_and_its_place(project):
    # Snakemake calls no handler if there is nothing to do
    (project.path / "results/index.html").unlink()
    printed = project.run()
    assert sentence(Gathered(project.path / "results/tiny/artefacts")) in printed
    assert "results/index.html#tiny" in printed


def test_a_call_prints_no_answer_of_an_earlier_one(tmp_path):
    project = new_project(tmp_path / "project")
    theory = {"kind": "theory", "title": "Tiny theory"}
    project.configure(first=theory, second=theory)
    (project.path / "results").mkdir()
    (project.path / "results/index.html").touch()
    calls = [project.run(f"results/{name}/artefacts/study.yaml") for name in ("first", "second")]
    assert "index.html#first" in calls[0]
    assert "of an earlier call" not in calls[0]
    assert "first: the answer on the page is of an earlier call" in calls[1]
    assert "second: the answer" not in calls[1]


def test_nothing_has_changed_in_a_finished_folder(finished_project):
    """With ``--list-changes params``, Snakemake 9.27 also lists unchanged files; ``--summary``
    compares correctly.
    """
    for kind in ("code", "input"):
        assert finished_project.snakemake("--list-changes", kind).stdout == ""
    header, *files = finished_project.snakemake("--summary").stdout.splitlines()
    status = header.split("\t").index("status")
    assert len(files) > 20
    assert {line.split("\t")[status] for line in files} == {"ok"}


def test_edited_scripts_losses_and_environments_plan_no_training(project):
    for script in (project.path / "workflow/scripts").glob("*.py"):
        script.write_text(script.read_text() + "\n# touched\n")
    for rules in (project.path / "rules").glob("*.smk"):
        rules.touch()
    loss = project.path / "src/trueneg/losses/estimators/debiased.py"
    loss.write_text(loss.read_text() + "\n\nEDITED = True\n")
    for path in (project.path / "envs").iterdir():
        path.write_text(path.read_text() + "\n# another line\n")
    assert not NEVER & set(project.planned())


def raise_version(path: Path, after: str) -> None:
    """Raise the version of the settings class whose definition begins with `after`."""
    text = path.read_text()
    assert after in text
    path.write_text(text.replace(after, f"{after}\n    VERSION = 2\n"))


def test_a_raised_version_of_a_task_marks_rows_stale_and_no_run(project):
    raise_version(
        project.path / "src/trueneg/specs/tasks/images/knn.py",
        "class NearestNeighbourSettings(AccuracyTask):",
    )
    listed, checked = (
        project.trueneg("runs", "--csv", "-").stdout,
        project.trueneg("check", "study.yaml").stdout,
    )
    assert (listed.count(",stale rows,"), listed.count(",stale,")) == (6, 0)
    assert "6 of 6 runs have stale rows" in checked
    assert "stale" in project.trueneg("why", "results/tiny/tables/accuracy.csv").stdout


@pytest.mark.long
def test_a_raised_version_of_an_objective_marks_its_own_runs_which_are_trained_again_once_removed(
    project,
):
    before = project.models()
    loss = project.path / "src/trueneg/losses/estimators/debiased.py"
    loss.write_text(loss.read_text() + "\n\nEDITED = True\n")
    assert project.trueneg("runs", "--csv", "-").stdout.count(",stale") == 0
    raise_version(
        project.path / "src/trueneg/specs/objectives/debiased.py",
        "class TwoViewDebiased(TwoViewObjective):",
    )
    listed, checked = (
        project.trueneg("runs", "--csv", "-").stdout,
        project.trueneg("check", "study.yaml").stdout,
    )
    assert [line.split(":")[0].strip() for line in checked.splitlines() if "2 stale" in line] == [
        "DCL-true"
    ]
    stale = {line.split(",")[0] for line in listed.splitlines() if ",stale," in line}
    assert {line.split(",")[0] for line in listed.splitlines() if ",DCL-true," in line} == stale
    assert len(stale) == 2
    (project.path / "results/tiny/tables/accuracy.csv").unlink()
    assert "2 runs in results/runs are stale" in project.run("tables")
    for run in stale:
        shutil.rmtree(project.path / "results/runs" / run)
    project.run("models", "--forcerun", "train")
    after = project.models()
    assert set(after) == set(before)
    assert {run for run in before if after[run] > before[run]} == stale


def drawing_times(project: Project) -> dict[str, int]:
    """When each figure and table was drawn, not copied."""
    return {
        f"{path.parent.name}/{path.name}": path.stat().st_mtime_ns
        for path in project.path.glob("results/tiny/drawings/*/*.json")
    }


@pytest.mark.long
def test_editing_a_file_of_the_report_draws_everything_again_and_nothing_else(project):
    before = drawing_times(project)
    figures = project.path / "src/trueneg/report/figures/monitors.py"
    figures.write_text(figures.read_text() + "\n\nEDITED = True\n")
    assert set(project.planned()) == {"draw_tiny", "page", "all"}
    project.run("results/tiny/figures/training_loss.png")
    after = drawing_times(project)
    assert {name for name in after if after[name] != before[name]} == set(before)
    assert project.planned("figures") == {}


def copy_of_rows(finished_project, path, copy):
    """A project with another's rows and artefacts, but neither its data nor its models."""
    fresh = new_project(path)
    fresh.configure(tiny=tiny_study())
    for part in ("rows", "artefacts"):
        shutil.copytree(
            finished_project.path / "results/tiny" / part,
            fresh.path / "results/tiny" / part,
            copy_function=copy,
        )
    return fresh


@pytest.mark.parametrize(
    ("copy", "optional"),
    [
        pytest.param(shutil.copy2, set(), id="times kept"),
        # Gathering the rows again takes seconds and needs neither data nor models.
        pytest.param(shutil.copyfile, {"compare"}, id="times lost"),
    ],
)
def test_rows_and_artefacts_alone_need_only_drawing(finished_project, tmp_path, copy, optional):
    planned = set(
        copy_of_rows(finished_project, tmp_path / "elsewhere", copy).planned("figures", "tables")
    )
    drawing = {"draw_tiny", "figures", "tables"}
    assert drawing <= planned <= drawing | optional


@pytest.mark.long
def test_rows_and_artefacts_alone_are_drawn_without_torch(finished_project, tmp_path):
    fresh = copy_of_rows(finished_project, tmp_path / "elsewhere", shutil.copyfile)
    blocker = "import sys\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
    blocker += (
        "        if name.split('.')[0] in {'torch', 'sklearn', 'torchvision'}: raise"
        " ImportError(name + ' is blocked')\n"
    )
    (fresh.path / "src/sitecustomize.py").write_text(
        blocker + "sys.meta_path.insert(0, Refuse())\n"
    )
    fresh.run("figures")
    assert (fresh.path / "results/tiny/figures/training_loss.png").is_file()
    assert not (fresh.path / "results/runs").exists()


@pytest.mark.long
def test_a_deleted_manifest_is_written_again_without_training(project):
    before = project.models()
    manifest = project.path / MANIFESTS / "CL/seed0-1.json"
    content = manifest.read_text()
    manifest.unlink()
    assert project.planned("models")["train"] == 1
    project.run("models")
    assert manifest.read_text() == content
    assert project.models() == before


@pytest.mark.long
def test_a_failed_seed_keeps_the_finished_ones_of_its_block(project):
    manifest = project.path / MANIFESTS / "CL/seed0-1.json"
    first, last = (run["id"] for run in json.loads(manifest.read_text())["runs"])
    folder = project.path / "results/runs" / last
    shutil.rmtree(folder)
    manifest.unlink()
    before = project.models()
    folder.write_text("a file in the place of the run's folder: the job must stop")
    done = project.snakemake("models")
    folder.unlink()
    assert done.returncode != 0
    assert "choose a folder that is not below a file" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not manifest.exists()
    project.run("models")
    after = project.models()
    assert after[first] == before[first]
    assert set(after) == {*before, last}


@pytest.mark.long
def test_more_seeds_train_only_the_added_ones(project):
    before = project.models()
    project.configure(tiny=tiny_study(seeds=3))
    project.run("models")
    after = project.models()
    assert len(after) == 3 * 3
    assert {run: after[run] for run in before} == before


@pytest.mark.long
def test_two_studies_that_share_runs_train_them_once(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(first=tiny_study(seeds=1), second=tiny_study(title="Another", seeds=2))
    project.run("models")
    assert len(project.models()) == 3 * 2
    listed = [
        json.loads(path.read_text()) for path in project.path.glob("results/*/manifests/*/*/*.json")
    ]
    assert {len(manifest["runs"]) for manifest in listed} == {1, 2}


def test_an_invalid_configuration_is_refused_before_anything_runs(project):
    project.configure(tiny=tiny_study(seeds=0))
    done = project.snakemake()
    assert done.returncode != 0
    assert (
        "study.yaml: tiny.seeds is 0; expected a number greater than or equal to 1"
        in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_a_missing_source_is_reported_before_any_training(tmp_path):
    project = new_project(tmp_path / "project")
    dataset = tiny_study()["dataset"] | {"source": "cifar10", "path": "nowhere", "test": None}
    project.configure(tiny=tiny_study(dataset=dataset))
    done = project.snakemake("models")
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr
    assert "nowhere" in done.stderr
    assert project.models() == {}


def dry_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A dry run of the checkout with another working directory."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--directory",
        str(folder),
        "--dry-run",
        "--cores",
        "1",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)


def test_config_changes_one_value_of_the_default_configuration(tmp_path):
    done = dry_run(tmp_path, "--config", 'digits={"seeds": 2}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed0-1" in done.stdout
    assert "seed0-7" not in done.stdout


def test_the_full_cifar_study_is_planned_in_seconds(tmp_path):
    done = dry_run(tmp_path, "models", "--configfile", "config/studies/cifar10.yaml")
    assert planned_jobs(done)["train"] == 6 * 9 * 8


@pytest.mark.long
def test_the_report_of_snakemake_contains_every_figure(project):
    project.run("--report", "report.html")
    text = (project.path / "report.html").read_text()
    for figure in (project.path / "results/tiny/figures").glob("*.png"):
        assert figure.name in text
