"""Towers on a simulated GPU: an update has no operands on the CPU and does not wait, and frozen
towers are computed there.
"""

import json

import numpy as np
import pytest
import torch
from tests.models.towers.test_open_clip_towers import CONFIGS
from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.objectives import train_one_update
from tests.pretended_gpu import GPU, pretended_gpu, without_driver
from tests.textures import settings_of, texture_source

from trueneg.data.pairs.pair_source import distinct_texts
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.stored_features import StoredFeatures
from trueneg.training.frozen import Frozen, build_tower, image_vectors, text_vectors
from trueneg.training.image_text import ImageText

pytestmark = pytest.mark.filterwarnings(
    "ignore:User provided device_type of 'cuda'", "ignore:CUDA is not available"
)

FROZEN = {"resolution": None, "views": None, "train": "none"}


def timm(model, **changes):
    return {"name": "timm", "model": model, "weights": "none", **FROZEN, **changes}


def texts(folder, kind, **changes):
    settings = {
        "name": "sentence_transformers",
        "model": str(folder_of(kind, folder / kind)),
        "revision": None,
        "offline": True,
    }
    return settings | {"truncate": True, "maximum_tokens": None, "train": "none"} | changes


def open_clip(folder, name):
    path = folder / f"{name}.json"
    path.write_text(json.dumps(CONFIGS[name]))
    return {"name": "open_clip", "model": str(path), "weights": "none", "train": "none"}


IMAGES = {
    "timm ViT": lambda folder: timm("test_vit"),
    "timm ConvNeXt": lambda folder: timm("test_convnext"),
    "open_clip ViT": lambda folder: open_clip(folder, "vit") | FROZEN,
}
TEXTS = {
    kind: lambda folder, kind=kind: texts(folder, kind)
    for kind in ("bert", "roberta", "mpnet", "modernbert", "static")
}
TEXTS["open_clip"] = lambda folder: (
    open_clip(folder, "vit") | {"truncate": True, "maximum_tokens": None}
)


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=20)


@pytest.mark.parametrize(
    ("image", "text"),
    [("timm ViT", "bert"), ("timm ConvNeXt", "mpnet"), ("open_clip ViT", "open_clip")],
)
def test_an_update_of_trained_towers_stays_on_the_gpu(monkeypatch, tmp_path, source, image, text):
    settings = settings_of({"name": "cl", "directions": "both"}) | {
        "encoder": IMAGES[image](tmp_path) | {"train": "all"},
        "text_encoder": TEXTS[text](tmp_path) | {"train": "all"},
    }
    without_driver(monkeypatch)
    with pretended_gpu(readable=True) as device:
        training = ImageText(settings, 0, source, split_pairs(source, 0), GPU)
        device.readable = False
        train_one_update(training)
    assert {value.device.type for value in training.network.parameters()} == {"cuda"}


@pytest.mark.parametrize("image", IMAGES)
def test_images_are_embedded_on_the_gpu(monkeypatch, tmp_path, source, image):
    tower = build_tower({**settings_of(), "encoder": IMAGES[image](tmp_path)}, "encoder")
    expected = image_vectors(
        tower, source.images, lambda pixels, chosen: [pixels / 255], True, slice(0, 3)
    )
    without_driver(monkeypatch)
    with pretended_gpu(readable=True), torch.inference_mode():
        computed = image_vectors(
            tower.to(GPU), source.images, lambda pixels, chosen: [pixels / 255], True, slice(0, 3)
        )
    assert computed.shape == expected.shape


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_embedded_on_the_gpu(monkeypatch, tmp_path, text):
    tower = build_tower({**settings_of(), "text_encoder": TEXTS[text](tmp_path)}, "text_encoder")
    without_driver(monkeypatch)
    with pretended_gpu(readable=True), torch.inference_mode():
        assert text_vectors(tower.to(GPU), ["No stripes.", "Blobs."], GPU).shape == (
            2,
            1,
            tower.dimensions,
            1,
        )


def test_an_update_on_stored_vectors_stays_on_the_gpu(monkeypatch, tmp_path, source):
    generator, listed = np.random.default_rng(0), distinct_texts(source)
    values = [
        generator.standard_normal((count, 1, 6, 1)).astype(np.float32)
        for count in (len(source.images), len(listed))
    ]
    images, stored = (StoredFeatures(each, None, "", source.checksum) for each in values)
    frozen = Frozen(
        {"encoder": images, "text_encoder": stored}, {text: row for row, text in enumerate(listed)}
    )
    settings = settings_of(
        {"name": "cl", "directions": "both"},
        projection={"name": "residual", "hidden": 8, "dropout": 0.1},
    )
    settings |= {
        "encoder": timm("test_vit"),
        "text_encoder": {"name": "sentence_transformers", "train": "none"},
    }
    without_driver(monkeypatch)
    with pretended_gpu(readable=True) as device:
        training = ImageText(settings, 0, source, split_pairs(source, 0), GPU, frozen=frozen)
        device.readable = False
        train_one_update(training)
    assert {value.device.type for value in training.network.parameters()} == {"cuda"}
