"""A study expands into runs; a run's id depends only on settings that affect its result, the data
and the seed.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies import tiny_study
from trueneg.config import runs
from trueneg.config.reading import load_configuration
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.sources import data_name
from trueneg.store.identity import run_id


def study_of(**changes):
    study = tiny_study(**{"sweeps": "one at a time"} | changes)
    return load_configuration({"tiny": study}, "test").studies["tiny"]


def with_training(**changes):
    return study_of(training=tiny_study()["training"] | changes)


def identifiers(study, name="tiny"):
    return [run_id(run, "checksum") for run in runs.all_runs(name, study)]


def test_lists_are_sweeps_and_labels_contain_the_swept_values():
    dataset = tiny_study()["dataset"] | {"fraction": [0.1, 0.5], "resolution": [8, 16]}
    objectives = tiny_study()["objectives"] | {
        "DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}
    }
    primary = tiny_study()["primary"] | {"dataset": "resolution=8,fraction=0.1"}
    study = study_of(dataset=dataset, objectives=objectives, primary=primary)
    assert list(runs.datasets(study)) == [
        f"resolution={size},fraction={share}" for size in (8, 16) for share in (0.1, 0.5)
    ]
    assert list(runs.objectives(study)) == [
        "CL",
        "DCL-true",
        "Oracle",
        "DCL,class_probability=0.05",
        "DCL,class_probability=0.1",
    ]
    labelled = {
        f"DCL,class_probability={eta}": f'{{"class_probability":{eta}}}' for eta in (0.05, 0.1)
    }
    assert runs.several(study) == {"DCL": labelled}
    jobs = {(job.dataset, job.objective): job for job in runs.jobs("tiny", study)}
    assert jobs["resolution=8,fraction=0.5", "DCL,class_probability=0.1"].row_names == {
        "study": "tiny",
        "dataset": "resolution=8,fraction=0.5",
        "condition": '{"fraction":0.5,"resolution":8}',
        "objective": "DCL",
        "variant": '{"class_probability":0.1}',
    }
    assert len(set(identifiers(study))) == len(identifiers(study)) == 4 * 5 * 2


def test_sweeps_one_at_a_time_change_a_single_setting_of_the_base():
    objectives = tiny_study()["objectives"] | {
        "DCL": {"name": "dcl", "class_probability": [0.1, 0.05, 0.2]}
    }
    training = tiny_study()["training"] | {"temperature": [0.5, 0.1], "batch_size": [64, 32]}
    study = study_of(objectives=objectives, training=training)
    base = {"batch_size": 64, "class_probability": 0.1, "temperature": 0.5}
    changes = [
        {},
        {"batch_size": 32},
        {"temperature": 0.1},
        {"class_probability": 0.05},
        {"class_probability": 0.2},
    ]
    variants = runs.variants(study)
    assert sorted(map(json.loads, variants["DCL"].values()), key=str) == sorted(
        [base | change for change in changes], key=str
    )
    assert len(variants["CL"]) == 3
    assert json.loads(next(iter(variants["DCL"].values()))) == base
    assert runs.families(study) == {}
    ids = identifiers(study)
    assert len(set(ids)) == len(ids) == 2 * (3 + 3 + 3 + 5)
    combined = ImageStudy.model_validate(tiny_study(objectives=objectives, training=training))
    assert set(ids) < set(identifiers(combined))


def test_a_sweep_of_training_creates_variants_of_every_objective():
    study = with_training(temperature=[0.2, 0.5])
    assert list(runs.objectives(study))[:2] == ["CL,temperature=0.2", "CL,temperature=0.5"]
    settings_of = {
        run.objective: run.settings["training"]["temperature"]
        for run in runs.all_runs("tiny", study)
    }
    assert settings_of["CL,temperature=0.2"] == 0.2


@pytest.mark.parametrize(
    "change",
    [{"threads": 2}, {"device": "auto"}, {"mem_mb": 1}, {"seeds_per_job": 1}, {"compile": True}],
)
def test_technical_settings_do_not_change_the_id(change):
    assert identifiers(with_training(**change)) == identifiers(study_of())


@pytest.mark.parametrize(
    "change", [{"epochs": 2}, {"batch_size": 32}, {"temperature": 0.4}, {"learning_rate": 0.01}]
)
def test_settings_that_affect_the_result_change_every_id(change):
    assert not set(identifiers(with_training(**change))) & set(identifiers(study_of()))


def test_the_id_depends_neither_on_the_study_nor_on_stated_defaults():
    assert identifiers(study_of(), name="other") == identifiers(study_of())
    assert identifiers(with_training(schedule="constant", weight_decay=1e-6)) == identifiers(
        study_of()
    )
    objectives = tiny_study()["objectives"] | {"CL": {"name": "cl", "temperature": 0.3}}
    # of CL
    assert (
        identifiers(study_of(objectives=objectives))[0]
        == identifiers(with_training(temperature=0.3))[0]
    )


def test_data_and_seed_change_the_id():
    first, second = runs.all_runs("tiny", study_of())[:2]
    assert first.seed != second.seed
    assert len({run_id(first, "a"), run_id(first, "b"), run_id(second, "a")}) == 3


@given(count=st.integers(1, 40), size=st.integers(1, 10))
@settings(max_examples=50, deadline=None)
def test_blocks_partition_the_seeds_and_a_larger_study_keeps_its_full_blocks(count, size):
    training = tiny_study()["training"] | {"seeds_per_job": size}
    blocks = runs.blocks(study_of(seeds=count, training=training))
    assert [seed for block in blocks.values() for seed in block] == list(range(count))
    grown = runs.blocks(study_of(seeds=count + 3, training=training))
    assert all(grown[name] == block for name, block in blocks.items() if len(block) == size)


def test_runs_survive_a_round_trip_through_json():
    run = runs.all_runs("tiny", study_of())[0]
    assert runs.Run(**json.loads(json.dumps(run.to_json()))) == run


def with_batch_sizes(*sizes, **changes):
    primary = tiny_study()["primary"] | {"dataset": f"batch_size={sizes[0]}"}
    training = tiny_study()["training"] | {"batch_size": list(sizes)} | changes
    return study_of(training=training, conditions=["batch_size"], primary=primary)


def test_conditions_are_data_sets_and_not_candidates_for_selection():
    study = with_batch_sizes(32, 64, learning_rate=[0.001, 0.01])
    assert list(runs.datasets(study)) == ["batch_size=32", "batch_size=64"]
    assert list(runs.variants(study)["CL"]) == ["CL,learning_rate=0.001", "CL,learning_rate=0.01"]
    assert runs.negative_counts(study) == {"batch_size=32": 62, "batch_size=64": 126}
    used = {
        (run.dataset, run.objective): run.settings["training"]
        for run in runs.all_runs("tiny", study)
    }
    assert used["batch_size=32", "CL,learning_rate=0.01"]["batch_size"] == 32
    assert used["batch_size=64", "CL,learning_rate=0.001"]["learning_rate"] == 0.001


def test_a_condition_does_not_change_the_id():
    assert set(identifiers(study_of())) < set(identifiers(with_batch_sizes(64, 32)))


def test_own_images_are_named_after_their_folder():
    dataset = {"source": "image_folder", "path": "data/flowers", "test": 0.25}
    assert list(runs.datasets(study_of(dataset=dataset))) == ["flowers"]
    for path in (".", "..", "/"):
        assert data_name("parquet", path) == "parquet"
