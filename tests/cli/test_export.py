"""Exported encoders give the vectors of their run in a process that cannot import this project."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import biovil
from tests.clips import tiny_clip, write_clip
from tests.exported import DATASET, finish, finish_pairs
from tests.studies import first_run, tiny_study
from tests.text import models
from tests.textures import SIZE, settings_of, texture_source
from trueneg.cli import main
from trueneg.config.runs import Run, features_key, frozen_towers
from trueneg.data.images.image_source import read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_source import read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.data.texts import text_table
from trueneg.data.texts.text_source import write_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.evaluation.evaluate import encoded_runs
from trueneg.evaluation.pair_features import embed_texts
from trueneg.io.seals import seal
from trueneg.models.text_encoders import load_bert, tokenise
from trueneg.models.weights import convert
from trueneg.specs.kinds.images import ImageStudy
from trueneg.store.run_store import RunStore
from trueneg.training import engine
from trueneg.training.frozen import compute_features, packed, read_frozen, vector_names
from trueneg.training.networks import read_networks
from trueneg.training.simclr import augmentation_of, projected_encoder

timm = pytest.importorskip("timm", reason="exports towers of libraries (the extra towers)")
pytest.importorskip("open_clip", reason="exports towers of libraries (the extra towers)")
pytest.importorskip(
    "sentence_transformers", reason="exports towers of libraries (the extra towers)"
)

TEXTS = ["Note left stripes.", "It rains.", "No columns."]
TOWER = {"train": "all", "resolution": None, "views": None}
TEXT_TOWER = {"train": "all", "truncate": False, "maximum_tokens": None}
LOADED = """
import importlib.util, json, sys
from pathlib import Path
sys.modules["trueneg"] = None  # cannot be imported
import torch
from safetensors.torch import load_file, save_file

inputs, texts, vectors = load_file(sys.argv[1]), json.loads(sys.argv[2]), {}
for folder in map(Path, sys.argv[3:]):
    key = "/".join(folder.parts[-2:])
    if (folder / "modules.json").exists():
        from sentence_transformers import SentenceTransformer
        model = SentenceTransformer(str(folder), device="cpu")
        vectors[key] = model.encode(texts, convert_to_tensor=True)
        continue
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.no_grad():
        batch = inputs.get(key, texts)
        vectors[key] = module.load()(batch).contiguous()
