"""A study expands into runs; a run's id depends only on settings that affect its result, the data and the seed."""

import json
import multiprocessing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies import tiny_study
from trueneg.config import runs
from trueneg.config.reading import load_configuration
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, file_checksum
from trueneg.specs.sources import data_name
from trueneg.store.identity import run_id
from trueneg.store.run_store import RunStore, read_manifest


def study_of(**changes):
    return load_configuration({"tiny": tiny_study(**changes)}, "test").studies["tiny"]


def with_training(**changes):
    return study_of(training=tiny_study()["training"] | changes)


def identifiers(study, name="tiny"):
    return [run_id(run, "checksum") for run in runs.all_runs(name, study)]


def test_lists_are_sweeps_and_labels_contain_the_swept_values():
    dataset = tiny_study()["dataset"] | {"fraction": [0.1, 0.5], "resolution": [8, 16]}
    objectives = tiny_study()["objectives"] | {"DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}}
    primary = tiny_study()["primary"] | {"dataset": "resolution=8,fraction=0.1"}
    study = study_of(dataset=dataset, objectives=objectives, primary=primary)
    assert list(runs.datasets(study)) == [
        "resolution=8,fraction=0.1",
        "resolution=8,fraction=0.5",
        "resolution=16,fraction=0.1",
        "resolution=16,fraction=0.5",
    ]
    assert list(runs.objectives(study)) == ["CL", "DCL-true", "Oracle", "DCL,class_probability=0.05", "DCL,class_probability=0.1"]
    assert runs.candidates(study)["DCL"] == {
        "DCL,class_probability=0.05": '{"class_probability":0.05}',
        "DCL,class_probability=0.1": '{"class_probability":0.1}',
    }
    jobs = {(job.dataset, job.objective): job for job in runs.jobs("tiny", study)}
    assert jobs["resolution=8,fraction=0.5", "DCL,class_probability=0.1"].row_names == {
        "study": "tiny",
        "dataset": "resolution=8,fraction=0.5",
        "condition": '{"fraction":0.5,"resolution":8}',
        "objective": "DCL",
        "variant": '{"class_probability":0.1}',
    }
    assert len(runs.all_runs("tiny", study)) == 4 * 5 * 2
    assert len(set(identifiers(study))) == 4 * 5 * 2


def test_sweeps_one_at_a_time_change_a_single_setting_of_the_base():
    objectives = tiny_study()["objectives"] | {"DCL": {"name": "dcl", "class_probability": [0.1, 0.05, 0.2]}}
    training = tiny_study()["training"] | {"temperature": [0.5, 0.1], "batch_size": [64, 32]}
    study = study_of(objectives=objectives, training=training, sweeps="one at a time")
    base = {"batch_size": 64, "class_probability": 0.1, "temperature": 0.5}
    changes = [{}, {"batch_size": 32}, {"temperature": 0.1}, {"class_probability": 0.05}, {"class_probability": 0.2}]
    found = runs.variants(study)
    assert sorted(map(json.loads, found["DCL"].values()), key=str) == sorted([base | change for change in changes], key=str)
    assert len(found["CL"]) == 3
    assert [json.loads(variant) for variant in runs.candidates(study)["DCL"].values()] == [base]
    ids = identifiers(study)
    assert len(set(ids)) == len(ids) == 2 * (3 + 3 + 3 + 5)
    assert set(ids) < set(identifiers(study_of(objectives=objectives, training=training)))


def test_a_sweep_of_training_creates_variants_of_every_objective():
    study = with_training(temperature=[0.2, 0.5])
    assert list(runs.objectives(study))[:2] == ["CL,temperature=0.2", "CL,temperature=0.5"]
    settings_of = {run.objective: run.settings["training"]["temperature"] for run in runs.all_runs("tiny", study)}
    assert settings_of["CL,temperature=0.2"] == 0.2


@pytest.mark.parametrize("change", [{"threads": 2}, {"device": "auto"}, {"mem_mb": 1}, {"seeds_per_job": 1}, {"compile": True}])
def test_technical_settings_do_not_change_the_id(change):
    assert identifiers(with_training(**change)) == identifiers(study_of())


@pytest.mark.parametrize("change", [{"epochs": 2}, {"batch_size": 32}, {"temperature": 0.4}, {"learning_rate": 0.01}])
def test_settings_that_affect_the_result_change_every_id(change):
    assert not set(identifiers(with_training(**change))) & set(identifiers(study_of()))


def test_the_id_depends_neither_on_the_study_nor_on_stated_defaults():
    assert identifiers(study_of(), name="other") == identifiers(study_of())
    assert identifiers(with_training(schedule="constant", weight_decay=1e-6)) == identifiers(study_of())
    own = tiny_study()["objectives"] | {"CL": {"name": "cl", "temperature": 0.3}}
    by_objective = [run for run in runs.all_runs("a", study_of(objectives=own)) if run.objective == "CL"]
    by_training = [run for run in runs.all_runs("a", with_training(temperature=0.3)) if run.objective == "CL"]
    assert run_id(by_objective[0], "c") == run_id(by_training[0], "c")


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


def _hold(path, ready, release):
    with RunStore(path).owned("abc"):
        ready.set()
        release.wait(600)


def test_two_processes_never_own_the_same_run(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready, release))
    process.start()
    assert ready.wait(300)
    with pytest.raises(UserError, match=f"process {process.pid} "), RunStore(tmp_path).owned("abc"):
        pass
    process.kill()  # the kernel frees the lock of a dead process
    process.join()
    with RunStore(tmp_path).owned("abc") as folder:
        assert folder.is_dir()


