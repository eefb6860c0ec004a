"""Vectors of frozen towers, computed once, train heads as the towers themselves would in every
step.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.studies import tiny_study, tiny_words, tiny_world
from tests.textures import settings_of, texture_source
from trueneg.config.reading import load_configuration
from trueneg.config.runs import Run, features_key, frozen_towers
from trueneg.data.pairs.pair_source import distinct_texts, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.stored_features import read_features, write_features
from trueneg.errors import UserError
from trueneg.store.run_files import checksum_of, stored_files
from trueneg.training.engine import TrainingJob
from trueneg.training.frozen import (
    NOTHING_FROZEN,
    build_tower,
    compute_features,
    read_frozen,
    rebuild_tower,
    vector_names,
)
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
WHOLE = {"crop": 1.0, "brightness": 0.0, "contrast": 0.0}


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=20)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    image = {
        "name": "timm",
        "model": "test_vit",
        "weights": "none",
        "resolution": None,
        "views": None,
        "train": "none",
    }
    text = {
        "name": "sentence_transformers",
        "revision": None,
        "offline": True,
        "truncate": True,
        "maximum_tokens": None,
    }
    text |= {
        "model": str(folder_of("bert", tmp_path_factory.mktemp("models") / "bert")),
        "train": "none",
    }
    head = {"name": "residual", "dimensions": 8, "hidden": 12, "dropout": 0.0}
    changed = settings_of({"name": "cl", "directions": "both"}, projection=head, augmentation=WHOLE)
    dataset = {"source": "image_table", "resolution": 32, "text": "words"}
    return changed | {"encoder": image, "text_encoder": text, "dataset": dataset}


@pytest.fixture(scope="module")
def weights(settings, tmp_path_factory):
    """Random weights of the image tower in a file: without, each building would draw others."""
    from safetensors.torch import save_file

    torch.manual_seed(3)
    tower = build_tower(settings, "encoder")
    path = tmp_path_factory.mktemp("weights") / "vit.safetensors"
    state = tower.network.state_dict().items()
    save_file({name: value + 0.1 * torch.randn(value.shape) for name, value in state}, path)
    return {**settings, "encoder": settings["encoder"] | {"weights": str(path)}}


@pytest.fixture(scope="module")
def vectors(weights, source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    write_pairs(source, folder / "pairs.npz")
    paths = []
    for made in frozen_towers(weights).values():
        paths.append(folder / f"{features_key(made)}.npz")
        compute_features(
            made,
            source=folder / "pairs.npz",
            features=paths[-1],
            cache=folder / "cache",
            device="cpu",
            threads=1,
        )
    return paths


def stepped(settings, source, frozen):
    """Return the loss and the gradients of the heads after the first batch of a run."""
    subset = split_pairs(source, 0)
    run = ImageText(settings, 0, source, subset, CPU, frozen=frozen)
    run.network.train()
    losses, gradients = [], {}
    for batch in run.batches(1):
        terms, *_ = run.backward(*batch)
        losses.append(terms.loss.item())
        gradients = {
            name: one.grad.clone()
            for name, one in run.model.named_parameters()
            if one.grad is not None
        }
    return losses, gradients


@pytest.mark.parametrize("aggregation", ["global", "lse"])
def test_stored_vectors_give_the_loss_and_gradients_of_the_tower_in_the_step(
    weights, source, tmp_path, aggregation
):
    sharpness = None if aggregation == "global" else 5.0
    similarity = weights["similarity"] | {"aggregation": aggregation, "lse_sharpness": sharpness}
    settings = {**weights, "similarity": similarity}
    write_pairs(source, tmp_path / "pairs.npz")
    paths = []
    for made in frozen_towers(settings).values():
        paths.append(tmp_path / f"{features_key(made)}.npz")
        compute_features(
            made,
            source=tmp_path / "pairs.npz",
            features=paths[-1],
            cache=tmp_path / "c",
            device="cpu",
            threads=1,
        )
    stored_loss, stored = stepped(
        settings, source, read_frozen(vector_names(settings), source, paths)
    )
    loss, computed = stepped(settings, source, NOTHING_FROZEN)
    assert stored_loss == pytest.approx(loss, rel=1e-5)
    assert stored.keys() == computed.keys()
    assert {name.split(".")[0] for name in stored} == {
        "image_projection",
        "text_projection",
        "logit_scale",
    }
    for name, gradient in stored.items():
        torch.testing.assert_close(gradient, computed[name], rtol=1e-5, atol=1e-5)


def test_vectors_are_those_of_the_libraries_in_the_order_of_the_source(weights, source, vectors):
    import timm
    from safetensors.torch import load_file
    from sentence_transformers import SentenceTransformer

    images, texts = (read_features(path, source.checksum) for path in vectors)
    network = timm.create_model("test_vit", num_classes=0).eval()
    network.load_state_dict(load_file(weights["encoder"]["weights"]))
    config = network.pretrained_cfg
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    pixels = torch.from_numpy(np.array(source.images)).expand(-1, 3, -1, -1) / 255
    resized = torch.nn.functional.interpolate(
        pixels, config["input_size"][1:], mode="bicubic", antialias=True
    )
    with torch.no_grad():
        expected = network((resized - mean) / std)
    torch.testing.assert_close(
        torch.from_numpy(np.array(images.values[:, 0, :, 0])), expected, rtol=1e-4, atol=1e-4
    )
    encoded = SentenceTransformer(weights["text_encoder"]["model"], device="cpu").encode(
        distinct_texts(source)
    )
    np.testing.assert_allclose(texts.values[:, 0, :, 0], encoded, rtol=1e-4, atol=1e-5)


def test_vectors_of_other_data_and_damaged_ones_are_refused(weights, source, vectors, tmp_path):
    other = texture_source(patients=10)
    with pytest.raises(UserError, match="vectors of other data"):
        read_frozen(vector_names(weights), other, vectors)
    content = bytearray(vectors[0].read_bytes())
    content[len(content) // 2] ^= 255
    damaged = tmp_path / vectors[0].name
    damaged.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged.*Remove it"):
        read_frozen(vector_names(weights), source, [damaged, vectors[1]])


def write(cache, path, count, compute):
    made = {"tower": {"model": "tiny"}, "weights": "w", "data": "d"}
    write_features(path, cache, made, count, compute, grid=None, at_once=4, restricted=False)


@pytest.mark.parametrize("damage", ["progress", "values", "one byte", "fewer"])
def test_damaged_unfinished_vectors_are_computed_again(tmp_path, damage):
    def killed(chosen):
        if chosen.start == 8:
            raise KeyboardInterrupt
        return np.full((chosen.stop - chosen.start, 1, 2, 1), chosen.start, np.float32)

    def whole(chosen):
        return np.full((chosen.stop - chosen.start, 1, 2, 1), chosen.start, np.float32)

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "cache", tmp_path / "a.npz", 12, killed)
    progress, values = tmp_path / "cache/progress.json", tmp_path / "cache/values.npy"
    if damage == "progress":
        progress.write_text(progress.read_text()[:9])
    elif damage == "values":
        values.write_bytes(values.read_bytes()[:20])
    elif damage == "one byte":
        content = bytearray(values.read_bytes())
        content[-4 * 12] ^= 1  # of the second piece of three
        values.write_bytes(bytes(content))
    else:
        np.save(values, np.zeros((3, 1, 2, 1), np.float32))
    write(tmp_path / "cache", tmp_path / "a.npz", 12, whole)
    assert (
        read_features(tmp_path / "a.npz", "d").values[:, 0, 0, 0].tolist()
        == [0] * 4 + [4] * 4 + [8] * 4
    )


def test_vectors_with_nan_are_refused_with_the_networks_name(tmp_path):
    with pytest.raises(UserError, match=r"tiny gives vectors with NaN or inf for samples 0 to 3"):
        write(
            tmp_path / "cache",
            tmp_path / "a.npz",
            8,
            lambda chosen: np.full((4, 1, 2, 1), np.nan, np.float32),
        )


def test_two_columns_of_a_file_are_different_data(tmp_path, source):
    write_pairs(source, tmp_path / "pairs.npz")
    generator = np.random.default_rng(0)
    table = {name: [*generator.standard_normal((len(source.images), 4))] for name in "ab"}
    pd.DataFrame(table).to_parquet(tmp_path / "vectors.parquet")
    stored = []
    for column in "ab":
        tower = {
            "name": "vectors",
            "path": str(tmp_path / "vectors.parquet"),
            "column": column,
            "train": "none",
        }
        made = {
            "section": "encoder",
            "tower": tower,
            "samples": "images",
            "kind": "image-text",
            "data": "x",
            "regions": "",
        }
        path = tmp_path / f"{column}.npz"
        compute_features(
            made,
            source=tmp_path / "pairs.npz",
            features=path,
            cache=tmp_path / "c",
            device="cpu",
            threads=1,
        )
        stored.append(read_features(path, source.checksum).weights)
    assert stored[0] != stored[1]


def test_a_frozen_tower_is_not_rebuilt_from_files_that_have_changed(weights, source, tmp_path):
    (made,) = (
        each for section, each in frozen_towers(weights).items() if section == "text_encoder"
    )
    folder = Path(weights["text_encoder"]["model"])
    write_pairs(source, tmp_path / "pairs.npz")
    place = {"source": tmp_path / "pairs.npz", "features": tmp_path / "vectors.npz"}
    found = {str(folder): checksum_of(folder)}
    compute_features(made, **place, cache=tmp_path / "cache", device="cpu", threads=1, files=found)
    stored = read_features(place["features"], source.checksum)
    assert stored.files == stored_files(place["features"]) == found
    rebuild_tower(weights, "text_encoder", stored.weights, stored.files)
    other = {str(folder): "0123"}
    with pytest.raises(UserError, match="has changed since vectors were computed with it"):
        rebuild_tower(weights, "text_encoder", stored.weights, other)


def test_the_weights_of_each_frozen_tower_are_part_of_the_id(weights, source, vectors):
    frozen = read_frozen(vector_names(weights), source, vectors)
    run = Run("study", "world", "CL", 0, weights)
    checksums = {
        TrainingJob._data_checksum(SimpleNamespace(_source=source, _frozen=towers), run)
        for towers in (
            frozen,
            *(
                frozen._replace(
                    stored={**frozen.stored, section: stored._replace(weights="others")}
                )
                for section, stored in frozen.stored.items()
            ),
        )
    }
    assert len(checksums) == 3


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        (
            {
                "encoder": {"model": ["test_vit", "test_vit2"]},
                "text_encoder": {"model": ["a", "b"]},
            },
            ["model", "both lists"],
        ),
        ({"projection": {"name": "released"}}, ["trains nothing", "train: none"]),
        ({"augmentation": {"crop": 0.5}}, [".augmentation", "not augmented"]),
        ({"evaluation": {"fine_tuning": {"fractions": [1.0]}}}, ["fine_tuning", "stored vectors"]),
    ],
)
def test_settings_that_a_frozen_tower_contradicts_are_refused(changes, facts):
    tower = {"name": "open_clip", "model": "RN50", "weights": "none", "train": "none"}
    study = tiny_world(encoder=dict(tower), text_encoder=dict(tower))
    for section, values in changes.items():
        study[section] = study.get(section, {}) | values
    with pytest.raises(UserError) as raised:
        load_configuration({"words": tiny_words(), "world": study}, "test")
    assert all(fact in str(raised.value) for fact in facts)


def test_views_that_are_all_the_same_are_refused():
    encoder = {"name": "timm", "model": "test_vit", "train": "none", "views": 3}
    with pytest.raises(UserError, match=r"augmentation\.name is none"):
        load_configuration(
            {"tiny": tiny_study(encoder=encoder, augmentation={"name": "none"})}, "test"
        )
    with pytest.raises(UserError, match=r"views"):
        load_configuration({"tiny": tiny_study(encoder=encoder | {"views": None})}, "test")
