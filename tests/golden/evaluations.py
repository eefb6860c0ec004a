"""Entries of image encoders, and of each evaluation task of every kind on tiny runs."""

import functools
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.evaluation.texts.embedded import labelled_run, paired_run
from tests.golden.golden import RTOL, Entry, checksum
from tests.golden.numerics import double_precision, summary
from tests.textures import LSE_NL, TEXTURES, settings_of, texture_boxes, texture_source
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.chexpert_8x200 import LABELS, Benchmark
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.pair_features import embed_images
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.models.image_encoders import ENCODERS, build_encoder
from trueneg.specs.kinds import KINDS
from trueneg.store.versions import today
from trueneg.training.augment import build_augmentation
from trueneg.training.networks import build_networks
from trueneg.training.sides.base import TrainedOn

CPU = torch.device("cpu")
PROBE = {"batch_size": 32, "learning_rate": 0.03, "weight_decay": 1e-3}
IMAGES: dict[str, Any] = {
    "knn": {"neighbours": 5, "temperature": 0.1, "label_pools": ["imbalanced", "all"]},
    "linear_probe": {
        "epochs": 3,
        "label_fractions": [0.3, 1.0],
        "label_pools": ["imbalanced", "all"],
    }
    | PROBE,
}
IMAGES["augmented_linear_probe"] = IMAGES["linear_probe"] | {"update_batch_norm": True}
PAIRS: dict[str, Any] = {
    "zero_shot": {
        "prompts": {
            name: {"negative": f"No {name}.", "positive": f"Seen left {name}."} for name in TEXTURES
        }
    },
    "retrieval": {"ks": [1, 3]},
    "grounding": {"smoothing": 1.0},
    "linear_probe": {"fractions": [0.3, 1.0], "epochs": 3} | PROBE,
    "region_retrieval": {"ks": [1, 3]},
    "precision": {"ks": [1, 3]},
    "chexpert_8x200": {"ks": [1, 3]},
    "fine_tuning": {"fractions": [0.5, 1.0], "epochs": 1} | PROBE,
    "augmented_linear_probe": {"fractions": [0.5, 1.0], "epochs": 1} | PROBE,
}
TEXTS: dict[str, Any] = {
    "knn": {"neighbours": 5},
    "linear_probe": {"C": 2.0},
    "retrieval": {"ks": [1, 3], "all_answers": False},
}


def entries() -> Iterator[tuple[str, Entry]]:
    """Each image encoder, the encoding of images, and each task."""
    for name in ENCODERS:
        yield (
            f"images: encoder {name}",
            Entry((f"encoder/images/{name}",), functools.partial(_encoder, name)),
        )
    yield "images: features", Entry(("evaluation/images",), _image_features)
    yield "image-text: features", Entry(("evaluation/image-text",), _pair_features)
    for part in today():
        if part.startswith("task/"):
            _, kind, name = part.split("/")
            # its heatmaps are float32: 3e-8 between processors
            rtol = 1e-5 if name == "grounding" else RTOL
            yield (
                f"{kind}: task {name}",
                Entry((part, f"evaluation/{kind}"), functools.partial(_rows, kind, name), rtol),
            )
            if kind == "images" and name != "largest_class":
                compute = functools.partial(_rows, kind, name, balanced=True)
                yield (
                    f"{kind}: task {name}, balanced accuracy",
                    Entry((part, f"evaluation/{kind}"), compute, rtol),
                )


def _encoder(name: str) -> dict[str, Any]:
    """Features of noise, from an encoder with new weights, in training and in evaluation."""
    with double_precision():
        torch.manual_seed(0)
        encoder = build_encoder(
            name, in_channels=3, **({"width": 4} if name == "small_resnet" else {})
        )
        images = torch.randn(3, 3, 8, 8)
        with torch.no_grad():
            features = {
                "in training": encoder.train()(images),
                "in evaluation": encoder.eval()(images),
            }
        return summary(
            features | {"weights": torch.cat([value.flatten() for value in encoder.parameters()])}
        )


