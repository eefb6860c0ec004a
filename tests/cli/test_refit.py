"""`trueneg refit` trains on all data what a finished study advises, and its model card states what
the study measured.
"""

import dataclasses
import hashlib
import json
import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from scipy import stats

from tests.studies import tiny_texts, tiny_words
from tests.text import models
from tests.textures import settings_of, texture_source
from trueneg.cli.main import main
from trueneg.cli.model_card import trained_on
from trueneg.config.reading import load_configuration
from trueneg.config.runs import Run, all_runs, features_key, frozen_towers
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.samples import Subset, write_subsets
from trueneg.data.texts.text_files import label_sets
from trueneg.data.texts.text_source import read_texts, write_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.data.texts.text_table import read_source
from trueneg.data.user_files import file_parameter, recorded
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.stats.comparison import headroom
from trueneg.stats.measurement import Measurement
from trueneg.store.data_input import of_dataset
from trueneg.store.rows import to_table
from trueneg.store.run_files import checksum_of
from trueneg.training.engine import train_runs
from trueneg.training.frozen import compute_features, read_frozen
from trueneg.training.text_pairs import TextPairs

sentence_transformers = pytest.importorskip(
    "sentence_transformers", reason="trains a head on its network (the extra towers)"
)

KNN = Measurement("knn", "accuracy", "seen")
COUNT = 48
# by seed: both are better than the tower before training, and DCL is better than CL
GAINS = {
    "untrained": [0.5, 0.51, 0.5, 0.52],
    "CL": [0.6, 0.61, 0.62, 0.6],
    "DCL": [0.7, 0.72, 0.71, 0.7],
    "Oracle": [0.8, 0.81, 0.82, 0.8],
}
NO_GAINS = GAINS | {"untrained": [0.9, 0.91, 0.9, 0.92]}


