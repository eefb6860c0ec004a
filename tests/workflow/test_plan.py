"""What the rules ask: every job's settings, which training goes first, and what a job on several devices asks for."""

import doctest
from types import SimpleNamespace

import pytest

from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.config import order, runs
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.store.identity import run_id
from trueneg.workflow import Plan


class Wildcards(SimpleNamespace):
    """As Snakemake hands them: by attribute, and as a mapping."""

    def keys(self):
        return vars(self).keys()

    def __getitem__(self, key):
        return vars(self)[key]


def planned(**studies):
    return Plan(load_configuration(studies, "test"))


def jobs_of(plan, name):
    """The wildcards of every training job of a study."""
    parts = (path.split("/") for path in plan.of_block("{study}/{dataset}/{objective}/{block}"))
    return [Wildcards(study=s, dataset=d, objective=o, block=b) for s, d, o, b in parts if s == name]


def test_a_job_trains_the_runs_that_the_study_expands_into():
    plan = planned(words=tiny_words(), world=tiny_world(seeds=3), tiny=tiny_study(seeds=[4, 7]))
    for name, study in plan.trained.items():
        listed = [run for wildcards in jobs_of(plan, name) for run in plan.runs(wildcards)]
        assert listed == [run.to_json() for run in runs.all_runs(name, study)]


def test_a_setting_is_found_where_a_study_has_it():
    plan = planned(words=tiny_words(), world=tiny_world(), tiny=tiny_study())
    assert plan.setting("training/batch_size")(Wildcards(study="tiny")) == 64
    assert plan.setting("")(Wildcards(study="words")) == plan.settings["words"]
    assert plan.setting("language_models/{model}/hidden")(Wildcards(study="words", model="BERT")) == 16


def test_what_takes_longer_goes_first_and_all_trainings_go_after_what_they_wait_for():
    study = tiny_study(seeds=4)
    study["training"] |= {"epochs": [1, 10, 100], "seeds_per_job": 3}
    study["conditions"] = ["epochs"]
    study["primary"]["dataset"] = "epochs=100"
    plan = planned(tiny=study)
    first = max(jobs_of(plan, "tiny"), key=plan.priority)
    assert (first.dataset, first.block) == ("epochs=100", "seed0-2")
    priorities = [plan.priority(job) for job in jobs_of(plan, "tiny")]
    assert max(priorities) == 9
    assert min(priorities) >= 1
    by_length = sorted(jobs_of(plan, "tiny"), key=plan.priority)
    assert [job.dataset for job in by_length[:6]] == ["epochs=1"] * 6


def test_a_larger_network_goes_first_across_studies():
    large = tiny_study()
    large["encoder"] = {"name": "resnet18"}
    plan = planned(small=tiny_study(), large=large)
    of_study = {name: min(map(plan.priority, jobs_of(plan, name))) for name in plan.trained}
    assert of_study["large"] > of_study["small"]


def test_every_run_of_every_kind_has_a_cost():
    plan = planned(words=tiny_words(), world=tiny_world(), tiny=tiny_study())
    for name, study in plan.trained.items():
        assert all(order.relative_cost(run.settings) > 0 for run in runs.all_runs(name, study))


def test_a_job_asks_for_all_its_devices():
    study = tiny_study()
    study["training"] |= {"gpu": 1, "devices": 2, "threads": 3}
    plan = planned(tiny=study)
    assert plan.of_devices("gpu")(Wildcards(study="tiny")) == 2
    assert plan.of_devices("threads")(Wildcards(study="tiny")) == 6


def test_devices_change_no_identity_and_must_divide_a_batch():
    study = tiny_study()
    study["training"] |= {"devices": 2}
    one, two = (
        planned(tiny=own).runs(Wildcards(study="tiny", dataset="digits", objective="CL", block="seed0-1"))
        for own in (tiny_study(), study)
    )
    assert [run_id(runs.Run(**run), "data") for run in one] == [run_id(runs.Run(**run), "data") for run in two]
    study["training"] |= {"devices": 3}
    with pytest.raises(UserError, match=r"training\.devices is 3, which cannot share batches of 64"):
        planned(tiny=study)
    study["training"] |= {"devices": 2, "compile": True}
    with pytest.raises(UserError, match=r"training\.compile is true, which several devices do not go with"):
        planned(tiny=study)


def test_the_examples_hold():
    result = doctest.testmod(order)
    assert result.attempted
    assert not result.failed
