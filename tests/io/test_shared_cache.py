"""The folder in TRUENEG_CACHE is shared by all results folders and contains no restricted data; invalid folders are refused."""

import logging

import numpy as np
import pytest

from tests.data.test_table_pairs import data, prepare
from tests.text import corpus
from tests.text.test_scoring import score
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.errors import UserError
from trueneg.io.shared_cache import cache_folder

__all__ = ["data"]


@pytest.fixture
def shared(tmp_path, monkeypatch):
    folder = tmp_path / "shared cache"
    monkeypatch.setenv("TRUENEG_CACHE", str(folder))
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_the_variable_each_results_folder_has_its_own_cache(data):
    prepare(data)
    assert any((data / "split").iterdir())
    assert cache_folder("local", "images", restricted=False).name == "local"


def test_images_and_sentences_are_reused_by_another_results_folder(data, shared, caplog):
    prepare(data)
    made, first = contents(shared), read_pairs(data / "pairs.npz")
    assert {path.parts[0] for path in made} == {"images", "sentences"}
    assert not (data / "split").exists()
    (data / "pairs.npz").unlink()
    with caplog.at_level(logging.INFO, "trueneg"):
        prepare(data)
    assert "0 new texts, 3 known" in caplog.text
    assert "3 images of 16 × 16 pixels, 3 of them from the cache" in caplog.text
    assert contents(shared) == made
    np.testing.assert_array_equal(read_pairs(data / "pairs.npz").images, first.images)


def test_images_of_several_sizes_are_cached(data, shared, caplog):
    prepare(data)
    prepare(data, resolution=8)
    with caplog.at_level(logging.INFO, "trueneg"):
        prepare(data)
    assert "3 images of 16 × 16 pixels, 3 of them from the cache" in caplog.text


def test_restricted_data_are_not_shared(data, shared):
    prepare(data, restricted=True)
    assert not shared.exists()
    assert any((data / "split").iterdir())


def test_scores_are_reused_by_another_results_folder(tmp_path, shared, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        corpus.write_sentences(tmp_path / name, reports=20)
    corpus.train(tmp_path / "first", epochs=1)
    models = tmp_path / "first" / "models.json"
    first = score(tmp_path / "first")
    monkeypatch.setattr("trueneg.text.scoring.load_language_model", lambda *a, **k: pytest.fail("a model was loaded"))
    second = score(tmp_path / "second", models=models)
    assert second["log_likelihood"].tolist() == first["log_likelihood"].tolist()
    assert not (tmp_path / "first" / "scored").exists()


@pytest.mark.parametrize("name", ["relative/path", "{}/file", "{}/file/below", "/proc/nowhere"])
def test_invalid_folders_are_refused(tmp_path, monkeypatch, name):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRUENEG_CACHE", name.format(tmp_path))
    with pytest.raises(
        UserError, match=r"TRUENEG_CACHE(: cannot create the folder .* \(| is 'relative/path'; expected an absolute)"
    ):
        cache_folder("local", "images", restricted=False)
