"""Paths and parameters of jobs, by their wildcards."""

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.evaluation.texts.test_text_rows import LABELLED, text_study
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.config.reading import load_configuration
from trueneg.planning.corpora import MODELS, Corpora
from trueneg.planning.data_inputs import DataInputs
from trueneg.planning.training_jobs import TrainingJobs


class Wildcards(SimpleNamespace):
    """Like Snakemake's wildcards: attributes that can be unpacked."""

    def keys(self):
        return vars(self).keys()

    def __getitem__(self, key):
        return vars(self)[key]


def jobs_of(**studies) -> TrainingJobs:
    return TrainingJobs(load_configuration(studies, "test"))


def corpora_of(**studies) -> Corpora:
    return Corpora(load_configuration(studies, "test"))


def first_of(training_jobs: TrainingJobs, **wildcards: str) -> str:
    """Return the objective and the block of the networks that a job with these wildcards uses."""
    manifest = training_jobs.networks(Wildcards(**wildcards))["manifest"]
    return "/".join(manifest.removesuffix(".json").split("/")[-2:])


def test_a_pattern_is_filled_in_once_for_each_combination_of_its_wildcards():
    training_jobs = jobs_of(
        tiny=tiny_study(seeds=3, training=tiny_study()["training"] | {"seeds_per_job": 2})
    )
    of_study = Wildcards(study="tiny")
    assert training_jobs.every("{study}/{block}")(of_study) == ["tiny/seed0-1", "tiny/seed2"]
    assert (
        len(training_jobs.every("{dataset}/{objective}/{block}")(of_study))
        == len(tiny_study()["objectives"]) * 2
    )


def test_what_is_mined_for_a_data_set_is_listed_once_with_its_tower_and_without_pilots():
    scales = {"logit_scale": [10, 20], "directions": "text"}
    other = {"name": "sentence_transformers", "model": "bge-small", "train": "none"}
    objectives = {
        "CL": {"name": "cl", **scales},
        "Near": {"name": "cl", **scales, "hard_negatives": {}},
        "Far": {"name": "cl", **scales, "hard_negatives": {"range_min": 30}},
        "Other": {"name": "cl", **scales, "hard_negatives": {"text_encoder": other}},
        "Words": {"name": "cl", **scales, "hard_negatives": {"bm25": True}},
    }
    training_jobs = jobs_of(
        mine=text_study(
            LABELLED,
            {"task": "knn", "labels": "seen", "metric": "accuracy"}
            | {"treatment": "Near", "baseline": "CL"},
            objectives=objectives,
            similarity={"learned_logit_scale": False},
            tuning={"seeds": [90, 91]},
        )
    )
    miners = training_jobs.miners(Wildcards(study="mine", dataset="text_table"))
    assert list(miners.values()) == ["all-MiniLM-L6-v2", "bge-small", "BM25"]
    assert len(miners) == 3
    assert all(path.endswith("/seed0-1.npz") for path in miners)
    first, *_ = (path.replace("seed0-1", "seed90-91") for path in miners)
    pilot = {"dataset": "text_table", "objective": "Near,logit_scale=10", "block": "seed90-91"}
    assert training_jobs.mined(Wildcards(study="mine", **pilot)) == [first]


def test_missing_wildcards_default_to_the_first_block_and_objective():
    training_jobs = jobs_of(tiny=tiny_study(seeds=3))
    names = list(tiny_study()["objectives"])
    assert first_of(training_jobs, study="tiny", dataset="digits") == f"{names[0]}/seed0-2"
    assert (
        first_of(training_jobs, study="tiny", dataset="digits", objective=names[1])
        == f"{names[1]}/seed0-2"
    )