def write_artefacts(study, values, ids=()):
    """Write what a study's comparison wrote, for values by objective and seed; ``ids`` are those of
    the runs of DCL.
    """
    folder = Path("results/mine/artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    rows = to_table(
        {
            "study": "mine",
            "dataset": "text_table",
            "split": "test",
            "condition": "{}",
            "variant": "{}",
            **KNN._asdict(),
            "objective": name,
            "seed": seed,
            "run": ids[seed] if ids and name == "DCL" else f"{name}-{seed}",
            "value": value,
        }
        for name, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    )
    entry = {"study": "mine", "dataset": "text_table", "variant": "{}", "candidates": 1, "seeds": 4}
    comparison = {
        "seeds": 4,
        "selected by": KNN._asdict(),
        "selection": [entry | {"objective": name} for name in values],
        "headroom": json.loads(headroom(rows, "CL", None, 0.1, KNN).to_json(orient="records")),
        "primary": KNN._asdict(),
    }
    (folder / "comparison.json").write_text(json.dumps(comparison))
    (folder / "study.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    rows.to_parquet(folder / "rows.parquet")


@pytest.fixture(autouse=True)
def _same_level():
    """The level of the package's log, which the command changes, is that of before."""
    level = logging.getLogger("trueneg").level
    yield
    logging.getLogger("trueneg").setLevel(level)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study of 48 texts with four labels, two of them held out of training, and what its first
    jobs wrote.
    """
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        models.saved(folder / "bert")
        table = pd.DataFrame(
            {"text": f"Clear {number}, no lungs.", "label": f"{'abcd'[number % 4]} | b"}
            for number in range(COUNT)
        )
        Path("data").mkdir()
        table.to_csv("data/texts.csv", index=False)
        written = tiny_texts(projection={"name": "linear"}, seeds=4)
        written["dataset"] |= {"labels": {"train": 2, "test_unseen": 2}}
        study = load_configuration({"mine": written}, "mine.yaml").studies["mine"]
        run = next(each for each in all_runs("mine", study) if each.objective == "DCL")
        source, vectors = prepare(study, run.settings)
    return folder, study, run.settings, source, vectors


def prepare(study, settings):
    """Write what the first jobs of a study write; return the files of its texts and vectors. With
    a likelihood study, only texts of labels that are trained on have class probabilities.
    """
    data = of_dataset(study, settings["dataset"], {})
    source = Path(f"results/{data.place}.npz")
    source.parent.mkdir(parents=True, exist_ok=True)
    with recorded(file_parameter(data, Path("results")), source):
        texts = read_source(data.settings)
        if settings["dataset"]["text"] is not None:
            trained, *_ = label_sets(texts.label_names, settings["dataset"]["labels"])
            is_scored = texts.sentences["class"].isin(trained)
            scored = texts.sentences.assign(eta=np.where(is_scored, 0.1, np.nan))
            texts = dataclasses.replace(texts, sentences=scored)
        write_texts(texts, source)
    (tower,) = frozen_towers(settings).values()
    vectors = Path(f"results/features/{features_key(tower)}.npz")
    parts = {"source": source, "features": vectors, "cache": "cache"}
    files = {"bert": checksum_of("bert")}
    compute_features(tower, **parts, files=files, device="cpu", threads=1)
    return source, vectors


@pytest.fixture
def study(made, monkeypatch):
    folder, study, *_ = made
    monkeypatch.chdir(folder)
    write_artefacts(study, GAINS)
    return study


def refit(*arguments):
    return main(["refit", *map(str, arguments)])


def test_a_tower_that_changed_since_its_vectors_were_computed_is_refused(study, tmp_path, capsys):
    shutil.copytree("bert", tmp_path / "bert")
    settings = Path("bert/config.json")
    settings.write_text(settings.read_text() + "\n")
    try:
        assert refit("mine", tmp_path / "out") == 1
    finally:
        shutil.rmtree("bert")
        shutil.copytree(tmp_path / "bert", "bert")
    message = capsys.readouterr().err
    assert "bert has changed since vectors were computed with it" in message
    assert not (tmp_path / "out").exists()


def test_the_advised_method_is_trained_on_all_samples_as_by_the_loop_itself(
    made, study, tmp_path, capsys
):
    _, _, settings, path, vectors = made
    assert refit("mine", tmp_path / "out", "--seeds", 2) == 0
    printed = capsys.readouterr().out
    assert "DCL" in printed
    assert "on nothing" in printed
    source = read_texts(path)
    frozen = read_frozen({"text_encoder": vectors.stem}, source, [vectors])
    whole = Subset(1, source.checksum, np.arange(COUNT), np.arange(0), labels=[0, 1, 2, 3])
    part = text_subset(source, settings["dataset"], 1)
    assert len(part.train) < COUNT / 2
    head = {}
    for name, subset in {"whole": whole, "part": part}.items():
        run = TextPairs(settings, 1, source, subset, torch.device("cpu"), frozen=frozen)
        while run.epoch < run.epochs:
            run.train_epoch()
        head[name] = run.weights()
    about = json.loads((tmp_path / "out/seed1/text/encoder.json").read_text())
    trained = load_file(Path("results/runs", about["id"], "model.safetensors"))
    assert trained.keys() == head["whole"].keys()
    assert all(torch.equal(trained[key], value) for key, value in head["whole"].items())
    assert not all(torch.equal(trained[key], value) for key, value in head["part"].items())
    # the export, loaded by the library, gives the vectors of the tower through this head
    exported = sentence_transformers.SentenceTransformer(
        str(tmp_path / "out/seed1/text"), device="cpu"
    )
    texts = list(frozen.rows)[:3]
    weight, bias = (
        next(value for key, value in head["whole"].items() if key.endswith(f"projection.{end}"))
        for end in ("weight", "bias")
    )
    expected = torch.from_numpy(frozen.texts.values[:3, 0, :, 0]) @ weight.T + bias
    torch.testing.assert_close(
        exported.encode(texts, convert_to_tensor=True), expected, rtol=1e-5, atol=1e-5
    )


def test_a_study_of_epochs_is_trained_with_as_many_updates_as_its_runs(made, study, tmp_path):
    _, _, _, path, vectors = made
    written = study.model_dump(mode="json", exclude_unset=True)
    written["training"] |= {"updates": None, "epochs": 3}
    study = load_configuration({"mine": written}, "mine.yaml").studies["mine"]
    runs = [run for run in all_runs("mine", study) if run.objective == "DCL"]
    source = read_texts(path)
    subsets = [text_subset(source, run.settings["dataset"], run.seed) for run in runs]
    write_subsets(subsets, tmp_path / "subsets.parquet")
    files = {"source": path, "subsets": tmp_path / "subsets.parquet", "vectors": [vectors]}
    manifest = tmp_path / "manifest.json"
    train_runs([run.to_json() for run in runs], **files, store="results/runs", manifest=manifest)
    ids = [run["id"] for run in json.loads(manifest.read_text())["runs"]]
    write_artefacts(study, GAINS, ids)
    assert refit("mine", tmp_path / "out") == 0
    final = json.loads((tmp_path / "out/text/encoder.json").read_text())["id"]
    compared, trained = (
        json.loads(Path("results/runs", each, "run.json").read_text()) for each in (ids[0], final)
    )
    assert trained["images"] == COUNT > 2 * compared["images"]
    assert trained["pairs"] == compared["pairs"]


def test_finished_runs_are_reused(study, tmp_path):
    assert refit("mine", tmp_path / "first") == 0
    models = {path: path.stat().st_mtime_ns for path in Path("results/runs").glob("*/model.*")}
    assert refit("mine", tmp_path / "second") == 0
    assert {path: path.stat().st_mtime_ns for path in models} == models


@pytest.fixture
def card(study, tmp_path):
    assert refit("mine", tmp_path / "out") == 0
    return ModelCard.load(tmp_path / "out/text/README.md")


def test_the_card_has_the_data_and_the_numbers_of_the_study(card, tmp_path):
    assert card.data.library_name == "sentence-transformers"
    assert card.data.pipeline_tag == "sentence-similarity"
    text = card.text.replace("−", "-")
    checksum = hashlib.sha256(Path("data/texts.csv").read_bytes()).hexdigest()
    assert f"| texts.csv | {checksum} |" in text
    assert f"Trained on {COUNT} of {COUNT} samples" in text
    assert "all images" not in text
    assert text.count("&#124; b | 12 |") == 4
    assert re.search(r"evaluated on nothing", text)
    assert "less data" in text
    values = {name: 100 * np.array(of_seeds) for name, of_seeds in GAINS.items()}
    means = {name: values[name] for name in ("DCL", "CL", "untrained")}
    differences = {f"DCL - {name}": means["DCL"] - means[name] for name in ("CL", "untrained")}
    about = json.loads((tmp_path / "out/text/encoder.json").read_text())
    assert len(about["measured"]["scores"]) == 5
    for name, of_seeds in {**means, **differences}.items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        stated = [float(number) for number in re.findall(r"[+-]?[0-9]+\.[0-9]", line)]
        interval = stats.ttest_1samp(of_seeds, 0).confidence_interval()
        np.testing.assert_allclose(stated, [of_seeds.mean(), *interval], atol=0.0501)
    assert about["data"]["labels"] == {f"{name} | b": 12 for name in "abcd"}


def test_the_card_of_a_run_of_the_study_says_which_labels_it_was_not_trained_on(
    made, study, tmp_path
):
    _, _, settings, path, vectors = made
    subset = text_subset(read_texts(path), settings["dataset"], 0)
    write_subsets([subset], tmp_path / "subsets.parquet")
    files = {"source": path, "subsets": tmp_path / "subsets.parquet", "vectors": [vectors]}
    run = Run("mine", "text_table", "DCL", 0, settings).to_json()
    train_runs([run], **files, store="results/runs", manifest=tmp_path / "manifest.json")
    (listed,) = json.loads((tmp_path / "manifest.json").read_text())["runs"]
    assert main(["export", listed["id"], str(tmp_path / "out")]) == 0
    labels = json.loads((tmp_path / "out/text/encoder.json").read_text())["data"]["labels"]
    source = read_texts(path)
    assert labels == {
        name: np.count_nonzero(source.labels[subset.train] == number)
        for number, name in enumerate(source.label_names)
    }
    unseen = [name for name, count in labels.items() if not count]
    assert len(unseen) == 2
    text = ModelCard.load(tmp_path / "out/text/README.md").text
    assert f"not trained on: {', '.join(unseen)}" in text
    assert f"Trained on {len(subset.train)} of {COUNT} samples" in text
    assert "evaluated on nothing" not in text


def test_the_labels_of_images_with_texts_are_counted(tmp_path):
    source = texture_source(patients=20)
    dataset = {"source": "phantom", "resolution": 32, "validation": 0.0, "test": 0.0}
    settings = settings_of() | {"dataset": dataset}
    path = tmp_path / f"{ImageTextStudy.data_place(dataset)}.npz"
    path.parent.mkdir()
    write_pairs(source, path)
    data = {"source": {"name": "textures", "checksum": source.checksum}, "data": source.checksum}
    record = {"settings": settings, "seed": 0, "images": len(source.images), **data}
    facts = trained_on(record, tmp_path)
    assert facts["labels"] == {
        name: sum(row[place] == 1 for row in source.labels.tolist())
        for place, name in enumerate(source.label_names)
    }
    assert facts["all"] == len(source.images)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none"], "no finished study none.*mine"),
        (["mine", "--method", "HCL"], "HCL.*CL, DCL, Oracle"),
        (["mine", "--method", "untrained"], "untrained.*CL, DCL, Oracle"),
        (["mine", "--seeds", "0"], "--seeds is 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(study, tmp_path, capsys, arguments, expected):
    assert refit(arguments[0], tmp_path / "out", *arguments[1:]) == 1
    assert re.search(expected, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_study_that_advises_no_training_needs_a_method(study, tmp_path, capsys):
    write_artefacts(study, NO_GAINS)
    assert refit("mine", tmp_path / "out") == 1
    assert re.search(r"Do not train.*--method: CL, DCL, Oracle\.", capsys.readouterr().err)
    assert refit("mine", tmp_path / "out", "--method", "CL") == 0
    assert (tmp_path / "out/text/README.md").is_file()


def test_a_folder_with_files_is_refused_before_training(study, tmp_path, capsys):
    (tmp_path / "file").touch()
    before = set(Path("results/runs").glob("*"))
    assert refit("mine", tmp_path, "--method", "Oracle") == 1
    assert f"{tmp_path} exists" in capsys.readouterr().err
    assert set(Path("results/runs").glob("*")) == before


@pytest.fixture
def scored(made, monkeypatch):
    """A study like the other one, with class probabilities of the texts that it trains on."""
    folder, study, *_ = made
    monkeypatch.chdir(folder)
    written = study.model_dump(mode="json", exclude_unset=True)
    written["dataset"]["text"] = "words"
    written["objectives"] |= {
        "DCL": {"name": "dcl", "class_probability": "language model"},
        "CL-off": {"name": "cl", "switched_off_by": "permuted"},
    }
    shared = ("source", "path", "label_column", "labels")
    words = tiny_words(reports={key: written["dataset"][key] for key in shared})
    study = load_configuration({"words": words, "mine": written}, "mine.yaml").studies["mine"]
    prepare(study, all_runs("mine", study)[0].settings)
    write_artefacts(study, GAINS | {"CL-off": GAINS["CL"]})


@pytest.mark.parametrize("method", ["CL", "Oracle"])
def test_texts_without_class_probabilities_are_trained_on_where_none_is_used(
    scored, tmp_path, method
):
    assert refit("mine", tmp_path / "out", "--method", method) == 0
    text = ModelCard.load(tmp_path / "out/text/README.md").text
    assert f"Trained on {COUNT} of {COUNT} samples" in text
    assert text.count("&#124; b | 12 |") == 4


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("DCL", r"DCL\.class_probability is 'language model'"),
        ("CL-off", r"CL-off\.switched_off_by is 'permuted'"),
    ],
)
def test_a_method_that_needs_class_probabilities_that_texts_lack_is_refused(
    scored, tmp_path, capsys, method, expected
):
    assert refit("mine", tmp_path / "out", "--method", method) == 1
    printed = capsys.readouterr().err
    assert re.search(rf"{expected}, but study words.* {COUNT // 2} texts.*--method\.", printed)
    assert not (tmp_path / "out").exists()