save_file({key: value.contiguous() for key, value in vectors.items()}, sys.argv[1] + ".out")
"""


def export(results, run, folder):
    return main.main(["export", run, str(folder), "--results", str(results)])


def perturbed(network):
    """Return the network in evaluation mode, with random weights and statistics, which would expose
    mistakes.
    """
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if value.is_floating_point() and "running_var" not in name:
                value += 0.01 * torch.randn(value.shape)
            elif value.is_floating_point():
                value += torch.rand(value.shape)
    return network.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def digits(folder):
    """The digits as the source of a study."""
    source = load_source("digits")
    place = ImageStudy.data_place(image_run().settings["dataset"])
    path = folder / "results" / f"{place}.npz"
    path.parent.mkdir(parents=True)
    write_source(source, path)
    return read_source(path)


def image_run(**changes):
    return first_run("tiny", {"tiny": tiny_study(**changes)}, "CL")


@pytest.fixture(scope="module")
def pairs():
    return texture_source(patients=40)


IMAGE_RUNS = {
    "small-resnet": {"projection": {"hidden": 16, "dimensions": 8, "batch_norm": True}},
    "resnet50": {
        "encoder": {"name": "resnet50"},
        "projection": {"name": "residual", "hidden": 8, "dimensions": 12},
    },
    "timm": {
        "encoder": {"name": "timm", "model": "test_vit", "weights": "none", "resolution": 64},
        "projection": {"name": "linear"},
    },
}


# Runs of text studies: whether positives have a tower of their own, and what is trained of all
# towers.
TEXT_RUNS = {
    "shared-frozen": (False, "none"),
    "shared-trained": (False, {"last": 1}),
    "two-frozen": (True, "none"),
    "two-trained": (True, "all"),
    "clip-trained": (False, "all"),
}
TEXT_KEYS = [
    f"{name}/{part}"
    for name, (two, _) in TEXT_RUNS.items()
    for part in ("text", "positives")[: 1 + two]
]
PAIR_RUNS = ["scratch", "pretrained", "biovil", "open-clip", "sentenc-frozen", "vectors-frozen"]
KEYS = [f"{name}/image" for name in IMAGE_RUNS] + [
    f"{name}/{part}" for name in PAIR_RUNS for part in ("image", "text")
]


def pair_settings(name, folder):
    """Return the settings of an image–text run by name."""
    if name == "scratch":
        return settings_of()
    if name == "pretrained":
        words, path = models.tokenizer(), folder / "bert"
        words.save_pretrained(path)
        models.bert(len(words)).save_pretrained(path)
        text = {
            "name": "pretrained",
            "model": str(path),
            "pooling": "max",
            "offline": True,
            "truncate": True,
        }
        text |= dict.fromkeys(("revision", "maximum_tokens", "frozen_layers", "projection"))
        changed = settings_of(
            projection={"name": "mlp", "hidden": 8}, augmentation={"evaluated": "whole"}
        )
        return changed | {"encoder": {"name": "resnet18", "weights": None}, "text_encoder": text}
    if name == "biovil":
        bert, _ = load_bert(folder / "bert")
        for part, path in biovil.write_pickles(folder, bert).items():
            convert(path, folder / f"{part}.safetensors")
        released = {"name": "biovil", "weights": str(folder / "image.safetensors")}
        text = pair_settings("pretrained", folder)["text_encoder"] | {
            "projection": str(folder / "text.safetensors"),
            "pooling": "cls",
        }
        changed = settings_of({"name": "released"}, projection={"name": "released"})
        return changed | {"encoder": released, "text_encoder": text}
    if name == "open-clip":
        clip = {"name": "open_clip", **write_clip(folder, tiny_clip(image_size=SIZE))}
        # D of the towers
        changed = settings_of(projection={"name": "residual", "hidden": 8, "dimensions": 24})
        return changed | {"encoder": clip | TOWER, "text_encoder": clip | TEXT_TOWER}
    torch.manual_seed(0)
    save_file(timm.create_model("test_vit", num_classes=0).state_dict(), folder / "vit.safetensors")
    image = {
        "name": "timm",
        "model": "test_vit",
        "weights": str(folder / "vit.safetensors"),
        "train": "none",
    }
    image |= {"resolution": 64, "views": None}
    text = {
        "name": "sentence_transformers",
        "model": str(folder / "bert"),
        "revision": None,
        "offline": True,
    }
    changed = settings_of(projection={"name": "residual", "dimensions": 12, "hidden": 8})
    return changed | {"encoder": image, "text_encoder": text | TEXT_TOWER | {"train": "none"}}


def reference(path, settings, source):
    """Return the vectors of the first images and of the texts according to the run's networks."""
    networks = read_networks(path, settings)
    with torch.no_grad():
        images = networks.columns.augmentation.normalise(torch.from_numpy(source.images[:3]))
        if networks.anchors.tokenizer is None:
            batch = (networks.model.text_encoder.prepare(TEXTS),)
            texts = networks.model.embed("text_", *batch).pooled
        else:
            texts = networks.model.embed(
                "text_",
                **tokenise(
                    networks.anchors.tokenizer,
                    TEXTS,
                    maximum_tokens=networks.anchors.maximum_tokens,
                ),
            ).pooled
        return networks.model.embed("image_", images).pooled, texts


