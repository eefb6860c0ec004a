"""Scores are saved continuously: killed jobs resume, finished jobs do nothing, shards share the
work.
"""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.killed import kill_after
from tests.text import corpus
from trueneg.class_probability import log_linear
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.stages import VERSIONS
from trueneg.store.language_models import read_language_models
from trueneg.text import pseudo_log_likelihood
from trueneg.text.chunks import append_chunk, read_chunks, text_key
from trueneg.text.eta import write_class_probabilities
from trueneg.text.loading import load_language_model
from trueneg.text.scorers import PlainBert
from trueneg.text.scoring import score_sentences


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
    arguments = {
        "models": folder / "models.json",
        "settings": corpus.SCORING,
        "cache": folder / "scored",
    } | changes
    score_sentences(
        folder / "sentences.parquet", likelihoods=folder / "likelihoods.parquet", **arguments
    )
    return (
        pd.read_parquet(folder / "likelihoods.parquet")
        if (folder / "likelihoods.parquet").exists()
        else None
    )


def test_every_sentence_is_scored_by_the_model_of_its_fold(folder):
    scored = score(folder)
    sentences, _ = privacy.read_table(folder / "sentences.parquet")
    pd.testing.assert_frame_equal(scored[sentences.columns], sentences)
    for model in read_language_models(folder / "models.json")["models"]:
        part = scored[scored["fold"] == model["fold"]]
        expected = pseudo_log_likelihood(
            *load_language_model(model["folder"]), part["sentence"].tolist()
        )
        np.testing.assert_allclose(part["log_likelihood"], expected, atol=1e-5)
    assert (scored["windows"] == 1).all()
    assert (scored["device"] == "cpu").all()


def test_a_text_that_cannot_be_scored_is_named_by_its_row(folder):
    table, restricted = privacy.read_table(folder / "sentences.parquet")
    table.loc[5, "sentence"] = "\ue000"  # for private use, which BERT's tokenizer drops
    privacy.write_table(table, folder / "sentences.parquet", restricted)
    with pytest.raises(UserError, match=r"row 5 .* has no tokens"):
        score(folder)


def test_a_raised_version_scores_the_sentences_again(folder, monkeypatch):
    score(folder)
    monkeypatch.setitem(VERSIONS, "likelihoods", VERSIONS["likelihoods"] + 1)
    before = set((folder / "scored").iterdir())
    score(folder)
    assert len(set((folder / "scored").iterdir()) - before) == len(before)


def test_another_tokenizer_of_a_released_model_scores_the_sentences_again(folder, tmp_path):
    listed = read_language_models(folder / "models.json")
    shutil.copytree(listed["models"][0]["folder"], tmp_path / "released")
    released = {"fold": 0, "folder": str(tmp_path / "released")}
    released |= {"revision": None, "checksum": None}
    (folder / "models.json").write_text(json.dumps(listed | {"folds": 1, "models": [released]}))
    before = score(folder)["log_likelihood"]
    path = tmp_path / "released/tokenizer.json"
    content = json.loads(path.read_text())
    words = [word for word in content["model"]["vocab"] if word.isalpha()]
    numbers = [content["model"]["vocab"][word] for word in words]
    content["model"]["vocab"] |= dict(zip(words, numbers[1:] + numbers[:1], strict=True))
    path.write_text(json.dumps(content))
    assert not np.allclose(score(folder)["log_likelihood"], before)


