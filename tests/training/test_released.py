"""Released networks are evaluated without training, like a run without updates."""

import json
import math
import threading
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from tests.clips import tiny_clip, write_clip
from tests.miniature.harness import shipped
from tests.miniature.overrides import miniatures
from tests.textures import SIZE, settings_of, texture_boxes, texture_source
from trueneg.config.reading import load_configuration
from trueneg.config.runs import Run, all_runs
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import evaluate_runs
from trueneg.report.figures.monitors import by_objective
from trueneg.specs import tasks
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training import engine
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks

open_clip = pytest.importorskip("open_clip", reason="CLIP is the released model (the extra towers)")

CPU = torch.device("cpu")
TEXTS = ["Seen left stripes.", "No blobs."]
PROMPTS = {"negative": "No stripes.", "positive": "Note left stripes."}
EVALUATION = dict.fromkeys(tasks.PAIRS) | {
    "threads": 1,
    "zero_shot": {"prompts": {"stripes": PROMPTS}},
    "retrieval": {"ks": [1, 5]},
    "grounding": {"smoothing": 0.0},
    "linear_probe": {
        "fractions": [1.0],
        "epochs": 1,
        "batch_size": 32,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
    },
    "region_retrieval": {"ks": [1]},
    "fine_tuning": {
        "fractions": [1.0],
        "epochs": 1,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "weight_decay": 0.0,
    },
}


@pytest.fixture(scope="module")
def network():
    return tiny_clip(image_size=SIZE)


@pytest.fixture(scope="module")
def files(network, tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip"), network)


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=40)


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0)


def settings_with(files, objective, projection="released"):
    clip = {"name": "open_clip", "train": "all", **files}
    settings = settings_of(objective, projection={"name": projection}, augmentation={"crop": 1.0})
    images, texts = {"resolution": None, "views": None}, {"truncate": False, "maximum_tokens": None}
    return settings | {"encoder": clip | images, "text_encoder": clip | texts}


def embedded_texts(networks):
    """Return embeddings of a few texts."""
    inputs = networks.anchors.inputs(TEXTS, False, CPU)
    return networks.model.embed("text_", **inputs(torch.arange(len(TEXTS)))).pooled


@pytest.fixture(scope="module")
def job(files, source, subset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_pairs(source, folder / "pairs.npz")
    write_subsets([subset], folder / "subsets.parquet")
    settings = settings_with(files, {"name": "released", "encoder": None, "text_encoder": None})
    # not needed to store weights
    settings["training"] |= {"epochs": None, "updates": None, "device": "cuda", "devices": 2}
    settings["dataset"] = {"source": "image_table", "resolution": 32, "text": "words"}
    return {
        "runs": [Run("tiny", "textures", "CLIP", 0, settings).to_json()],
        "source": folder / "pairs.npz",
        "subsets": folder / "subsets.parquet",
        "store": folder / "runs",
        "manifest": folder / "manifest.json",
    }


@pytest.fixture(scope="module")
def finished(job):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "run_id", lambda run, checksum: f"{run.seed}-{checksum[:8]}")
        engine.train_runs(**job)
        (listed,) = read_manifest(job["manifest"], RunStore(job["store"]))
        record = RunStore(job["store"]).record(listed["id"])
        engine.train_runs(**job)
        assert RunStore(job["store"]).record(listed["id"]) == record
    return listed