def test_a_job_of_a_block_uses_its_own_networks():
    training_jobs = jobs_of(
        tiny=tiny_study(seeds=3, training=tiny_study()["training"] | {"seeds_per_job": 2})
    )
    names = list(tiny_study()["objectives"])
    block = {"study": "tiny", "dataset": "digits", "objective": names[1], "block": "seed2"}
    assert training_jobs.networks(Wildcards(**block)) == {
        "source": training_jobs.source(Wildcards(**block)),
        "subsets": "results/tiny/subsets/digits/seed2.parquet",
        "manifest": f"results/tiny/manifests/digits/{names[1]}/seed2.json",
        "vectors": [],
    }


def test_a_missing_objective_defaults_to_one_that_trains():
    clip = {"name": "open_clip", "model": "RN50-quickgelu", "weights": "openai"}
    released = {"CLIP": {"name": "released", "encoder": clip, "text_encoder": clip}}
    world = tiny_world(dataset=tiny_world()["dataset"] | {"resolution": 64})
    world["objectives"] = released | world["objectives"]
    jobs = jobs_of(words=tiny_words(), world=world)
    assert first_of(jobs, study="world", dataset="phantom") == "CL/seed0-1"
    assert first_of(jobs, study="world", dataset="phantom", objective="CLIP") == "CLIP/seed0-1"


def test_features_and_weights_are_a_parameter_that_changes_with_their_content_alone(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    objectives = tiny_study()["objectives"] | {
        "Guided": {
            "name": "guided",
            "margin": 0.1,
            "guide": {
                "name": "encoder",
                "encoder": {"name": "vectors", "path": "features.safetensors"},
            },
        }
    }
    training_jobs = jobs_of(tiny=tiny_study(objectives=objectives))
    plain, guided = (
        Wildcards(study="tiny", dataset="digits", objective=name, block="seed0-1")
        for name in ("CL", "Guided")
    )
    manifest, file = (
        tmp_path / "results/tiny/manifests/digits/Guided/seed0-1.json",
        tmp_path / "features.safetensors",
    )
    assert training_jobs.files(plain) == training_jobs.files(guided) == {}
    file.write_bytes(b"some")
    before = training_jobs.files(guided)
    assert before == {"features.safetensors": hashlib.sha256(b"some").hexdigest()}
    os.utime(file, ns=(1, 1))
    assert training_jobs.files(guided) == before
    run = tmp_path / "results/runs/0123456789ab"
    run.mkdir(parents=True)
    made = {"settings": {"training": {}}, "code": {"versions": {}}, "checksum": "0"}
    record = made | {"files": before | {"other.safetensors": "0"}}
    (run / "run.json").write_text(json.dumps(record))
    listed = {"seed": 0, "id": run.name, "checksum": "0"}
    manifest.parent.mkdir(parents=True)
    manifest.write_text(
        json.dumps({"study": "a", "dataset": "b", "objective": "c", "runs": [listed]})
    )
    file.unlink()
    assert training_jobs.files(guided) == {}  # the run is not finished
    (run / "model.safetensors").touch()
    assert training_jobs.files(guided) == before
    file.write_bytes(b"others")
    assert training_jobs.files(guided) == {
        "features.safetensors": hashlib.sha256(b"others").hexdigest()
    }


def test_the_file_of_stored_vectors_counts_as_unchanged_while_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = {"name": "vectors", "path": "vectors.npy"}
    none = {"augmentation": {"name": "none"}, "projection": {"name": "residual"}}
    training_jobs = jobs_of(tiny=tiny_study(encoder=encoder, **none))
    (path,) = training_jobs.vectors(Wildcards(study="tiny"))
    features = Wildcards(features=Path(path).stem)
    assert training_jobs.frozen_tower(features)["files"] == {}
    Path("vectors.npy").write_bytes(b"some")
    before = training_jobs.frozen_tower(features)
    assert before["files"] == {"vectors.npy": hashlib.sha256(b"some").hexdigest()}
    Path(path).parent.mkdir(parents=True)
    np.savez(path, files=json.dumps(before["files"]))  # by the job
    Path("vectors.npy").unlink()
    assert training_jobs.frozen_tower(features) == before
    Path("vectors.npy").write_bytes(b"others")
    assert training_jobs.frozen_tower(features) != before


@pytest.mark.parametrize("train", [True, False])
def test_the_folder_of_a_language_model_is_a_parameter_of_its_jobs(train, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = tiny_words(language_models={"LM": {"model": "lm", "train": train}})
    corpora = corpora_of(words=words)
    (corpus,) = (path for path in corpora.each_corpus("{corpus}", ["words"]))
    job = Wildcards(study="words", corpus=corpus, model="LM")
    trained = corpora.with_files(lambda wildcards: {"model": "lm"})
    assert trained(job) == {"model": "lm"}  # a model of the hub
    assert "files" not in corpora.scoring(job)
    Path("lm").mkdir()
    found = []
    for content in (b"some", b"others"):
        Path("lm/pytorch_model.bin").write_bytes(content)
        assert trained(job)["files"] == corpora.scoring(job)["files"]
        found.append(trained(job)["files"])
    assert found[0] != found[1]
    manifest = Path(corpora.scoring_models(job))
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"models": [], "files": found[0]}))
    Path("lm").rename("moved")
    assert trained(job)["files"] == corpora.scoring(job)["files"] == found[0]