def _rows(kind: str, name: str, balanced: bool = False) -> dict[str, Any]:
    """The measurements of a task on one run; those of single classes of images are left out.

    Balanced accuracies are entries of their own: they were added without a higher VERSION, which
    leaves earlier rows current.
    """
    module = importlib.import_module(f"trueneg.evaluation.{KINDS[kind].SAMPLES}.{name}")
    with double_precision(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = {
            "images": lambda: [_image_run()],
            "image-text": lambda: [_pair_run()],
            "text": lambda: [labelled_run(), paired_run()],
        }
        settings = {"images": IMAGES, "image-text": PAIRS, "text": TEXTS}[kind]
        rows = [
            (split, tuple(measured), float(value))
            for run in runs[kind]()
            for _, split, measured, value in module.measure([run], settings)
        ]
    if kind == "images":
        rows = [row for row in rows if (row[1][-1] == "macro") == balanced]
    classes = _image_run().source.class_names if kind == "images" else ()
    kept = [row for row in rows if row[1][-1] not in classes and not set(row[1]) & set(classes)]
    splits = dict.fromkeys(split for split, _, _ in kept)
    values = {
        split: [value for row_split, _, value in kept if row_split == split] for split in splits
    }
    return {"keys": checksum([row[:2] for row in rows])} | values


@functools.cache
def _image_run() -> EncodedRun:
    """Noisy features that depend on the class, for images of five classes, two of them rare."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 40)
    pixels = np.random.default_rng(1).integers(0, 150, (200, 1, 8, 8), np.uint8)
    pixels[np.arange(200), 0, labels] += 100  # a bright row
    source = ImageSource("noise", pixels, labels, np.zeros(200, bool), tuple("abcde"))
    subset = make_subset(
        source, seed=0, fraction=0.3, rare_classes=[3, 4], validation=0.2, test=0.3
    )
    features = np.eye(8)[labels] + 0.6 * generator.standard_normal((200, 8))
    torch.manual_seed(0)
    encoder = build_encoder("small_resnet", in_channels=1, width=4)
    augmentation = build_augmentation({"name": "digits"}, [0.3], [0.4]).double()
    return EncodedRun(
        "abc",
        subset,
        source,
        torch.from_numpy(features),
        torch.from_numpy(labels),
        encoder,
        augmentation,
    )


@functools.cache
def _pair_run() -> EmbeddedPairs:
    """Networks with new weights, in float64, whose batch norms have seen the training images."""
    source = texture_source(patients=50)
    subset = split_pairs(source, 0, validation=0.2, test=0.3)
    settings = settings_of(similarity=LSE_NL, augmentation={"crop": 0.75})
    torch.manual_seed(0)
    known = TrainedOn(source.sentences["sentence"].tolist(), 1, ([0.5], [0.2]))
    networks = build_networks(settings, known)
    model = networks.model.double().train()
    networks.columns.augmentation.double()
    with torch.no_grad():
        for _ in range(20):
            model.image_encoder(
                networks.columns.augmentation.normalise(
                    torch.from_numpy(source.images[subset.train])
                )
            )
    texts = pd.DataFrame(
        {"sentence": [f"Seen left stripes {name}." for name in LABELS for _ in "ab"]}
    )
    texts = texts.assign(
        sentence=texts["sentence"] + ["", " No blobs."] * 8, label=np.repeat(LABELS, 2)
    )
    order = np.append(np.random.default_rng(0).permutation(np.repeat(range(8), 4)), range(8))
    patients = np.array([f"p{place % 7}" for place in range(40)])
    benchmark = Benchmark(source.images[:40], np.arange(40) >= 32, order, LABELS, patients, texts)
    return EmbeddedPairs("abc", networks, source, subset, CPU, texture_boxes(source), benchmark)


def _image_features() -> dict[str, Any]:
    with double_precision():
        torch.manual_seed(0)
        encoder = build_encoder("small_resnet", in_channels=1, width=4).eval()
        augmentation = build_augmentation({"name": "digits"}, [0.3], [0.4]).double()
        pixels = torch.from_numpy(
            np.random.default_rng(0).integers(0, 256, (10, 1, 8, 8), np.uint8)
        )
        return summary({"features": extract_features(encoder, augmentation.normalise, pixels)})


def _pair_features() -> dict[str, Any]:
    with double_precision():
        run = _pair_run()
        images = embed_images(run.networks, run.source, run.subset.test, CPU, regions=True)
        scores = torch.as_tensor(run.similarities(["Seen left stripes.", "No blobs."], "test"))
        named = {
            "features": images.features,
            "pooled": images.embeddings.pooled,
            "regions": images.embeddings.regions,
        }
        return summary(named | {"similarities": scores})
