"""Reading the workflow writes nothing, and every job has a log, a benchmark file and an
environment.

Snakemake's ``config`` then holds the resolved configuration.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.projects import ROOT, SHIPPED, Project, new_project
from tests.studies import tiny_study
from trueneg.config.reading import load_configuration, read_configuration

CONFIG, RULES = "config: ", "rules: "
SNAKEMAKE_FOLDERS = {".snakemake", "__pycache__"}
# A job with a `run` directive has its own process, which reads the workflow again.
PROBE = f"""
import json
print({CONFIG!r} + json.dumps(workflow.config))
with_script = [rule for rule in workflow.rules if rule.script]
places = lambda rule: [[*map(str, rule.log)], rule.benchmark]
facts = lambda rule: [*places(rule), rule.conda_env, rule.container_img, rule.script]
print({RULES!r} + json.dumps({{rule.name: facts(rule) for rule in with_script}}))
rule probe:
    output: "probe.json"
    run: Path(output[0]).write_text(json.dumps(config))
"""


def listing(project: Project) -> dict[Path, tuple[int, int]]:
    """Size and modification time of every file and folder, except Snakemake's and compiled
    modules.
    """
    paths = (path for path in project.path.rglob("*") if not SNAKEMAKE_FOLDERS & set(path.parts))
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def parsed(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake there with only these arguments."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    return subprocess.run(
        command,
        cwd=project.path,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def printed(project: Project, tag: str, *arguments: str) -> dict:
    """What the probe prints after a tag when the whole Snakefile has been read."""
    done = parsed(project, *arguments, "--summary")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(tag)] or [done.stderr]
    return json.loads(line.removeprefix(tag))


def config_of(project: Project, *arguments: str) -> dict:
    return printed(project, CONFIG, *arguments)


@pytest.fixture(scope="module")
def probed(tmp_path_factory) -> Project:
    """A fresh project that prints its configuration and its rules, and has a job that writes its
    own configuration.
    """
    project = new_project(tmp_path_factory.mktemp("probed") / "project")
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


def test_without_a_file_the_default_configuration_is_resolved(probed):
    assert config_of(probed) == read_configuration([probed.path / "config/config.yaml"]).resolved()


def test_given_files_replace_the_default_and_are_resolved(probed):
    resolved = config_of(probed, "--configfile", "study.yaml")
    assert resolved.keys() == {"tiny", "resources"}
    assert resolved["tiny"]["training"]["batch_size"] == 64
    assert resolved["tiny"]["training"]["learning_rate"] == tiny_model().training.learning_rate


def test_overrides_of_the_command_line_are_resolved(probed):
    changes = ("--config", 'tiny={"training": {"epochs": 7}}')
    resolved = config_of(probed, "--configfile", "study.yaml", *changes)
    assert resolved["tiny"]["training"] == tiny_model().model_dump(mode="json")["training"] | {
        "epochs": 7
    }
    of_default = config_of(probed, "--config", 'digits={"training": {"epochs": 7}}')
    assert of_default["digits"]["training"]["epochs"] == 7
    assert len(of_default) > 2


def test_files_that_extend_the_same_paper_are_combined_and_an_override_drops_an_objective(probed):
    files = [probed.path / f"config/studies/{name}.yaml" for name in ("cifar10", "mimic_cxr")]
    overrides = ("--config", 'cifar10={"objectives": {"HCL": null}}')
    resolved = config_of(probed, "--configfile", *map(str, files), *overrides)
    apart = [read_configuration([file]).resolved() for file in files]
    del apart[0]["cifar10"]["objectives"]["HCL"]
    assert resolved == apart[0] | apart[1]


def test_files_and_overrides_that_replace_the_configuration_are_merged_in_the_same_way(probed):
    (probed.path / "longer.yaml").write_text(
        yaml.safe_dump({"extends": "study.yaml", "tiny": {"seeds": 3}})
    )
    resolved = config_of(probed, "--configfile", "longer.yaml", "--replace-workflow-config")
    assert resolved == config_of(probed, "--configfile", "longer.yaml")
    only = f"tiny={json.dumps(tiny_study())}"
    assert config_of(probed, "--replace-workflow-config", "--config", only) == config_of(
        probed, "--configfile", "study.yaml"
    )


def test_a_job_in_a_process_of_its_own_sees_the_same_configuration(probed):
    (probed.path / "longer.yaml").write_text(
        yaml.safe_dump({"extends": "study.yaml", "tiny": {"seeds": 3}})
    )
    arguments = ("--configfile", "longer.yaml", "--config", 'tiny={"training": {"epochs": 7}}')
    assert config_of(probed, *arguments)["tiny"]["seeds"] == 3
    assert parsed(probed, *arguments, "--force", "probe").returncode == 0
    assert json.loads((probed.path / "probe.json").read_text()) == config_of(probed, *arguments)


def tiny_model():
    return load_configuration({"tiny": tiny_study()}, "test").studies["tiny"]


def test_a_resolved_configuration_given_as_a_file_resolves_to_itself(probed):
    resolved = config_of(probed, "--configfile", "study.yaml")
    (probed.path / "again.yaml").write_text(yaml.safe_dump(resolved))
    assert config_of(probed, "--configfile", "again.yaml") == resolved


@pytest.mark.parametrize("file", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_configuration_resolves_to_itself(file):
    configuration = read_configuration([file])
    assert load_configuration(configuration.resolved(), "resolved") == configuration


def test_a_figure_that_the_study_does_not_have_is_refused_before_anything_runs(probed):
    done = parsed(
        probed,
        "--configfile",
        "study.yaml",
        "--dry-run",
        "results/tiny/figures/embedding_by_seed.png",
    )
    assert done.returncode
    assert "embedding_by_seed" in done.stdout + done.stderr


def test_every_rule_has_its_own_log_and_benchmark_file_and_only_score_shares_its_script(probed):
    rules = printed(probed, RULES, "--configfile", "study.yaml")
    assert {"source", "human_ratings", "score_shard", "draw_tiny", "page"} < rules.keys()
    for name, (logs, benchmark, *_) in rules.items():
        (log,) = logs
        folder, _, place = log.removesuffix(".log").partition("/logs/")
        assert place.split("/")[0] == name
        assert benchmark == f"{folder}/timings/{place}.jsonl"
    scripts = [script for name, (*_, script) in rules.items() if name != "score_shard"]
    assert len(set(scripts)) == len(scripts)


def test_no_script_asks_which_rule_runs_it():
    scripts = sorted((ROOT / "workflow/scripts").glob("*.py"))
    assert scripts
    assert [path.name for path in scripts if "snakemake.rule" in path.read_text()] == []


def test_every_rule_has_an_image_and_an_environment_with_this_package(probed):
    rules = printed(probed, RULES, "--configfile", "study.yaml").values()
    ((environment, image),) = {(environment, image) for _, _, environment, image, _ in rules}
    assert image == "trueneg.sif"
    path = probed.path / "rules" / environment
    dependencies = yaml.safe_load(path.read_text())["dependencies"]
    assert {"pip", "python"} <= {dependency.split()[0] for dependency in dependencies}
    installed = path.with_suffix(".post-deploy.sh").read_text()
    (extras,) = re.findall(
        r"pip install --constraint envs/constraints.txt --editable '\.\[(.*)\]'", installed
    )
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"pipeline"} <= set(extras.split(",")) <= known.keys()