@pytest.fixture(scope="module")
def results(folder, digits, pairs):
    """A results folder with one run of each kind, and the vectors of their networks."""
    results, expected, inputs = folder / "results", {}, {}
    pixels = {
        "digits": torch.from_numpy(digits.images[:3]),
        "pairs": torch.from_numpy(pairs.images[:3]),
    }
    for name, changes in IMAGE_RUNS.items():
        run = image_run(**changes)
        network = perturbed(projected_encoder(run.settings, 1))
        tower = getattr(network.encoder, "tower", None)
        weights = dict(network.state_dict()) | (
            packed(tower, "encoder") if tower is not None else {}
        )
        finish(results, name, run, weights, digits)
        with torch.no_grad():
            expected[f"{name}/image"] = network(
                augmentation_of(run.settings, digits).normalise(pixels["digits"])
            )
        inputs[f"{name}/image"] = pixels["digits"] / 255
    for name in ("scratch", "pretrained", "biovil", "open-clip"):
        settings = pair_settings(name, folder) | {"dataset": DATASET}
        finish_pairs(results, name, settings, pairs)
        path = results / "runs" / name / RunStore.MODEL
        expected[f"{name}/image"], expected[f"{name}/text"] = reference(path, settings, pairs)
        inputs[f"{name}/image"] = pixels["pairs"] / 255
    frozen_runs(results, folder, pairs, expected, inputs)
    return results, expected | text_runs(results, folder), inputs


def trained(results, folder, settings, pairs):
    """Compute the vectors of frozen towers, train a run on them, and return its id and its
    networks.
    """
    run = Run("tiny", "textures", "CL", 0, settings)
    write_pairs(pairs, folder / "pairs.npz")
    write_subsets([split_pairs(pairs, 0)], folder / "subsets.parquet")
    features = []
    for made in frozen_towers(settings).values():
        features.append(folder / f"{features_key(made)}.npz")
        compute_features(
            made,
            source=folder / "pairs.npz",
            features=features[-1],
            cache=folder / "cache",
            device="cpu",
            threads=1,
        )
    source = {
        "source": folder / "pairs.npz",
        "subsets": folder / "subsets.parquet",
        "store": results / "runs",
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            engine,
            "run_id",
            lambda run, checksum: f"{run.settings['text_encoder']['name'][:7]}-frozen",
        )
        engine.train_runs(
            [run.to_json()], **source, manifest=folder / "manifest.json", vectors=features
        )
    identifier = json.loads((folder / "manifest.json").read_text())["runs"][0]["id"]
    path = results / "runs" / identifier / RunStore.MODEL
    return read_networks(
        path,
        settings,
        read_frozen(vector_names(settings), read_pairs(folder / "pairs.npz"), features),
    )


def text_settings(name, folder, table):
    """Return the settings of a run of a text study with a residual head."""
    (two, train), words = TEXT_RUNS[name], models.tokenizer()
    for path, hidden in (("bert", 16), ("wide", 24)):  # towers of two sizes
        words.save_pretrained(folder / path)
        models.bert(len(words), hidden=hidden).save_pretrained(folder / path)
    tower = {"name": "sentence_transformers", "offline": True, "train": train}
    tower |= {"model": str(folder / "bert")}
    if name.startswith("clip"):
        tower = {
            "name": "open_clip",
            "train": train,
            **write_clip(folder, tiny_clip(image_size=SIZE)),
        }
    study = {
        "kind": "text",
        "title": "Texts",
        "dataset": {"source": "text_table", "path": str(table), "label_column": "label"},
        "text_encoder": tower,
        "projection": {"dimensions": 12 if two else None, "hidden": 8},
        "training": {"updates": 5, "batch_size": 8, "learning_rate": 0.01, "device": "cpu"},
        "objectives": {"CL": {"name": "cl"}, "Oracle": {"name": "oracle"}},
        "seeds": 1,
        "primary": {"labels": "seen", "treatment": "Oracle", "baseline": "CL", "oracle": "Oracle"},
    }
    study["dataset"]["rated"] = {"path": str(folder / "rated.csv")}
    if two:
        study["dataset"] |= {"positives": "given", "positive_column": "answer"}
        study["positive_encoder"] = tower | {"model": str(folder / "wide")}
    return first_run("tiny", {"tiny": study}, "CL").settings


