"""Scores are saved continuously: killed jobs resume, finished jobs do nothing, shards share the work."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.text import corpus
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.store.language_models import read_language_models
from trueneg.text import pseudo_log_likelihood
from trueneg.text.chunks import append_chunk, read_chunks, text_key
from trueneg.text.eta import write_class_probabilities
from trueneg.text.loading import load_language_model
from trueneg.text.scorers import PlainBert
from trueneg.text.scoring import score_sentences

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    corpus.write_sentences(folder, reports=80)
    corpus.train(folder, epochs=1)
    return folder


@pytest.fixture
def folder(prepared, tmp_path):
    for name in ("sentences.parquet", "models.json"):
        shutil.copy(prepared / name, tmp_path / name)
    return tmp_path


def score(folder, **changes):
    arguments = {"models": folder / "models.json", "settings": corpus.SCORING, "cache": folder / "scored"} | changes
    score_sentences(folder / "sentences.parquet", likelihoods=folder / "likelihoods.parquet", **arguments)
    return pd.read_parquet(folder / "likelihoods.parquet") if (folder / "likelihoods.parquet").exists() else None


def test_every_sentence_is_scored_by_the_model_of_its_fold(folder):
    found = score(folder)
    sentences, _ = privacy.read_table(folder / "sentences.parquet")
    pd.testing.assert_frame_equal(found[sentences.columns], sentences)
    for model in read_language_models(folder / "models.json")["models"]:
        part = found[found["fold"] == model["fold"]]
        expected = pseudo_log_likelihood(*load_language_model(model["folder"]), part["sentence"].tolist())
        np.testing.assert_allclose(part["log_likelihood"], expected, atol=1e-5)
    assert (found["windows"] == 1).all()
    assert (found["device"] == "cpu").all()


@pytest.mark.long
def test_a_killed_job_keeps_its_chunks_and_the_next_one_resumes(folder):
    command = [sys.executable, "-m", "tests.text.killed_scoring", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while len(list(folder.glob("scored/*/[!.]*.parquet"))) < 3:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.read_bytes() for path in folder.glob("scored/*/[!.]*.parquet")}
    done = sum(pq.read_metadata(path).num_rows for path in kept)
    assert not (folder / "likelihoods.parquet").exists()
    scored = []
    original = PlainBert.log_probabilities
    PlainBert.log_probabilities = lambda self, batch: scored.append(len(batch.targets)) or original(self, batch)
    try:
        found = score(folder)
    finally:
        PlainBert.log_probabilities = original
    assert {path: path.read_bytes() for path in kept} == kept
    unique = found.drop_duplicates(["fold", "sentence"])
    assert done > 0
    # Every token of what was missing, and none of what was there.
    keys = {row for path in kept for row in pq.read_table(path)["key"].to_pylist()}
    of_model = {}
    for path in kept:
        of_model.setdefault(path.parent.name, set()).update(pq.read_table(path)["key"].to_pylist())
    assert len(keys) <= done
    by_fold = {model["fold"]: model["checksum"][:16] for model in read_language_models(folder / "models.json")["models"]}
    missing = [
        row.tokens
        for row in unique.itertuples()
        if text_key(row.sentence) not in of_model.get(f"{by_fold[row.fold]}-original", set())
    ]
    assert sum(scored) == sum(missing)
    assert len(missing) == len(unique) - done


def test_a_second_call_computes_nothing(folder, monkeypatch):
    first = score(folder)
    monkeypatch.setattr("trueneg.text.scoring.load_language_model", lambda *a, **k: pytest.fail("a model was loaded"))
    pd.testing.assert_frame_equal(score(folder), first)


def test_shards_share_the_work(folder, monkeypatch):
    for shard in range(3):
        assert score(folder, shard=shard, shards=3) is None
    monkeypatch.setattr("trueneg.text.scoring.load_language_model", lambda *a, **k: pytest.fail("a model was loaded"))
    assert score(folder)["log_likelihood"].notna().all()


def test_a_damaged_chunk_is_named(folder):
    score(folder)
    chunk = next(folder.glob("scored/*/*.parquet"))
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.raises(UserError, match=rf"{chunk.name}: .*complete parquet file.*\. Remove it"):
        score(folder)
    chunk.unlink()
    assert score(folder)["log_likelihood"].notna().all()


def test_chunks_contain_each_text_once(tmp_path):
    folder = tmp_path / "chunks"
    assert len(read_chunks(folder, ["value"])) == 0
    frame = pd.DataFrame({"value": [1.0, 2.0]}, index=["a", "b"])
    for rows in (frame, frame, frame.iloc[1:]):
        append_chunk(folder, rows, restricted=False)
    assert read_chunks(folder, ["value"])["value"].to_dict() == {text_key("a"): 1.0, text_key("b"): 2.0}


def test_class_probabilities_and_their_controls(folder):
    likelihoods = score(folder)
    settings = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False}
    write_class_probabilities(folder / "likelihoods.parquet", settings=settings, seed=0, eta=folder / "eta.parquet")
    found, _ = privacy.read_table(folder / "eta.parquet")
    np.testing.assert_allclose(found["eta"], 0.2 * np.exp(0.35 * likelihoods["log_likelihood"]))
    assert sorted(found["eta permuted"]) == sorted(found["eta"])
    assert (found["eta permuted"] != found["eta"]).any()
    np.testing.assert_allclose(found[["eta permuted", "eta constant", "eta by length"]].mean(), found["eta"].mean())
    assert found["eta constant"].nunique() == 1
    by_length = found.groupby(likelihoods["tokens"])
    assert by_length["eta by length"].nunique().max() == 1
    np.testing.assert_allclose(by_length["eta by length"].first(), by_length["eta"].mean())
    for seed in (0, 1):
        write_class_probabilities(folder / "likelihoods.parquet", settings=settings, seed=seed, eta=folder / "other.parquet")
        other, _ = privacy.read_table(folder / "other.parquet")
        assert other["eta permuted"].equals(found["eta permuted"]) == (seed == 0)
    write_class_probabilities(
        folder / "likelihoods.parquet", settings=settings | {"per_token": True}, seed=0, eta=folder / "eta.parquet"
    )
    per_token = privacy.read_table(folder / "eta.parquet")[0]["eta"]
    np.testing.assert_allclose(per_token, 0.2 * np.exp(0.35 * likelihoods["log_likelihood"] / likelihoods["tokens"]))
