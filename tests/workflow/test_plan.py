"""What jobs are handed: their runs, which training goes first, and what a job asks for."""

import doctest
import re

import pytest

from tests.projects import new_project
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.config import order, runs
from trueneg.config.expansion import Expansion
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.specs.resources import RESOURCES
from trueneg.store.identity import run_id


def expanded(**studies):
    """Those that train, by name."""
    found = load_configuration(studies, "test").studies
    return {name: Expansion(name, study) for name, study in found.items() if hasattr(study, "objectives")}


def jobs_of(expansion):
    """Data set, objective and block of every training job."""
    return [tuple(path.split("/")) for path in expansion.paths("{dataset}/{objective}/{block}")]


def test_a_job_trains_the_runs_that_the_study_expands_into():
    studies = {"words": tiny_words(), "world": tiny_world(seeds=3), "tiny": tiny_study(seeds=[4, 7])}
    for name, expansion in expanded(**studies).items():
        listed = [run for job in jobs_of(expansion) for run in expansion.runs(*job)]
        study = load_configuration(studies, "test").studies[name]
        assert listed == [run.to_json() for run in runs.all_runs(name, study)]


def test_what_takes_longer_costs_more():
    study = tiny_study(seeds=4)
    study["training"] |= {"epochs": [1, 10, 100], "seeds_per_job": 3}
    study["conditions"] = ["epochs"]
    study["primary"]["dataset"] = "epochs=100"
    tiny = expanded(tiny=study)["tiny"]
    by_cost = sorted(jobs_of(tiny), key=lambda job: tiny.cost(*job))
    assert by_cost[-1][::2] == ("epochs=100", "seed0-2")
    assert [job[0] for job in by_cost[:6]] == ["epochs=1"] * 6
    assert tiny.cost(*by_cost[-1]) == tiny.longest


def test_a_larger_network_costs_more():
    large = tiny_study()
    large["encoder"] = {"name": "resnet18"}
    by_study = expanded(small=tiny_study(), large=large)
    assert by_study["large"].longest > by_study["small"].longest


def test_every_run_of_every_kind_has_a_cost():
    for expansion in expanded(words=tiny_words(), world=tiny_world(), tiny=tiny_study()).values():
        assert all(expansion.cost(*job) > 0 for job in jobs_of(expansion))


def test_jobs_ask_for_what_the_configuration_says(tmp_path):
    """All devices of a training, the longest training first, and memory and time of the steps that no study configures."""
    project = new_project(tmp_path / "project")
    study = tiny_study(seeds=1)
    study["training"] |= {"gpu": 1, "devices": 2, "threads": 1, "mem_mb": 700, "epochs": [1, 20]}
    study["conditions"], study["primary"]["dataset"] = ["epochs"], "epochs=20"
    project.configure(tiny=study, resources={"source": {"mem_mb": 321}})
    planned = project.snakemake("models", "--dry-run").stdout
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)+)", planned, flags=re.MULTILINE)
    trainings = [body for rule, body in blocks if rule == "train"]
    for body in trainings:
        assert "threads: 2" in body
        assert "gpu=2" in body
        assert "mem_mb=700" in body
    longest = {float(re.search(r"priority: (\S+)", body)[1]) for body in trainings if "epochs=20" in body}
    shortest = {float(re.search(r"priority: (\S+)", body)[1]) for body in trainings if "epochs=1/" in body}
    assert longest == {9.0}
    assert max(shortest) < 9
    (source,) = (body for rule, body in blocks if rule == "source")
    assert "mem_mb=321" in source
    assert f"runtime={RESOURCES['source'].runtime}" in source
    assert "priority: 10" in source


def test_resources_of_a_rule_that_does_not_exist_are_refused():
    with pytest.raises(UserError, match=r"resources\.sauce.* source"):
        load_configuration({"tiny": tiny_study(), "resources": {"sauce": {"mem_mb": 1}}}, "test")


def test_devices_change_no_identity_and_must_divide_a_batch():
    study = tiny_study()
    study["training"] |= {"devices": 2}
    one, two = (expanded(tiny=own)["tiny"].runs("digits", "CL", "seed0-1") for own in (tiny_study(), study))
    assert [run_id(runs.Run(**run), "data") for run in one] == [run_id(runs.Run(**run), "data") for run in two]
    study["training"] |= {"devices": 3}
    with pytest.raises(UserError, match=r"training\.devices is 3, .* batches of 64"):
        expanded(tiny=study)
    study["training"] |= {"devices": 2, "compile": True}
    with pytest.raises(UserError, match=r"training\.compile is true, expected false where several devices"):
        expanded(tiny=study)


def test_the_examples_hold():
    result = doctest.testmod(order)
    assert result.attempted
    assert not result.failed
