"""A job that may use a GPU requests one from Snakemake, and a job without a request has the CPU as
its device.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
import yaml

from tests.projects import ROOT, SHIPPED
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.specs.objectives.released import NOT_TRAINED

# Plans the studies of some files and prints each job: its rule, wildcards, requested GPUs,
# parameters and script.
PLAN = """
import json, os, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings
gres, *files = sys.argv[1:]
os.environ["TRUENEG_GRES"] = gres
with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    configuration = ConfigSettings(configfiles=[Path(file) for file in files])
    workflow = api.workflow(ResourceSettings(cores=1), configuration, snakefile=Path("Snakefile"))
    workflow.dag().execute_workflow(executor="dryrun")
    for job in workflow._workflow.dag.jobs:
        requested = {name: job.resources.get(name) for name in ("gpu", "gres")}
        script = job.rule.script and str(job.rule.script)
        print(json.dumps([job.rule.name, dict(job.wildcards), requested, dict(job.params), script]))
"""
NOT_TRAINED_HERE = ("released", "note")  # objective and language model of the study below


def planned(*files: Path, gres: str = "") -> list[tuple]:
    """The jobs of a dry run."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", PLAN, gres, *map(str, files)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


def device_of(rule: str, parameters: dict) -> str:
    """The device that a job leases."""
    if rule == "train":
        runs = parameters["runs"]
        if isinstance(runs, dict):  # of a tuned study, by candidate
            runs = next(iter(runs["choices"].values()))["runs"]
        settings = runs[0]["settings"]
        return (
            "none"
            if settings["objective"]["name"] in NOT_TRAINED
            else settings["training"]["device"]
        )
    if rule == "language_model" and not parameters["settings"]["train"]:
        return "none"
    return parameters.get("device") or parameters["settings"]["device"]


@pytest.fixture(scope="module")
def studies(tmp_path_factory) -> Path:
    """A study on the CPU, and two that use GPUs; some of their jobs only gather results."""
    words, clip = (
        tiny_words(),
        {"name": "open_clip", "model": "RN50-quickgelu", "weights": "openai"},
    )
    (model,) = words["language_models"].values()
    words["language_models"] = {
        "BERT": model | {"device": "auto"},
        "note": {"model": "models/bert", "train": False},
    }
    words["scoring"] = {"device": "cuda", "shards": 2}
    world = tiny_world(dataset=tiny_world()["dataset"] | {"resolution": 64})
    world["objectives"]["released"] = {"name": "released", "encoder": clip, "text_encoder": clip}
    world["training"] |= {"device": "auto", "devices": 2}
    path = tmp_path_factory.mktemp("gpus") / "study.yaml"
    path.write_text(yaml.safe_dump({"words": words, "world": world, "tiny": tiny_study()}))
    return path


@pytest.fixture(scope="module")
def jobs(studies) -> list[tuple]:
    return planned(studies)


def test_only_jobs_that_may_use_a_gpu_request_one(jobs):
    asked: dict[tuple, set] = {}
    for rule, wildcards, resources, _, _ in jobs:
        key = (
            rule,
            wildcards.get("study"),
            *(value for value in wildcards.values() if value in NOT_TRAINED_HERE),
        )
        asked.setdefault(key, set()).add(resources["gpu"])
    assert {key: gpus for key, gpus in asked.items() if gpus != {None}} == {
        ("train", "tiny"): {0},
        ("evaluate", "tiny"): {0},
        ("train", "world"): {2},
        ("train", "world", "released"): {0},
        ("evaluate", "world"): {1},
        ("evaluate", "world", "released"): {1},
        ("pair_pictures", "world"): {1},
        ("retrieval_examples", "world"): {1},
        ("language_model", "words"): {1},
        ("language_model", "words", "note"): {0},
        ("score_shard", "words"): {1},
        ("score_shard", "words", "note"): {1},
        ("score", "words"): {0},
        ("score", "words", "note"): {0},
    }


def test_scripts_of_rules_without_gpus_cannot_lease_one(jobs):
    scripts = {
        Path(script).name: resources["gpu"] is not None
        for _, _, resources, _, script in jobs
        if script
    }
    assert set(scripts.values()) == {True, False}
    imports = grimp.build_graph("trueneg")
    for script, asks in scripts.items():
        tree = ast.parse((ROOT / "workflow/scripts" / script).read_text())
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        reached = set().union(
            imported,
            *(imports.find_upstream_modules(name) for name in imported if name in imports.modules),
        )
        assert ("trueneg.runtime.devices" in reached) == asks, script


@pytest.mark.long
def test_gpus_can_be_requested_as_gres(studies):
    jobs = planned(studies, gres="gpu:a100")
    asked = {
        (rule, wildcards.get("study"), *resources.values())
        for rule, wildcards, resources, *_ in jobs
    }
    assert {
        ("train", "world", None, "gpu:a100:2"),
        ("score_shard", "words", None, "gpu:a100:1"),
    } < asked
    assert {
        ("train", "tiny", None, None),
        ("score", "words", None, None),
        ("subsets", "tiny", None, None),
    } < asked
    assert all(gpu is None for _, _, gpu, _ in asked)


@pytest.mark.long
def test_shipped_jobs_request_a_gpu_unless_their_device_is_the_cpu():
    jobs = planned(*SHIPPED)
    on_device = [
        (rule, asked["gpu"], given) for rule, _, asked, given, _ in jobs if asked["gpu"] is not None
    ]
    found = {(gpus > 0, device_of(rule, given)) for rule, gpus, given in on_device}
    assert found == {(True, "auto"), (False, "cpu"), (False, "none")}
