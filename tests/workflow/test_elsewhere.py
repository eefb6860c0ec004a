"""The workflow used from elsewhere: as a module, in folders with unusual names, and with another
working directory.
"""

import subprocess
import sys
import sysconfig

import pytest
import yaml

from tests.projects import ROOT, Project, new_project, planned_jobs
from tests.studies import tiny_study

MODULE = """
configfile: "own.yaml"

module trueneg:
    snakefile: "{snakefile}"
    config: config["trueneg"]

use rule * from trueneg as x_*

use rule train from trueneg as x_train with:
    threads: 2

rule mine:
    input: rules.x_page.output.page, rules.x_models.input
    output: "mine.txt"
    shell: "cp {{input[0]}} {{output}}"
"""


@pytest.fixture
def spaced(tmp_path) -> Project:
    """A project and its Python in a folder with a space, an accent and a quote, whose study has a
    protocol.
    """
    project = new_project(tmp_path / "it's my project é")
    (project.path / "protocol.md").write_text("DCL - CL\n")
    project.configure(tiny=tiny_study(protocol="protocol.md"))
    environment = project.path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/*/site-packages")
    (packages / "installed.pth").write_text(sysconfig.get_path("purelib"))
    project.python = str(environment / "bin/python")
    return project


# the second one is where the workflow catalogue and snakedeploy look
@pytest.mark.parametrize("snakefile", ["Snakefile", "workflow/Snakefile"])
def test_another_workflow_can_use_all_rules_with_a_prefix(snakefile, tmp_path):
    folder = tmp_path / "another workflow"
    folder.mkdir()
    (folder / "Snakefile").write_text(MODULE.format(snakefile=ROOT / snakefile))
    (folder / "own.yaml").write_text(yaml.safe_dump({"trueneg": {"tiny": tiny_study()}}))
    command = [sys.executable, "-m", "snakemake", "mine", "x_figures", "--dry-run", "--cores", "2"]
    planned = planned_jobs(subprocess.run(command, cwd=folder, capture_output=True, text=True))
    jobs = {
        "source": 1,
        "subsets": 1,
        "train": 3,
        "evaluate": 3,
        "compare": 1,
        "draw_tiny": 1,
        "page": 1,
        "figures": 1,
    }
    assert planned == {f"x_{rule}": count for rule, count in jobs.items()} | {"mine": 1}


def test_a_module_without_a_configuration_has_the_default_studies(tmp_path):
    module = (
        f'module trueneg:\n    snakefile: "{ROOT}/Snakefile"\n\nuse rule * from trueneg as x_*\n'
    )
    (tmp_path / "Snakefile").write_text(module)
    command = [sys.executable, "-m", "snakemake", "x_page", "--dry-run", "--cores", "2"]
    planned = planned_jobs(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True))
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    drawn = {rule.removeprefix("x_draw_") for rule in planned if rule.startswith("x_draw_")}
    assert drawn == set(default)


def test_jobs_run_with_a_python_in_a_folder_with_a_space(spaced):
    checked = spaced.trueneg("check", "study.yaml")
    assert checked.returncode == 0, checked.stderr
    spaced.run("models", "--until", "source")
    assert list(spaced.path.glob("results/sources/*.npz"))


def test_a_folder_with_braces_is_refused_in_the_same_words_by_snakemake_and_check(tmp_path):
    project = new_project(tmp_path / "my {project}")
    project.configure(tiny=tiny_study())
    refused, checked = project.snakemake("models"), project.trueneg("check", "study.yaml")
    assert (refused.returncode, checked.returncode) == (1, 1)
    assert str(project.path) in checked.stderr
    assert checked.stderr.strip() in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr + checked.stderr
    assert not (project.path / "results").exists()


def test_containers_are_refused_only_if_used_from_outside_a_folder_with_a_space(spaced, tmp_path):
    elsewhere = ("models", "--dry-run", "--directory", str(tmp_path))
    assert spaced.planned(*elsewhere)["train"] == 3
    containers = ("--software-deployment-method", "apptainer")
    refused = spaced.snakemake(*elsewhere, *containers)
    assert refused.returncode
    assert "trueneg.sif, whose path has a space" in refused.stdout + refused.stderr


def test_a_protocol_beside_the_snakefile_is_found_from_another_working_directory(spaced, tmp_path):
    (tmp_path / "here").mkdir()
    assert spaced.planned("models", "--directory", str(tmp_path / "here"))["train"] == 3
    (spaced.path / "protocol.md").unlink()
    missing = spaced.snakemake("models", "--dry-run", "--directory", str(tmp_path / "here"))
    assert missing.returncode
    for folder in (tmp_path / "here", spaced.path):
        assert f"{folder}/protocol.md" in missing.stdout + missing.stderr
