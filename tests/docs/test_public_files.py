"""The files for GitHub, citations, pre-commit and the workflow catalogue agree with the project."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
UNFORMATTED = {
    "ruff": ("example.py", "import os\nx = ( 1)\n"),
    "snakefmt": ("Snakefile", "rule all:\n  input: 'a',\n"),
}


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


HOOKS = {
    hook["id"]: hook
    for repository in read(".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]
}


def steps() -> list[str]:
    """The commands of continuous integration on GitHub."""
    jobs = read(".github/workflows/ci.yml")["jobs"].values()
    return [
        line for job in jobs for step in job["steps"] for line in step.get("run", "").splitlines()
    ]


def test_github_runs_the_projects_own_continuous_integration():
    assert steps()
    known = re.findall(r"^([\w./-]+):", MAKEFILE, re.M)
    for command in map(shlex.split, steps()):
        if command[0] == "make":
            assert {name for name in command[1:] if "=" not in name} <= {*known}
        else:
            assert (ROOT / command[0]).stat().st_mode & 0o100, command


def test_github_runs_every_supported_minor_version_that_it_names():
    oldest = re.search(
        r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    versions = read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    # strings: 3.10 as a number would be 3.1
    minors = [int(version.removeprefix("3.")) for version in versions]
    assert min(minors) == int(oldest[1])


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_changes_or_refuses_what_is_not_formatted(name, tmp_path):
    program, *arguments = shlex.split(HOOKS[name]["entry"])
    assert Path(program).parent == Path(".venv/bin")
    file, text = UNFORMATTED[Path(program).name]
    (tmp_path / file).write_text(text)
    installed = Path(sys.executable).parent / Path(program).name
    done = subprocess.run(
        [installed, *arguments, file], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode or (tmp_path / file).read_text() != text


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_does_what_make_does(name):
    entry = HOOKS[name]["entry"].replace(".venv/bin", "$(BIN)").split(" --")[0]
    assert entry in MAKEFILE


def test_the_hook_of_snakemake_files_sees_all_of_them():
    files = re.compile(HOOKS["snakefmt"]["files"])
    assert all(files.search(f"rules/{path.name}") for path in (ROOT / "rules").glob("*.smk"))
    assert files.search("Snakefile")


def test_the_catalogue_names_deployments_that_the_workflow_has():
    usage = read(".snakemake-workflow-catalog.yml")["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    deployments = usage["software-stack-deployment"]
    assert set(deployments) <= {"conda", "apptainer", "apptainer+conda", "report"}
    assert all(isinstance(value, bool) for value in deployments.values())
    assert not deployments["conda"] or (ROOT / "envs/trueneg.yaml").is_file()


def test_the_citation_has_the_version_and_licence_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
