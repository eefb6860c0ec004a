"""A run's id: changed defaults change it, new keys do not, and reuse compares the settings."""

import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.projects import Project, new_project
from tests.studies import first_run, tiny_study, tiny_words, tiny_world
from trueneg.config import runs
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.specs.kinds import TRAINED
from trueneg.specs.kinds.likelihood import LanguageModelSettings
from trueneg.specs.settings import is_technical, models_within
from trueneg.store import identity
from trueneg.store.run_files import with_further

TRAINING_KEY = "    temperature: Sweepable[Positive] = 0.5\n"
IDS = """
import json, sys, yaml
from trueneg.store import identity
from trueneg.config import runs
from trueneg.config.reading import load_configuration
study = load_configuration({"tiny": yaml.safe_load(sys.stdin)}, "test").studies["tiny"]
print(json.dumps([identity.run_id(run, "data") for run in runs.all_runs("tiny", study)]))
"""


def recorded(**training) -> dict:
    """Return the settings of a run as they are recorded."""
    study = tiny_study(training=tiny_study()["training"] | training)
    first, *_ = runs.all_runs("tiny", load_configuration({"tiny": study}, "test").studies["tiny"])
    return copy.deepcopy(dict(first.settings))


def ids(project: Project, **training) -> list[str]:
    """Ids of a study's runs, from a copy of the package."""
    study = tiny_study(training=tiny_study()["training"] | training)
    environment = {"PYTHONPATH": str(project.path / "src"), "PATH": ""}
    command = [sys.executable, "-c", IDS]
    done = subprocess.run(
        command,
        input=yaml.safe_dump(study),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def edit(project: Project, file: str, old: str, new: str) -> None:
    path = project.path / "src/trueneg" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_changed_default_changes_only_the_ids_of_studies_that_do_not_set_the_key(tmp_path):
    project = new_project(tmp_path / "project")
    default, old, new = (
        ids(project),
        ids(project, learning_rate=1e-3),
        ids(project, learning_rate=3e-4),
    )
    assert default == old
    field = "learning_rate: Sweepable[Positive] = {}\n"
    edit(project, "specs/kinds/images.py", field.format("1e-3"), field.format("3e-4"))
    assert ids(project) == new
    assert not set(new) & set(old)
    assert ids(project, learning_rate=1e-3) == old


def test_a_new_key_with_a_frozen_value_changes_no_id_until_it_gets_another_value(tmp_path):
    project = new_project(tmp_path / "project")
    before = ids(project)
    new_key = "    momentum: NonNegative = 0.9\n"
    edit(project, "specs/kinds/images.py", TRAINING_KEY, new_key + TRAINING_KEY)
    unlisted = ids(project)
    assert not set(unlisted) & set(before)
    edit(
        project,
        "store/frozen.yaml",
        "    temperature: 0.5\n",
        "    temperature: 0.5\n    momentum: 0.9\n",
    )
    assert ids(project) == before
    assert not set(ids(project, momentum=0.5)) & set(before)


def listed(values: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from listed(value, (*path, key))
        else:
            yield (*path, key), value


def test_frozen_values_are_those_that_were_committed():
    """A changed value would orphan runs or reuse runs with other settings. Add new entries to both
    files.
    """
    committed = yaml.safe_load((Path(__file__).parent / "frozen.yaml").read_text())
    assert dict(listed(identity.frozen())) == dict(listed(committed))


@pytest.mark.parametrize("kind", TRAINED)
def test_each_key_of_a_listed_section_has_a_frozen_value(kind):
    study, missing = TRAINED[kind], []
    for section in ("dataset", *study.SECTIONS, "objective"):
        for model in models_within(
            study.model_fields["objectives" if section == "objective" else section].annotation
        ):
            tag = next(
                (
                    model.model_fields[key].annotation
                    for key in ("name", "source")
                    if key in model.model_fields
                ),
                None,
            )
            name, *_ = getattr(tag, "__args__", (None,))
            frozen = identity.frozen()[kind][section]
            if isinstance(name, str) and any(isinstance(value, dict) for value in frozen.values()):
                frozen = frozen.get(name)  # a new name has all of its keys in its ids
            for key, field in model.model_fields.items():
                if (
                    frozen is not None
                    and not field.is_required()
                    and not is_technical(field)
                    and key not in frozen
                ):
                    missing.append(f"{section}.{key} of {model.__name__}")
    assert missing == [], (
        "list them in src/trueneg/store/frozen.yaml and tests/store/frozen.yaml; else earlier runs"
        " lose their ids"
    )


def models_inside(model: type) -> Iterator[type]:
    """The models of settings within a model's settings, such as schedules."""
    for field in model.model_fields.values():
        for inner in () if is_technical(field) else models_within(field.annotation):
            yield inner
            yield from models_inside(inner)


def test_each_key_of_nested_settings_and_of_language_models_is_listed():
    expected = {
        ("language_models", key)
        for key, field in LanguageModelSettings.model_fields.items()
        if not is_technical(field)
    }
    for study in TRAINED.values():
        for section in ("dataset", *study.SECTIONS, "objectives"):
            for outer in models_within(study.model_fields[section].annotation):
                for model in models_inside(outer):
                    key = next(
                        (key for key in ("schedule", "name") if key in model.model_fields), None
                    )
                    fields = model.model_fields.items()
                    stated = [
                        key
                        for key, field in fields
                        if not (field.is_required() or is_technical(field))
                    ]
                    tags = ("None",) if key is None else model.model_fields[key].annotation.__args__
                    names = tags if stated else ()  # without defaults, nothing to list
                    expected |= {(name, key) for name in names for key in stated}
    frozen = identity.frozen()["nested"] | identity.frozen()["likelihood"]
    assert {("adjusted", "every"), ("language_models", "hidden")} < expected
    assert expected <= {(name, key) for name, values in frozen.items() for key in values}


def test_a_new_key_of_a_schedule_changes_no_id_at_its_frozen_value(monkeypatch):
    schedule = {"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.05}
    older, newer = recorded(), recorded()
    older["objective"] = {"name": "hcl", "class_probability": 0.1, "beta": schedule}
    newer["objective"] = {"name": "hcl", "class_probability": 0.1, "beta": schedule | {"delay": 0}}
    assert identity.identity(older) != identity.identity(newer)
    frozen = copy.deepcopy(identity.frozen())
    frozen["nested"]["linear"]["delay"] = 0
    monkeypatch.setattr(identity, "frozen", lambda: frozen)
    assert identity.identity(older) == identity.identity(newer)


def test_a_record_without_a_key_counts_as_its_frozen_value():
    older = recorded()
    del older["training"]["schedule"]
    identity.refuse_other_settings(Path("run.json"), older, recorded())
    with pytest.raises(UserError, match=r"run\.json.*training\.schedule.*\"constant\".*\"cosine\""):
        identity.refuse_other_settings(Path("run.json"), older, recorded(schedule="cosine"))


def test_a_key_that_no_longer_exists_is_compared_as_recorded(monkeypatch):
    older = recorded()
    older["training"]["momentum"] = 0.9
    with pytest.raises(UserError, match=r"training\.momentum.*0\.9"):
        identity.refuse_other_settings(Path("run.json"), older, recorded())
    frozen = copy.deepcopy(identity.frozen())
    frozen["images"]["training"]["momentum"] = 0.9
    monkeypatch.setattr(identity, "frozen", lambda: frozen)
    identity.refuse_other_settings(Path("run.json"), older, recorded())


@pytest.mark.parametrize(
    ("section", "key"), [("similarity", "learned_maps"), ("training", "chunks")]
)
def test_a_record_with_a_removed_setting_at_its_frozen_value_keeps_its_id(section, key):
    study = load_configuration({"words": tiny_words(), "world": tiny_world()}, "test").studies[
        "world"
    ]
    run, *_ = runs.all_runs("world", study)
    older = copy.deepcopy(dict(run.settings))
    assert key not in older[section]
    older[section][key] = identity.frozen()["image-text"][section][key]
    assert identity.run_id(dataclasses.replace(run, settings=older), "data") == identity.run_id(
        run, "data"
    )
    identity.refuse_other_settings(Path("run.json"), older, run.settings)


def test_a_record_of_dcl_with_the_removed_smooth_bound_keeps_its_id_at_the_default():
    run = first_run("world", {"words": tiny_words(), "world": tiny_world()}, "DCL-LM")
    older = copy.deepcopy(dict(run.settings))
    assert "smooth_bound" not in older["objective"]
    older["objective"]["smooth_bound"] = False
    assert identity.run_id(dataclasses.replace(run, settings=older), "data") == identity.run_id(
        run, "data"
    )
    older["objective"]["smooth_bound"] = True
    assert identity.run_id(dataclasses.replace(run, settings=older), "data") != identity.run_id(
        run, "data"
    )


def test_a_record_with_a_removed_setting_that_was_in_every_id_keeps_its_id():
    older, newer = recorded(), recorded()
    older["objective"] = {"name": "guided", "margin": 0.1, "strategy": "absolute", "guide": None}
    newer["objective"] = {"name": "guided", "margin": 0.1, "guide": None}
    assert identity.identity(older) == identity.identity(newer)
    assert identity.identity(newer)["objective"]["strategy"] == "absolute"
    older["objective"]["strategy"] = "relative"
    assert identity.identity(older) != identity.identity(newer)


@pytest.mark.parametrize("guide", [{"name": "self"}, {"name": "ema", "momentum": 0.99}])
def test_a_record_with_a_removed_key_of_a_nested_setting_keeps_its_id(guide):
    older, newer = recorded(), recorded()
    older["objective"] = {"name": "guided", "guide": guide | {"support_views": 0}}
    newer["objective"] = {"name": "guided", "guide": guide}
    assert identity.identity(older) == identity.identity(newer)
    # as in the ids of earlier runs
    assert identity.identity(newer)["objective"]["guide"]["support_views"] == 0
    older["objective"]["guide"]["support_views"] = 2
    assert identity.identity(older) != identity.identity(newer)


def test_technical_settings_are_not_compared():
    older = recorded(threads=2, mem_mb=9000)
    identity.refuse_other_settings(Path("run.json"), older, recorded())


def test_the_temperature_of_the_objective_equals_that_of_the_training():
    older = recorded()
    older["objective"]["temperature"] = 0.2
    identity.refuse_other_settings(Path("run.json"), older, recorded(temperature=0.2))
    with pytest.raises(UserError, match=r"training\.temperature.*0\.2.*0\.5"):
        identity.refuse_other_settings(Path("run.json"), older, recorded())


def test_ids_are_those_of_earlier_releases():
    """Other ids would orphan all runs that users have trained."""
    first, *_ = runs.all_runs(
        "tiny", load_configuration({"tiny": tiny_study()}, "test").studies["tiny"]
    )
    studies = load_configuration({"words": tiny_words(), "world": tiny_world()}, "test").studies
    pairs, *_ = runs.all_runs("world", studies["world"])
    assert [identity.run_id(run, "data") for run in (first, pairs)] == [
        "6c0f0b47b78c",
        "eb27f7bb2ee5",
    ]


def test_the_order_in_which_towers_are_named_does_not_change_an_id():
    towers = {"text_encoder": "a", "guide text_encoder": "b", "miner": "c"}
    other = {"text_encoder": "a", "miner": "c", "guide text_encoder": "b"}
    first, second = (identity.with_inputs("data", weights, None) for weights in (towers, other))
    assert first == second == with_further("data", {f"{key} weights": other[key] for key in other})