def test_the_file_of_a_released_run_is_self_contained(job, finished, network, source):
    store = RunStore(job["store"])
    networks = read_networks(finished["model"], store.record(finished["id"])["settings"])
    assert networks.model.logit_scale().item() == pytest.approx(network.logit_scale.exp().item())
    pixels = torch.from_numpy(source.images[:4])
    with torch.no_grad():
        found = networks.model.embed(
            "image_", networks.columns.augmentation.normalise(pixels)
        ).pooled
        mean, std = (
            torch.tensor(one).view(3, 1, 1)
            for one in (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
        )
        torch.testing.assert_close(
            found,
            network.encode_image((pixels.expand(-1, 3, -1, -1) / 255 - mean) / std),
            atol=1e-5,
            rtol=1e-5,
        )
        torch.testing.assert_close(
            embedded_texts(networks),
            network.encode_text(open_clip.tokenizer.SimpleTokenizer()(TEXTS, context_length=24)),
            atol=1e-5,
            rtol=1e-5,
        )


def test_the_record_counts_no_training_and_the_curve_has_a_nan_loss(job, finished):
    store = RunStore(job["store"])
    record = store.record(finished["id"])
    assert (record["pairs"], record["device"], record["devices"]) == (0, "cpu", 1)
    assert record["settings"]["objective"]["name"] == "released"
    assert not list(store.folder(finished["id"]).glob("checkpoint*"))
    curves = pd.read_parquet(store.folder(finished["id"]) / RunStore.CURVES)
    assert curves["epoch"].tolist() == [0]
    assert math.isnan(curves["loss"].item())


def test_released_networks_are_evaluated_like_other_runs_and_have_no_curve(
    job, finished, source, tmp_path
):
    texture_boxes(source).to_parquet(tmp_path / "boxes.parquet")
    evaluate_runs(
        source=job["source"],
        subsets=job["subsets"],
        manifest=job["manifest"],
        names={
            "study": "tiny",
            "dataset": "textures",
            "condition": "{}",
            "objective": "CLIP",
            "variant": "{}",
        },
        store=job["store"],
        settings=EVALUATION,
        device="cpu",
        rows=tmp_path / "rows.parquet",
        curves=tmp_path / "curves.parquet",
        runs=tmp_path / "runs.json",
        boxes=tmp_path / "boxes.parquet",
    )
    rows = pd.read_parquet(tmp_path / "rows.parquet")
    assert set(rows["task"]) >= {
        "zero-shot",
        "retrieval sentence",
        "grounding",
        "linear probe",
        "region retrieval",
        "fine-tuning",
    }
    assert set(rows["objective"]) == {"CLIP"}
    assert json.loads((tmp_path / "runs.json").read_text())[0]["id"] == finished["id"]
    trained = pd.DataFrame(
        {
            "study": "tiny",
            "dataset": "textures",
            "objective": "CL",
            "seed": 0,
            "epoch": [1, 2],
            "loss": [2.0, 1.0],
        }
    )
    curves = pd.concat([pd.read_parquet(tmp_path / "curves.parquet"), trained], ignore_index=True)
    assert curves["epoch"].dtype == "int64"
    figure = by_objective(
        SimpleNamespace(curves=curves, note_on=lambda datasets, objectives: ""),
        "loss",
        "Loss (nats)",
    )
    drawn = [line.get_label() for line in figure.axes[0].get_lines()]
    assert drawn == ["CL"]


@pytest.mark.parametrize("projection", ["linear", "released"])
def test_clip_can_be_trained_and_restored(files, source, subset, tmp_path, projection):
    settings = settings_with(files, {"name": "cl", "directions": "both"}, projection)
    training = ImageText(settings, 0, source, subset, CPU)
    before = {name: value.clone() for name, value in training.weights().items()}
    training.train_epoch()
    save_file(training.weights(), tmp_path / "model.safetensors")
    after = training.weights()
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    # otherwise, within the towers
    heads = {"image_projection", "text_projection"} if projection == "linear" else set()
    assert moved == {"image_encoder", "text_encoder", "logit_scale"} | heads
    networks = read_networks(tmp_path / "model.safetensors", settings)
    assert all(
        torch.equal(value, after[name]) for name, value in networks.model.state_dict().items()
    )


def flickr30k_settings(files):
    """Return the settings of each objective of the shipped study, with a tiny CLIP and one
    update.
    """
    file = "config/studies/flickr30k.yaml"
    small = load_configuration(miniatures(shipped()[file], file), file)
    found = {
        run.objective: run.settings for run in all_runs("flickr30k", small.studies["flickr30k"])
    }
    changes = {
        "encoder": files,
        "text_encoder": files,
        "training": {"updates": 1, "warmup_updates": 0},
    }
    return {
        name: {section: values | changes.get(section, {}) for section, values in settings.items()}
        for name, settings in found.items()
    }


def features_of(networks, source):
    """Return embeddings and regions of a few images, and embeddings of a few texts."""
    images = networks.columns.augmentation.normalise(torch.from_numpy(source.images[:4]))
    model = networks.model.eval()
    with torch.no_grad():
        return *model.embed("image_", images, regions=True), embedded_texts(networks)


def test_objectives_on_flickr30k_start_from_clip_and_train_its_heads(
    files, source, subset, tmp_path
):
    settings = flickr30k_settings(files)
    zero_shot = settings.pop("CLIP-ZS")
    save_file(
        ImageText.untrained_weights(zero_shot, 0, source, subset),
        tmp_path / "model.safetensors",
    )
    expected = features_of(read_networks(tmp_path / "model.safetensors", zero_shot), source)
    assert {"InfoNCE", "ReCo", "OC"} <= settings.keys()
    for objective, own in settings.items():
        training = ImageText(own, 0, source, subset, CPU)
        for found, value in zip(features_of(training.networks, source), expected, strict=True):
            torch.testing.assert_close(found, value, rtol=0, atol=0)
        parameters = dict(training.model.named_parameters())
        decay = {
            id(one): group["weight_decay"]
            for group in training.optimizer.param_groups
            for one in group["params"]
        }
        assert [name for name, one in parameters.items() if id(one) not in decay] == [], objective
        assert (
            decay[id(parameters["text_encoder.network.text_projection"])]
            == own["training"]["weight_decay"]
            == 0.01
        )
        assert decay[id(parameters["image_encoder.network.attnpool.c_proj.bias"])] == 0.0
        # The softmax of attention does not depend on the bias of its keys.
        heads = {
            name: one
            for name, one in parameters.items()
            if ".attnpool." in name or "text_projection" in name
        }
        del heads["image_encoder.network.attnpool.k_proj.bias"]
        # positions, weights and biases of four layers, and the projection of texts
        assert len(heads) == 1 + 4 + 3 + 1
        start = {name: one.detach().clone() for name, one in heads.items()}
        training.train_epoch()
        assert [
            name for name, one in heads.items() if one.grad is None or not one.grad.any()
        ] == [], objective
        assert [name for name, one in heads.items() if torch.equal(one, start[name])] == [], (
            objective
        )


def test_a_released_run_whose_weights_are_missing_is_refused(files, source, subset):
    settings = settings_with(files | {"weights": "nowhere.safetensors"}, {"name": "released"})
    with pytest.raises(UserError, match=r"nowhere\.safetensors .*open_clip"):
        ImageText.untrained_weights(settings, 0, source, subset)


def test_jobs_that_need_the_same_released_run_wait_for_each_other(
    job, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(engine, "run_id", lambda run, checksum: f"{run.seed}-{checksum[:8]}")
    ready, end = threading.Event(), threading.Event()

    def load_for_long():
        with RunStore(job["store"]).owned(finished["id"]):
            ready.set()
            end.wait(600)

    loading = threading.Thread(target=load_for_long)
    loading.start()
    assert ready.wait(300)
    threading.Timer(0.5, end.set).start()
    engine.train_runs(**(job | {"manifest": tmp_path / "manifest.json"}))
    loading.join()
    assert read_manifest(tmp_path / "manifest.json", RunStore(job["store"])) == [finished]