def test_each_seed_has_its_own_corpus_if_configured():
    words = tiny_words(reports={"source": "phantom", "reports": 120, "seed": [7, 8]})
    world = tiny_world(seeds=[7, 8], dataset=tiny_world()["dataset"] | {"corpus": "seed={seed}"})
    configuration = load_configuration({"words": words, "world": world}, "test")
    training_jobs, corpora = TrainingJobs(configuration), Corpora(configuration)
    inputs = DataInputs(
        training_jobs, corpora, lambda data_input, results: {"stamp": data_input.place}
    )
    blocks = [
        Wildcards(study="world", dataset="phantom", objective="CL", block=f"seed{seed}")
        for seed in (7, 8)
    ]
    assert training_jobs.each_block("{block}", study="world") == ["seed7", "seed8"]
    sources = [training_jobs.source(block) for block in blocks]
    assert len(set(sources)) == 2
    assert (
        training_jobs.source(Wildcards(study="world", dataset="phantom", objective="CL"))
        == sources[0]
    )
    for block, source, seed in zip(blocks, sources, (7, 8), strict=True):
        place = source.removeprefix("results/").removesuffix(".npz")
        parameters = {name: function({}) for name, function in inputs.parameters(place).items()}
        assert (parameters["settings"]["seed"], parameters["files"]) == (seed, {"stamp": place})
        texts = inputs.pair_texts(Wildcards(pairs=place.removeprefix("pairs/")))
        assert texts["eta"] == f"results/words/text/seed={seed}/eta.parquet"
        (run,) = training_jobs.runs(block)
        assert (run["seed"], run["settings"]["dataset"]["corpus"]) == (seed, f"seed={seed}")


@pytest.mark.parametrize("downloads", [(True, False), (False, True), (False, False)])
def test_a_source_is_downloaded_if_one_of_its_studies_wants_it(downloads):
    data = tiny_study()["dataset"] | {"source": "cifar10", "path": "data"}
    studies = {
        name: tiny_study(dataset=data | {"download": download})
        for name, download in zip(("first", "second"), downloads, strict=True)
    }
    configuration = load_configuration(studies, "test")
    training_jobs = TrainingJobs(configuration)
    inputs = DataInputs(training_jobs, Corpora(configuration), lambda data_input, results: {})
    blocks = [
        Wildcards(study=name, dataset="cifar10", objective="CL", block="seed0-1")
        for name in studies
    ]
    (place,) = {training_jobs.source(block) for block in blocks}
    settings = inputs.settings(place.removeprefix("results/").removesuffix(".npz"))({})
    assert settings["download"] == any(downloads)