def text_runs(results, folder):
    """Train runs of text studies; return the unit vectors of the texts according to their
    evaluation.
    """
    pd.DataFrame({"first": TEXTS, "second": TEXTS, "score": range(len(TEXTS))}).to_csv(
        folder / "rated.csv", index=False
    )  # to be embedded
    questions = [
        f"{words} {number}."
        for number in range(9)
        for words in ("Stripes", "Dots", "It snows", "Note")
    ]
    columns = {"text": questions, "answer": [f"No {text}" for text in questions]}
    pd.DataFrame(columns | {"label": [len(text) % 2 for text in questions]}).to_csv(
        folder / "texts.csv", index=False
    )
    expected = {}
    for name in TEXT_RUNS:
        settings, part = text_settings(name, folder, folder / "texts.csv"), folder / name
        part.mkdir()
        source = text_table.read_source(settings["dataset"])
        write_texts(source, part / "texts.npz")
        write_subsets([text_subset(source, settings["dataset"], 0)], part / "subsets.parquet")
        files = {
            "source": part / "texts.npz",
            "subsets": part / "subsets.parquet",
            "store": results / "runs",
        }
        vectors = []
        for made in frozen_towers(settings).values():
            vectors.append(part / f"{features_key(made)}.npz")
            compute_features(
                made,
                source=files["source"],
                features=vectors[-1],
                cache=part / "cache",
                device="cpu",
                threads=1,
            )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(engine, "run_id", lambda run, checksum, name=name: name)
            run = Run("tiny", "texts", "CL", 0, settings)
            engine.train_runs(
                [run.to_json()], **files, manifest=part / "manifest.json", vectors=vectors
            )
        block = {
            "manifest": part / "manifest.json",
            "device": "cpu",
            "threads": 1,
            "vectors": vectors,
        }
        with encoded_runs(**files, **block) as ready:
            ((embedded,),) = ready
        sides = {
            "text": embedded.anchors[source.rated["first"].to_numpy()],
            "positives": embedded.positives[source.rated["second"].to_numpy()],
        }
        expected |= {
            f"{name}/{side}": values
            for side, values in sides.items()
            if f"{name}/{side}" in TEXT_KEYS
        }
    return expected


def frozen_runs(results, folder, pairs, expected, inputs):
    """Train heads on the vectors of two frozen towers, and on vectors in files."""
    np.save(
        folder / "images.npy", np.random.default_rng(0).random((len(pairs.images), 6), np.float32)
    )
    np.save(
        folder / "sentences.npy",
        np.random.default_rng(0).random((len(pairs.sentences), 5), np.float32),
    )
    files = {"name": "vectors", "column": None, "train": "none"}
    vectors = settings_of(projection={"name": "mlp", "dimensions": 8, "hidden": 4}) | {
        "encoder": files | {"path": str(folder / "images.npy")},
        "text_encoder": files | {"path": str(folder / "sentences.npy")},
    }
    for name, settings in {
        "sentenc-frozen": pair_settings("frozen", folder),
        "vectors-frozen": vectors,
    }.items():
        networks = trained(results, folder, settings | {"dataset": DATASET}, pairs)
        stored = networks.frozen
        with torch.no_grad():
            images = networks.columns.augmentation.normalise(
                torch.from_numpy(stored.images.values[:3])
            )
            expected[f"{name}/image"] = networks.model.embed("image_", images).pooled
            expected[f"{name}/text"] = embed_texts(
                networks.model, networks.anchors, TEXTS, torch.device("cpu")
            )
        inputs[f"{name}/image"] = torch.from_numpy(pairs.images[:3]) / 255
    inputs["vectors-frozen/image"] = torch.from_numpy(stored.images.values[:3, 0, :, 0])
    inputs["vectors-frozen/text"] = torch.from_numpy(
        stored.texts.values[[stored.rows[text] for text in TEXTS], 0, :, 0]
    )


@pytest.fixture(scope="module")
def vectors(results, folder):
    """The vectors of each run's networks, and those of its folders in a process without this
    project.
    """
    path, expected, inputs = results
    for name in {key.partition("/")[0]: None for key in expected}:
        assert export(path, name, folder / "out" / name) == 0
    save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs")
    folders = [str(folder / "out" / key) for key in expected]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, folder / "inputs", json.dumps(TEXTS), *folders],
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return expected, load_file(folder / "inputs.out")


