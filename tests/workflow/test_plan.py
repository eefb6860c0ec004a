"""Runs, priorities and resources of jobs."""

import re
from types import SimpleNamespace

import pytest

from tests.projects import new_project
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.config import order, runs
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.specs.resources import RESOURCES
from trueneg.store.identity import run_id


def jobs_of(**studies):
    """The parameters of training jobs, and the wildcards of each job."""
    trainings = TrainingJobs(load_configuration(studies, "test"))
    paths = trainings.each_block("{study}/{dataset}/{objective}/{block}")
    names = ("study", "dataset", "objective", "block")
    return trainings, [
        SimpleNamespace(**dict(zip(names, path.split("/"), strict=True))) for path in paths
    ]


def test_jobs_train_all_runs_of_their_study():
    studies = {
        "words": tiny_words(),
        "world": tiny_world(seeds=3),
        "tiny": tiny_study(seeds=[4, 7]),
    }
    trainings, jobs = jobs_of(**studies)
    for name, study in trainings.studies.items():
        listed = [run for job in jobs if job.study == name for run in trainings.runs(job)]
        assert listed == [run.to_json() for run in runs.all_runs(name, study)]


def test_longer_jobs_have_higher_priorities():
    study = tiny_study(seeds=4)
    study["training"] |= {"epochs": [1, 10, 100], "seeds_per_job": 3}
    study["conditions"] = ["epochs"]
    study["primary"]["dataset"] = "epochs=100"
    trainings, jobs = jobs_of(tiny=study)
    by_priority = sorted(jobs, key=trainings.longest_first)
    assert (by_priority[-1].dataset, by_priority[-1].block) == ("epochs=100", "seed0-2")
    assert [job.dataset for job in by_priority[:6]] == ["epochs=1"] * 6
    assert trainings.longest_first(by_priority[-1]) == 9


def test_larger_networks_have_higher_priorities():
    trainings, jobs = jobs_of(small=tiny_study(), large=tiny_study(encoder={"name": "resnet18"}))
    assert [job.study for job in sorted(jobs, key=trainings.longest_first)] == ["small"] * 3 + [
        "large"
    ] * 3


def test_every_kind_of_run_has_a_cost():
    trainings, jobs = jobs_of(words=tiny_words(), world=tiny_world(), tiny=tiny_study())
    assert {job.study for job in jobs} == {"world", "tiny"}
    assert all(
        order.relative_cost(run["settings"]) > 0 for job in jobs for run in trainings.runs(job)
    )


def test_jobs_request_the_configured_resources(tmp_path):
    """GPUs and threads of all devices of a training job, its priority, and resources of a rule that
    no study configures.
    """
    project = new_project(tmp_path / "project")
    study = tiny_study(seeds=1)
    study["training"] |= {
        "device": "auto",
        "devices": 2,
        "threads": 1,
        "mem_mb": 700,
        "epochs": [1, 20],
    }
    study["conditions"], study["primary"]["dataset"] = ["epochs"], "epochs=20"
    project.configure(tiny=study, resources={"source": {"mem_mb": 321}})
    planned = project.snakemake("models", "--dry-run").stdout
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)+)", planned, flags=re.MULTILINE)
    trainings = [body for rule, body in blocks if rule == "train"]
    for body in trainings:
        assert "threads: 2" in body
        assert "gpu=2" in body
        assert "mem_mb=700" in body
    longest = {
        float(re.search(r"priority: (\S+)", body)[1]) for body in trainings if "epochs=20" in body
    }
    shortest = {
        float(re.search(r"priority: (\S+)", body)[1]) for body in trainings if "epochs=1/" in body
    }
    assert longest == {9.0}
    assert max(shortest) < 9
    (source,) = (body for rule, body in blocks if rule == "source")
    assert "mem_mb=321" in source
    assert f"runtime={RESOURCES['source'].runtime}" in source
    assert "priority: 10" in source


def test_resources_of_an_unknown_rule_are_rejected():
    with pytest.raises(UserError, match=r"resources\.sauce .* source"):
        load_configuration({"tiny": tiny_study(), "resources": {"sauce": {"mem_mb": 1}}}, "test")


def test_devices_do_not_change_the_id_and_must_divide_a_batch():
    study = tiny_study()
    study["training"] |= {"devices": 2}
    models = [
        load_configuration({"tiny": settings}, "test").studies["tiny"]
        for settings in (tiny_study(), study)
    ]
    one, two = ([run_id(run, "data") for run in runs.all_runs("tiny", model)] for model in models)
    assert one == two
    study["training"] |= {"devices": 3}
    with pytest.raises(UserError, match=r"training\.devices is 3, .*batches of 64"):
        load_configuration({"tiny": study}, "test")
    study["training"] |= {"devices": 2, "compile": True}
    with pytest.raises(UserError, match=r"training\.compile is true.* 2 devices.* false"):
        load_configuration({"tiny": study}, "test")
