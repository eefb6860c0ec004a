"""Networks without training equal their files or the initial networks of their seed; a fixed
temperature is constant.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torchvision.models import resnet18

from tests import biovil
from tests.miniature.harness import shipped
from tests.studies import tiny_study
from tests.text import models
from tests.textures import settings_of, texture_source
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.models.text_encoders import load_bert
from trueneg.models.weights import convert
from trueneg.randomness import seed_for
from trueneg.training.frozen import NOTHING_FROZEN, Frozen, build_tower
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks
from trueneg.training.simclr import SimCLR, evaluated_encoder

CPU = torch.device("cpu")
TEXTS = ["The lungs are clear.", "No pneumothorax."]


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=40)


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0)


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("bert"), models.tokenizer()
    tokenizer.save_pretrained(folder)
    models.bert(len(tokenizer)).save_pretrained(folder)
    return folder


def restored(settings, seed, source, subset, path):
    """Return the networks in the file of an untrained run."""
    save_file(ImageText.untrained_weights(settings, seed, source, subset), path)
    return read_networks(path, settings)


def test_biovil_is_evaluated_as_released(source, subset, bert_folder, tmp_path):
    bert, tokenizer = load_bert(bert_folder)
    for name, path in biovil.write_pickles(tmp_path, bert).items():
        convert(path, tmp_path / f"{name}.safetensors")
    settings = settings_of(
        {"name": "released"}, projection={"name": "released"}, augmentation={"crop": 1.0}
    )
    text = dict.fromkeys(("revision", "maximum_tokens", "frozen_layers")) | {
        "offline": False,
        "truncate": True,
    }
    text |= {
        "name": "pretrained",
        "model": str(bert_folder),
        "pooling": "cls",
        "projection": str(tmp_path / "text.safetensors"),
    }
    settings |= {
        "encoder": {"name": "biovil", "weights": str(tmp_path / "image.safetensors")},
        "text_encoder": text,
    }
    networks = restored(settings, 0, source, subset, tmp_path / "model.safetensors")
    pixels, tokens = (
        torch.from_numpy(source.images[:3]),
        tokenizer(TEXTS, padding=True, return_tensors="pt"),
    )
    with torch.no_grad():
        images = networks.model.embed(
            "image_", networks.columns.augmentation.normalise(pixels), regions=True
        )
        pooled, patches = biovil.official_image_model()(pixels.expand(-1, 3, -1, -1) / 255)
        first = bert(tokens["input_ids"], tokens["attention_mask"]).last_hidden_state[:, 0]
        expected = biovil.official_text_embedding(
            first, biovil.official_projection_head(bert.config.hidden_size)
        )
        texts = networks.model.embed("text_", tokens["input_ids"], tokens["attention_mask"]).pooled
        scores = networks.model.similarity(texts, images)
    torch.testing.assert_close(images.pooled, pooled)
    torch.testing.assert_close(images.regions, patches)
    torch.testing.assert_close(texts, expected)
    torch.testing.assert_close(
        scores, torch.cosine_similarity(expected[:, None], pooled[None], dim=2)
    )
    head = {
        name: torch.zeros(4, *value.shape[1:])
        for name, value in biovil.official_projection_head(16).items()
    }
    head["cls_projection_head.dense_to_output.weight"] = torch.zeros(4, 4)
    save_file(head, tmp_path / "text.safetensors")
    with pytest.raises(UserError, match=r"image\.safetensors.* 12 .*text\.safetensors.* 4"):
        ImageText.untrained_weights(settings, 0, source, subset)


def test_untrained_networks_keep_the_features_of_the_image_encoder(source, subset, tmp_path):
    torch.manual_seed(0)
    network = resnet18().eval()
    save_file(network.state_dict(), tmp_path / "imagenet.safetensors")
    settings = settings_of(
        {"name": "untrained"}, projection={"name": "none"}, augmentation={"crop": 1.0}
    )
    settings["encoder"] = {"name": "resnet18", "weights": str(tmp_path / "imagenet.safetensors")}
    networks = restored(settings, 0, source, subset, tmp_path / "model.safetensors")
    seen = source.images[subset.train] / 255
    images = (torch.from_numpy(source.images[:3]) / 255 - seen.mean()) / seen.std()
    network.fc = torch.nn.Identity()
    with torch.no_grad():
        found = networks.model.embed(
            "image_",
            networks.columns.augmentation.normalise(torch.from_numpy(source.images[:3])),
            regions=True,
        )
        torch.testing.assert_close(
            found.pooled, network(images.float().expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(found.regions.mean((2, 3)), found.pooled)
        tokens = networks.anchors.tokenizer(TEXTS, padding=True, return_tensors="pt")
        texts = networks.model.embed("text_", tokens["input_ids"], tokens["attention_mask"]).pooled
    assert texts.shape == (2, 512)


def test_untrained_networks_equal_the_initial_networks_of_training(source, subset):
    settings = settings_of({"name": "untrained"}, projection={"name": "none"})
    first, again, other = (
        ImageText.untrained_weights(settings, seed, source, subset) for seed in (0, 0, 1)
    )
    drawn = [
        name
        for name in first
        if name.endswith("conv1.weight") or name.startswith("text_projection.weight")
    ]
    assert len(drawn) > 2
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in drawn)
    started = ImageText(
        settings | {"objective": {"name": "clip"}}, 0, source, subset, CPU
    ).weights()
    assert started.keys() == first.keys()
    assert [name for name in first if not torch.equal(first[name], started[name])] in (
        [],
        ["text_encoder/tokenizer"],
    )


def on_tower(**changes):
    """The runs of a study of images on a tower of timm, by objective."""
    tower = {"name": "timm", "model": "test_vit", **changes}
    study = load_configuration({"tiny": tiny_study(encoder=tower)}, "study.yaml").studies["tiny"]
    return {run.objective: run.settings for run in all_runs("tiny", study)}


def test_images_on_a_pretrained_tower_have_a_run_without_training():
    assert "untrained" in on_tower(train="none", views=2)
    assert "untrained" in on_tower()  # all of the tower is trained
    assert "untrained" not in on_tower(weights="none")
    study = load_configuration({"tiny": tiny_study()}, "study.yaml").studies["tiny"]
    assert "untrained" not in study.objectives  # a network from scratch
    longer = tiny_study(encoder={"name": "timm", "model": "test_vit"}, projection={"hidden": 7})
    longer["training"] = longer["training"] | {"epochs": 9, "temperature": 0.3}
    changed = load_configuration({"tiny": longer}, "study.yaml").studies["tiny"]
    (other,) = (
        run.settings
        for run in all_runs("tiny", changed)
        if (run.objective, run.seed) == ("untrained", 1)
    )
    without = on_tower()["untrained"]
    assert other["projection"] == without["projection"]
    assert other["training"]["temperature"] == without["training"]["temperature"]


def test_untrained_images_have_the_features_of_their_tower(source):
    settings = on_tower(train="none", views=2)["untrained"]
    vectors = np.random.default_rng(0).normal(size=(5, 3, 6, 1)).astype(np.float32)
    frozen = Frozen({"encoder": StoredFeatures(vectors, None, "", "")})
    tensors = SimCLR.untrained_weights(settings, 0, source, None, frozen)
    encoder = evaluated_encoder(settings, 1, frozen, tensors)
    first = torch.from_numpy(vectors[:, 0, :, 0])
    torch.testing.assert_close(encoder(first[..., None, None]), first)
    settings = on_tower(weights="none")["CL"] | {"objective": {"name": "untrained"}}
    tensors = SimCLR.untrained_weights(settings, 0, source, None)
    torch.manual_seed(seed_for(0, "weights"))
    tower = build_tower(settings, "encoder")
    encoder = evaluated_encoder(settings, 1, NOTHING_FROZEN, tensors).eval()
    images = torch.rand(2, 1, 32, 32)
    torch.testing.assert_close(encoder(images), tower(images).pooled)


def test_another_tower_without_training_takes_the_place_of_the_study_s(source):
    objectives = {
        "CL": {"name": "cl"},
        "mine": {"name": "untrained", "encoder": {"name": "vectors", "path": "mine.npy"}},
        "Oracle": {"name": "oracle"},
    }
    study = tiny_study(
        encoder={"name": "timm", "model": "test_vit", "train": "none", "views": 2},
        objectives=objectives,
    )
    study["primary"] |= {"treatment": "Oracle"}
    loaded = load_configuration({"tiny": study}, "study.yaml").studies["tiny"]
    settings = {run.objective: run.settings for run in all_runs("tiny", loaded)}
    assert settings["mine"]["encoder"]["path"] == "mine.npy"
    assert settings["mine"]["objective"] == settings["untrained"]["objective"]
    assert loaded.first_baseline == "untrained"
    assert loaded.compared == ["mine"]
    vectors = np.random.default_rng(0).normal(size=(5, 1, 6, 1)).astype(np.float32)
    frozen = Frozen({"encoder": StoredFeatures(vectors, None, "", "")})
    tensors = SimCLR.untrained_weights(settings["mine"], 0, source, None, frozen)
    encoder = evaluated_encoder(settings["mine"], 1, frozen, tensors)
    first = torch.from_numpy(vectors[:, 0, :, 0])
    torch.testing.assert_close(encoder(first[..., None, None]), first)


def test_infonce_of_reco_keeps_the_temperature_and_its_variant_learns_it(source, subset):
    file = "config/studies/reco.yaml"
    runs = all_runs("reco", load_configuration(shipped()[file], file).studies["reco"])
    objectives = {run.objective: run.settings["objective"] for run in runs}
    scales = {}
    for name in ("InfoNCE", "InfoNCE-learned"):
        training = ImageText(
            settings_of(objectives[name], training={"epochs": 1}), 0, source, subset, CPU
        )
        before = training.model.logit_scale().item()
        training.train_epoch()
        scales[name] = before, training.model.logit_scale().item()
    assert scales["InfoNCE"] == pytest.approx((10, 10))
    assert scales["InfoNCE-learned"][0] == pytest.approx(10)
    assert scales["InfoNCE-learned"][1] != pytest.approx(10, abs=1e-4)