@pytest.mark.parametrize("key", KEYS)
def test_the_vectors_are_those_of_the_run(vectors, key):
    expected, loaded = vectors
    torch.testing.assert_close(loaded[key], expected[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", TEXT_KEYS)
def test_the_vectors_of_texts_are_those_of_the_evaluation_but_for_their_length(vectors, key):
    expected, loaded = vectors
    units = torch.nn.functional.normalize(loaded[key], dim=1)
    torch.testing.assert_close(units, expected[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TEXT_RUNS)
def test_a_text_run_is_trained_and_exported_with_one_folder_per_tower(
    vectors, results, folder, name
):
    weights = load_file(results[0] / "runs" / name / RunStore.MODEL)
    changes = [
        value
        for key, value in weights.items()
        if "text_projection.change" in key and key.endswith("3.weight")
    ]
    assert len(changes) == 1 + TEXT_RUNS[name][0]
    assert all(change.abs().max() > 1e-3 for change in changes)  # which starts at 0
    assert sorted(path.name for path in (folder / "out" / name).iterdir()) == sorted(
        ("text", "positives")[: len(changes)]
    )


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("key", KEYS + TEXT_KEYS)
def test_the_description_names_the_run_and_the_libraries(folder, key):
    about = json.loads((folder / "out" / key / "encoder.json").read_text())
    assert key.startswith(about["id"])
    assert "licence" in about["licence"]
    assert about["objective"] in ("CL", "tiny")
    assert ("logit scale" in about) != ("temperature" in about)
    assert set(about["libraries"]) <= {
        "torch",
        "timm",
        "open_clip_torch",
        "sentence-transformers",
        "torchvision",
    }


@pytest.mark.usefixtures("vectors")
def test_loaders_have_at_most_30_lines(folder):
    scripts = sorted((folder / "out").rglob("load.py"))
    assert scripts
    for script in scripts:
        assert sum(bool(line.strip()) for line in script.read_text().splitlines()) <= 30
        assert "$" not in script.read_text()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("none", "none.*0 run ids"),
        ("", "run ids"),
        ("started", "started.*no weights.*started"),
        ("imported", "imported.*no weights"),
    ],
)
def test_a_run_without_weights_is_refused(results, tmp_path, capsys, run, expected):
    path = results[0]
    (path / "runs/started").mkdir(exist_ok=True)
    folder = path / "runs/imported"
    if not folder.exists():
        shutil.copytree(path / "runs/scratch", folder)
        (folder / RunStore.MODEL).unlink()
        (folder / "evaluated-1.json").write_text("{}")
    assert export(path, run, tmp_path / "out") == 1
    assert re.search(expected, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_refused(results, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert export(results[0], "scratch", tmp_path) == 1
    assert f"{tmp_path} exists" in capsys.readouterr().err
    assert export(results[0], "scratch", tmp_path / "file") == 1


def test_a_prefix_of_an_id_is_enough(results, tmp_path):
    assert export(results[0], "small", tmp_path / "out") == 0
    assert (tmp_path / "out/image/load.py").is_file()


def test_a_changed_tower_is_refused(results, folder, tmp_path, capsys):
    weights = load_file(folder / "vit.safetensors")
    weights["norm.weight"] += 1
    save_file(weights, folder / "vit.safetensors")
    assert export(results[0], "sentenc", tmp_path / "out") == 1
    assert re.search(r"encoder test_vit.*changed.*SHA-256", capsys.readouterr().err)


def test_changed_images_are_refused(results, digits, tmp_path, capsys):
    record = results[0] / "runs/small-resnet/run.json"
    record.write_text(record.read_text().replace(digits.checksum, "0" * 64))
    assert export(results[0], "small", tmp_path / "out") == 1
    assert "run.json was damaged or edited" in capsys.readouterr().err
    seal(results[0], [record])
    assert export(results[0], "small", tmp_path / "out") == 1
    assert "digits have changed" in capsys.readouterr().err