@pytest.mark.parametrize(
    ("extra", "is_used"),
    [
        ({}, False),
        ({"name": "dcl", "class_probability": "permuted"}, True),
        ({"name": "remove", "by": "text", "threshold": 0.8}, True),
    ],
)
def test_likelihoods_that_no_objective_uses_are_not_computed(extra, is_used, tmp_path, monkeypatch):
    """They are joined if another configuration computed them: its table is the same file."""
    monkeypatch.chdir(tmp_path)
    objectives = {"CL": {"name": "cl"}, "Hardness": {"name": "hcl", "class_probability": 0}}
    primary = tiny_world()["primary"] | {"treatment": "Hardness", "baseline": "CL", "oracle": None}
    world = tiny_world(
        objectives=objectives | ({"X": extra} if extra else {}), primary=primary, contrasts=[]
    )
    world.pop("figures")
    configuration = load_configuration({"words": tiny_words(), "world": world}, "test")
    corpora, training_jobs = Corpora(configuration), TrainingJobs(configuration)
    inputs = DataInputs(training_jobs, corpora, lambda data_input, results: {})
    block = Wildcards(study="world", dataset="phantom", objective="CL", block="seed0-1")
    place = training_jobs.source(block).removeprefix("results/pairs/").removesuffix(".npz")
    tables = inputs.pair_texts(Wildcards(pairs=place))
    assert ({"eta", "language_models"} <= tables.keys()) == is_used
    assert {"sentences", "assigned", "classes"} <= tables.keys()
    computed = Path(corpora.table(training_jobs.dataset(block), "eta"))
    computed.parent.mkdir(parents=True)
    computed.touch()
    assert {"eta", "language_models"} <= inputs.pair_texts(Wildcards(pairs=place)).keys()
    assert corpora.wanted == ({"words"} if is_used else set())
    assert corpora_of(words=tiny_words()).wanted == {"words"}


def test_a_model_of_another_study_is_used_unchanged_or_trained_further():
    words = tiny_words()
    (label,) = corpora_of(words=words).studies["words"].language_models
    (corpus,) = {
        path.split("/")[0]
        for path in corpora_of(words=words).each_corpus("{corpus}/{study}", ["words"])
    }
    start = f"words/{corpus}/{label}"
    further = words | {
        "language_models": {
            "kept": {"start": start, "train": False},
            "tuned": {"start": start, "epochs": 1},
        },
        "eta": {},
    }
    corpora = corpora_of(words=words, further=further)
    kept, tuned = (
        Wildcards(study="further", corpus=corpus, model=model) for model in ("kept", "tuned")
    )
    original = MODELS.format(study="words", corpus=corpus, model=label)
    assert (
        corpora.initial_models(kept)
        == corpora.initial_models(tuned)
        == corpora.scoring_models(kept)
        == original
    )
    assert corpora.scoring_models(tuned) == MODELS.format(
        study="further", corpus=corpus, model="tuned"
    )
    assert corpora.initial_models(Wildcards(study="words", corpus=corpus, model=label)) == []
    assert [
        corpora.embedding_models({"text": text, "corpus": None}) for text in ("words", "further")
    ] == [original] * 2
    chosen = corpora_of(words=words, further=further | {"eta": {"language_model": "tuned"}})
    assert chosen.embedding_models({"text": "further", "corpus": corpus}) == corpora.scoring_models(
        tuned
    )


def test_a_shard_waits_for_no_shards():
    words = tiny_words()
    words["scoring"] = words.get("scoring", {}) | {"shards": 2}
    corpora, (model, *_) = corpora_of(words=words), words["language_models"]
    job = {"study": "words", "corpus": "phantom", "model": model}
    base = f"results/words/text/phantom/likelihoods/{model}"
    assert corpora.shards(Wildcards(**job)) == [f"{base}-0.done", f"{base}-1.done"]
    assert corpora.shards(Wildcards(**job, shard="1")) == []
