"""The image protocol: every measurement of a block of runs, as tidy rows."""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor

from trueneg.compute.devices import leased_device
from trueneg.data.images.image_source import ImageSource, read_source
from trueneg.data.images.subsets import Subset, read_subsets
from trueneg.evaluation.accuracy import accuracies
from trueneg.evaluation.embedding import tsne
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.linear_probe import label_subset, train_linear_probes
from trueneg.evaluation.mean_classifier import mean_classifier
from trueneg.evaluation.nearest_neighbours import effective_k, weighted_knn
from trueneg.evaluation.training_records import manifest_names
from trueneg.io.files import written_whole
from trueneg.models.image_encoders import build_encoder
from trueneg.randomness import seed_for
from trueneg.stats.measurement import Measurement
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training.augment import build_augmentation
from trueneg.training.simclr import channel_statistics

log = logging.getLogger(__name__)

SPLITS = ("validation", "test")


class EncodedRun(NamedTuple):
    """A run's features of every image that its evaluation needs."""

    id: str
    subset: Subset
    features: Tensor  # (n, D), a row an image of the source; rows of images outside all splits are zero
    labels: Tensor  # (n,)

    def of(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Features and labels of some images."""
        chosen = torch.from_numpy(indices).to(self.features.device)
        return self.features[chosen], self.labels[chosen]

    def pool(self, name: str) -> np.ndarray:
        """The training images that lend their labels: ``"imbalanced"`` (the run's subset) or ``"all"``."""
        return self.subset.train if name == "imbalanced" else self.subset.pool


def image_rows(
    listed: Sequence[Mapping[str, Any]],
    store: RunStore,
    data: Mapping[str, str | Path | None],
    settings: Mapping[str, Any],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Rows of the encoders of some runs.

    Args:
        listed: the manifest's runs.
        store: that holds them.
        data: ``source`` (decoded images, npz) and ``subsets`` (parquet).
        settings: resolved evaluation settings.
        device: where to compute.
    """
    images = read_source(data["source"])
    encoded = list(_encoded(listed, images, read_subsets(data["subsets"]), store, device))
    return _measure(encoded, images, settings)


def _encoded(
    listed: Sequence[Mapping[str, Any]],
    images: ImageSource,
    by_seed: Mapping[int, Subset],
    store: RunStore,
    device: torch.device,
) -> Iterator[EncodedRun]:
    pixels, labels = torch.from_numpy(images.images), torch.from_numpy(images.labels).to(device)
    for run in listed:
        subset, settings = by_seed[run["seed"]], store.record(run["id"])["settings"]
        encoder = build_encoder(**settings["encoder"], in_channels=pixels.shape[1])
        encoder.load_state_dict(_encoder_weights(run["model"]))
        encoder.to(device, memory_format=torch.channels_last)
        augmentation = build_augmentation(settings["augmentation"], *channel_statistics(images)).to(device)
        needed = torch.from_numpy(np.concatenate([subset.pool, subset.validation, subset.test]))
        features = torch.zeros(len(pixels), encoder.dimensions, device=device)
        features[needed.to(device)] = extract_features(encoder, augmentation.normalise, pixels[needed])
        log.info("seed %d: features of %d images", run["seed"], len(needed))
        yield EncodedRun(run["id"], subset, features, labels)


def _encoder_weights(path: Path) -> dict[str, Tensor]:
    weights = load_file(path)
    return {name.removeprefix("encoder."): value for name, value in weights.items() if name.startswith("encoder.")}


def _measure(runs: Sequence[EncodedRun], images: ImageSource, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every measurement of every run: linear probes of all seeds at once, then neighbours and means seed by seed."""
    classes = len(images.class_names)
    for run in runs:
        for task, split in itertools.product(("linear probe", "knn", "mean classifier"), SPLITS):
            yield _row(run, split, Measurement(task, "chance"), 1 / classes)
    probe = settings["linear_probe"]
    for pool in probe["label_pools"]:
        for fraction in sorted(probe["label_fractions"]):
            banks = [run.of(_labelled(run, pool, fraction)) for run in runs]
            probes = train_linear_probes(
                [features for features, _ in banks],
                [labels for _, labels in banks],
                classes,
                epochs=probe["epochs"],
                batch_size=probe["batch_size"],
                learning_rate=probe["learning_rate"],
                weight_decay=probe["weight_decay"],
                generator_seeds=[seed_for(run.subset.seed, "linear probe") for run in runs],
            )
            for split in SPLITS:
                # Splits are stratified, so all seeds hold equally many images.
                predicted = probes.predict([run.of(getattr(run.subset, split))[0] for run in runs])
                for run, predictions in zip(runs, predicted, strict=True):
                    measured = Measurement("linear probe", "accuracy", pool, fraction)
                    yield from _accuracy_rows(run, images, split, measured, predictions)
            log.info("linear probes, %s labels, fraction %g", pool, fraction)
    neighbours = settings["knn"]
    for run in runs:
        for pool in neighbours["label_pools"]:
            bank, labels = run.of(run.pool(pool))
            k = effective_k(neighbours["neighbours"], labels)
            for split in SPLITS:
                queries, _ = run.of(getattr(run.subset, split))
                vote = weighted_knn(bank, labels, queries, k=k, temperature=neighbours["temperature"], classes=classes)
                yield from _accuracy_rows(run, images, split, Measurement("knn", "accuracy", pool), vote)
                yield _row(run, split, Measurement("knn", "neighbours", pool), k)
                means = mean_classifier(bank, labels, queries, classes=classes)
                yield from _accuracy_rows(run, images, split, Measurement("mean classifier", "accuracy", pool), means)


def _labelled(run: EncodedRun, pool: str, fraction: float) -> np.ndarray:
    indices = run.pool(pool)
    labels = run.labels.cpu().numpy()[indices]
    return indices[label_subset(labels, fraction, run.subset.seed)]


def _accuracy_rows(
    run: EncodedRun, images: ImageSource, split: str, measured: Measurement, predictions: Tensor
) -> Iterator[dict[str, Any]]:
    labels = images.labels[getattr(run.subset, split)]
    found = accuracies(predictions.cpu().numpy(), labels, images.class_names, run.subset.rare_classes)
    for group, value in found.items():
        yield _row(run, split, measured._replace(group=group), value)


def _row(run: EncodedRun, split: str, measured: Measurement, value: float) -> dict[str, Any]:
    return {"seed": run.subset.seed, "run": run.id, "split": split, **measured._asdict(), "value": float(value)}


def embed_run(
    *,
    source: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    images: int,
    device: str,
    threads: int,
    embedding: str | Path,
) -> None:
    """t-SNE coordinates of test images under the encoder of a manifest's first run.

    The test images are the same for all objectives of a seed; of more than `images`, every class gives the same share.

    Args:
        source: decoded images (npz).
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON); the first is embedded.
        store: the run store's folder.
        images: at most so many test images.
        device: as ``training.device``.
        threads: of this process.
        embedding: parquet file to write: dataset, objective, seed, x, y, label (the class name), rare.

    Raises:
        UserError: if a run, the images or the subsets are missing or do not belong together.
    """
    torch.set_num_threads(threads)
    everything, listed = read_source(source), read_manifest(manifest, RunStore(store))[:1]
    with leased_device(device) as leased:
        (run,) = _encoded(listed, everything, read_subsets(subsets), RunStore(store), leased)
    test = run.subset.test
    if len(test) > images:
        test = test[label_subset(everything.labels[test], images / len(test), run.subset.seed)]
    features, labels = run.of(test)
    points = tsne(features.cpu().numpy(), run.subset.seed, jobs=threads)
    labels = labels.cpu().numpy()
    names = manifest_names(manifest)
    table = pd.DataFrame(
        {
            "dataset": names["dataset"],
            "objective": names["objective"],
            "seed": run.subset.seed,
            "x": points[:, 0],
            "y": points[:, 1],
            "label": np.array(everything.class_names)[labels],
            "rare": np.isin(labels, list(run.subset.rare_classes)),
        }
    )
    with written_whole(embedding) as path:
        table.to_parquet(path, index=False)
