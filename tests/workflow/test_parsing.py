"""Reading the workflow writes nothing, and Snakemake's ``config`` then holds the resolved configuration."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.projects import ROOT, Project, new_project
from tests.studies import tiny_study
from trueneg.config.reading import load_configuration, read_configuration

SHIPPED = [ROOT / "config/config.yaml", *sorted((ROOT / "config/studies").glob("*.yaml"))]
TAG, SOFTWARE = "resolved: ", "software: "
# A job with a `run` directive has a process of its own, which reads the workflow again.
PROBE = f"""
import json
print({TAG!r} + json.dumps(workflow.config))
print({SOFTWARE!r} + json.dumps({{one.name: [one.conda_env, one.container_img] for one in workflow.rules if one.script}}))
rule probe:
    output: "probe.json"
    run: Path(output[0]).write_text(json.dumps(config))
"""


def listing(project: Project) -> dict[str, tuple[int, int]]:
    """Size and time of writing of every file and folder, but for Snakemake's own memory and compiled modules."""
    found = {}
    for folder, folders, files in os.walk(project.path):
        folders[:] = [name for name in folders if name not in (".snakemake", "__pycache__")]
        for path in (Path(folder, name) for name in (*folders, *files)):
            status = path.stat()
            found[str(path.relative_to(project.path))] = (status.st_size, status.st_mtime_ns)
    return found


def parsed(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake there with these arguments alone."""
    environment = os.environ | {"PYTHONPATH": str(project.path / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    return subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True, timeout=300)


def config_of(project: Project, *arguments: str) -> dict:
    """What ``workflow.config`` holds when the whole Snakefile has been read."""
    done = parsed(project, *arguments, "--summary")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(TAG)] or [done.stderr]
    return json.loads(line.removeprefix(TAG))


@pytest.fixture(scope="module")
def talkative(tmp_path_factory) -> Project:
    """A fresh project that prints its configuration when read, with a job in another process that writes what it finds there."""
    project = new_project(tmp_path_factory.mktemp("talkative") / "project")
    snakefile = project.path / "Snakefile"
    snakefile.write_text(snakefile.read_text() + PROBE)
    project.configure(tiny=tiny_study())
    return project


@pytest.mark.parametrize("arguments", [("--dry-run",), ("--lint",)], ids=" ".join)
@pytest.mark.parametrize("state", ["fresh", "finished"])
def test_reading_the_workflow_writes_nothing(state, arguments, request, tmp_path):
    if state == "fresh":
        project = new_project(tmp_path / "project")
        project.configure(tiny=tiny_study())
    else:
        project = request.getfixturevalue("project")
    before = listing(project)
    done = project.snakemake(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr  # the linter has no findings
    assert listing(project) == before


def test_editing_the_code_between_two_dry_runs_writes_nothing(project):
    drawing = project.path / "src/trueneg/report/figures/monitors.py"
    drawing.write_text(drawing.read_text() + "\n\nEDITED = True\n")
    before = listing(project)
    assert project.planned()["draw_tiny"] == 1
    assert listing(project) == before


def test_the_embedded_default_is_resolved_where_no_file_is_given(talkative):
    assert config_of(talkative) == read_configuration([talkative.path / "config/config.yaml"]).resolved()


def test_given_files_replace_the_default_and_are_resolved(talkative):
    resolved = config_of(talkative, "--configfile", "study.yaml")
    assert resolved.keys() == {"tiny", "retrain_stale", "resources"}
    assert resolved["tiny"]["training"]["batch_size"] == 64
    assert resolved["tiny"]["training"]["learning_rate"] == tiny_model().training.learning_rate
    assert resolved["retrain_stale"] is False


def test_overrides_of_the_command_line_are_resolved_too(talkative):
    changes = ("--config", "retrain_stale=true", 'tiny={"training": {"epochs": 7}}')
    resolved = config_of(talkative, "--configfile", "study.yaml", *changes)
    assert resolved["retrain_stale"] is True
    assert resolved["tiny"]["training"] == tiny_model().model_dump(mode="json")["training"] | {"epochs": 7}
    of_default = config_of(talkative, "--config", 'digits={"training": {"epochs": 7}}')
    assert of_default["digits"]["training"]["epochs"] == 7
    assert len(of_default) > 2


def test_a_job_in_a_process_of_its_own_sees_the_same_configuration(talkative):
    given = ("--configfile", "study.yaml", "--config", 'tiny={"training": {"epochs": 7}}')
    done = parsed(talkative, *given, "--force", "probe")
    assert done.returncode == 0
    assert json.loads((talkative.path / "probe.json").read_text()) == config_of(talkative, *given)


def tiny_model():
    return load_configuration({"tiny": tiny_study()}, "test").studies["tiny"]


def test_a_resolved_configuration_given_as_a_file_resolves_to_itself(talkative):
    resolved = config_of(talkative, "--configfile", "study.yaml")
    (talkative.path / "again.yaml").write_text(yaml.safe_dump(resolved))
    assert config_of(talkative, "--configfile", "again.yaml") == resolved


@pytest.mark.parametrize("file", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_configuration_resolves_to_itself(file):
    configuration = read_configuration([file])
    assert load_configuration(configuration.resolved(), "resolved") == configuration


def test_a_figure_that_the_study_does_not_have_is_refused_before_anything_runs(talkative):
    done = parsed(talkative, "--configfile", "study.yaml", "--dry-run", "results/tiny/figures/embedding_by_seed.png")
    assert done.returncode
    assert "embedding_by_seed" in done.stdout + done.stderr


def test_every_job_has_a_conda_environment_with_this_package_and_an_image(talkative):
    done = parsed(talkative, "--configfile", "study.yaml", "--summary")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(SOFTWARE)] or [done.stderr]
    software = json.loads(line.removeprefix(SOFTWARE))
    assert {"source", "human_ratings", "score_shard", "draw_tiny", "page"} < software.keys()
    ((environment, image),) = {tuple(given) for given in software.values()}
    assert image == "trueneg.sif"
    listed = yaml.safe_load(Path(environment).read_text())["dependencies"]
    assert {"pip", "python"} <= {one.split()[0] for one in listed}
    installing = Path(environment).with_suffix(".post-deploy.sh").read_text()
    (extras,) = re.findall(r"pip install --editable '\.\[(.*)\]'", installing)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"pipeline"} <= set(extras.split(",")) <= known.keys()