def test_files_are_written_atomically(tmp_path):
    path = tmp_path / "a" / "file.txt"
    with atomic_write(path) as temporary:
        temporary.write_text("old")

    def interrupted():
        with atomic_write(path) as temporary:
            temporary.write_text("new, but half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_manifest_with_a_changed_or_missing_model_is_rejected(tmp_path):
    store = RunStore(tmp_path / "runs")
    model = store.folder("abc") / RunStore.MODEL
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    (model.parent / RunStore.RECORD).write_text('{"settings": {"training": {}}}')
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        json.dumps(
            {
                "study": "s",
                "dataset": "d",
                "objective": "o",
                "runs": [{"seed": 0, "id": "abc", "checksum": file_checksum(model)}],
            }
        )
    )
    assert read_manifest(manifest, store)[0]["model"] == model
    model.write_bytes(b"others!")
    with pytest.raises(UserError, match=r"does not contain the model that .*manifest\.json lists.*Remove the folder .*abc"):
        read_manifest(manifest, store)
    model.unlink()
    with pytest.raises(UserError, match="abc has no finished run"):
        read_manifest(manifest, store)


def with_batch_sizes(*sizes, **changes):
    primary = tiny_study()["primary"] | {"dataset": f"batch_size={sizes[0]}"}
    training = tiny_study()["training"] | {"batch_size": list(sizes)} | changes
    return study_of(training=training, conditions=["batch_size"], primary=primary)


def test_conditions_are_data_sets_and_not_candidates_for_selection():
    study = with_batch_sizes(32, 64, learning_rate=[0.001, 0.01])
    assert list(runs.datasets(study)) == ["batch_size=32", "batch_size=64"]
    assert list(runs.candidates(study)["CL"]) == ["CL,learning_rate=0.001", "CL,learning_rate=0.01"]
    assert runs.negative_counts(study) == {"batch_size=32": 62, "batch_size=64": 126}
    used = {(run.dataset, run.objective): run.settings["training"] for run in runs.all_runs("tiny", study)}
    assert used["batch_size=32", "CL,learning_rate=0.01"]["batch_size"] == 32
    assert used["batch_size=64", "CL,learning_rate=0.001"]["learning_rate"] == 0.001


def test_a_condition_does_not_change_the_id():
    assert set(identifiers(study_of())) < set(identifiers(with_batch_sizes(64, 32)))


def test_the_next_owner_removes_partial_files_of_a_killed_process(tmp_path):
    store = RunStore(tmp_path)
    with store.owned("abc") as folder:
        for name in (".model.safetensors.123", ".tmpAb12Cd", "checkpoint.safetensors"):
            (folder / name).write_text("half")
    with store.owned("abc") as folder:
        assert {path.name for path in folder.iterdir()} == {RunStore.LOCK, "checkpoint.safetensors"}


def test_own_images_are_named_after_their_folder():
    own = {"source": "image_folder", "path": "data/flowers", "test": 0.25}
    assert list(runs.datasets(study_of(dataset=own))) == ["flowers"]
    for path in (".", "..", "/"):
        assert data_name("parquet", path) == "parquet"
