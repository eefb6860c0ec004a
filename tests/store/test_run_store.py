"""A run has one owner at a time, and a manifest lists models that are still the same."""

import json
import multiprocessing

import pytest

from tests.store.test_records import RUN
from trueneg.errors import UserError
from trueneg.io.files import file_checksum
from trueneg.store.records import RunRecord, TrainedModel
from trueneg.store.run_store import RunStore, read_manifest


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


def test_the_next_owner_removes_partial_files_of_a_killed_process(tmp_path):
    store = RunStore(tmp_path)
    with store.owned("abc") as folder:
        for name in (".model.safetensors.123", ".tmpAb12Cd", "checkpoint.safetensors"):
            (folder / name).write_text("half")
    with store.owned("abc") as folder:
        assert {path.name for path in folder.iterdir()} == {RunStore.LOCK, "checkpoint.safetensors"}


def test_a_manifest_with_a_changed_or_missing_model_is_rejected(tmp_path):
    store = RunStore(tmp_path / "runs")
    model = store.folder("abc") / RunStore.MODEL
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    store.finish("abc", {"settings": {"training": {}}, "code": {"versions": {}}})
    manifest, listed = (
        tmp_path / "manifest.json",
        [{"seed": 0, "id": "abc", "checksum": file_checksum(model)}],
    )
    manifest.write_text(
        json.dumps({"study": "s", "dataset": "d", "objective": "o", "runs": listed})
    )
    assert read_manifest(manifest, store)[0]["model"] == model
    model.write_bytes(b"others!")
    with pytest.raises(UserError, match=r"model\.safetensors is damaged.*Remove the folder .*abc"):
        read_manifest(manifest, store)
    store.finish("abc", store.record("abc"))  # trained again for another study
    with pytest.raises(
        UserError,
        match=r"does not contain the model that .*manifest\.json lists.*Remove .*manifest\.json",
    ):
        read_manifest(manifest, store)
    model.unlink()
    with pytest.raises(UserError, match="abc has no finished run"):
        read_manifest(manifest, store)


@pytest.mark.parametrize("model", [TrainedModel, RunRecord])
def test_a_record_without_versions_is_refused_in_one_sentence(model, tmp_path):
    store = RunStore(tmp_path)
    store.folder("abc").mkdir()
    (store.folder("abc") / RunStore.RECORD).write_text(json.dumps(RUN))
    with pytest.raises(
        UserError,
        match=r"run\.json: code is missing\. Remove its folder",
    ):
        store.record("abc", model)