@pytest.mark.long
def test_a_killed_job_keeps_its_chunks_and_the_next_one_resumes(folder, monkeypatch):
    chunks = kill_after("tests.text.killed_scoring", folder, "scored/*/[!.]*.parquet", 3)
    kept = {path: path.read_bytes() for path in chunks}
    done = {
        (path.parent.name, key) for path in chunks for key in pq.read_table(path)["key"].to_pylist()
    }
    assert done
    assert not (folder / "likelihoods.parquet").exists()
    tokens, original = [], PlainBert.log_probabilities
    monkeypatch.setattr(
        PlainBert,
        "log_probabilities",
        lambda self, b: tokens.append(len(b.targets)) or original(self, b),
    )
    unique = score(folder).drop_duplicates(["fold", "sentence"])
    assert {path: path.read_bytes() for path in kept} == kept
    # Only the missing sentences are scored, and all of their tokens.
    models = read_language_models(folder / "models.json")["models"]
    cache_of = {model["fold"]: f"{model['checksum'][:16]}-original" for model in models}
    missing = [
        row.tokens
        for row in unique.itertuples()
        if (cache_of[row.fold], text_key(row.sentence)) not in done
    ]
    assert sum(tokens) == sum(missing)
    assert len(missing) == len(unique) - len(done)


def test_shards_share_the_work_and_further_calls_compute_nothing(folder, monkeypatch):
    for shard in range(3):
        assert score(folder, shard=shard, shards=3) is None
    monkeypatch.setattr(
        "trueneg.text.scoring.load_language_model",
        lambda *a, **k: pytest.fail("a model was loaded"),
    )
    gathered = score(folder)
    assert gathered["log_likelihood"].notna().all()
    pd.testing.assert_frame_equal(score(folder), gathered)


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
    assert read_chunks(folder, ["value"])["value"].to_dict() == {
        text_key("a"): 1.0,
        text_key("b"): 2.0,
    }


def test_class_probabilities_and_their_controls(folder):
    likelihoods = score(folder)

    def probabilities(seed=0, **changes):
        settings = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False} | changes
        write_class_probabilities(
            folder / "likelihoods.parquet", settings=settings, seed=seed, eta=folder / "eta.parquet"
        )
        return privacy.read_table(folder / "eta.parquet")[0]

    eta = probabilities()
    np.testing.assert_allclose(eta["eta"], 0.2 * np.exp(0.35 * likelihoods["log_likelihood"]))
    assert sorted(eta["eta permuted"]) == sorted(eta["eta"])
    assert (eta["eta permuted"] != eta["eta"]).any()
    np.testing.assert_allclose(
        eta[["eta permuted", "eta constant", "eta by length"]].mean(), eta["eta"].mean()
    )
    assert eta["eta constant"].nunique() == 1
    by_length = eta.groupby(likelihoods["tokens"])
    assert by_length["eta by length"].nunique().max() == 1
    np.testing.assert_allclose(by_length["eta by length"].first(), by_length["eta"].mean())
    assert probabilities(seed=0)["eta permuted"].equals(eta["eta permuted"])
    assert not probabilities(seed=1)["eta permuted"].equals(eta["eta permuted"])
    expected = 0.2 * np.exp(0.35 * likelihoods["log_likelihood"] / likelihoods["tokens"])
    of_tokens = probabilities(per_token=True)
    np.testing.assert_allclose(of_tokens["eta"], expected)
    np.testing.assert_allclose(0.2 * np.exp(0.35 * of_tokens["log_likelihood"]), expected)


def test_class_probabilities_with_another_a_and_k_equal_those_of_a_text_study_with_these(folder):
    score(folder)
    settings, written = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False}, {}
    for a, k in ((0.2, 0.35), (0.4, 0.1)):
        made_with = settings | {"a": a, "k": k}
        write_class_probabilities(
            folder / "likelihoods.parquet", settings=made_with, seed=0, eta=folder / "eta.parquet"
        )
        written[a, k] = privacy.read_table(folder / "eta.parquet")[0]
    usual, other = written.values()
    columns = {
        "language model": "eta",
        "permuted": "eta permuted",
        "constant mean": "eta constant",
        "length": "eta by length",
    }
    for name, column in columns.items():
        np.testing.assert_allclose(
            log_linear(name, usual, 0.4, 0.1, maximum=0.4), other[column], rtol=1e-12
        )
        assert not np.allclose(usual[column], other[column])
