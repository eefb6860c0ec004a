"""Finished image–text runs on disk, and slow references: relations, and embeddings of one image or
one sentence at a time.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional

from trueneg.data.pairs.pair_source import PairSource
from trueneg.evaluation.said import OTHER, OWN, TRUE
from trueneg.io.files import file_checksum
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText


def write_runs(
    folder: Path, settings: Mapping[str, Any], runs: Mapping[str, ImageText], **names: str
) -> dict[str, Any]:
    """Write the trainings, one per seed and by run id, to a store and a manifest; return the
    arguments that name these.
    """
    store, listed = RunStore(folder / "runs"), []
    for seed, (run, training) in enumerate(runs.items()):
        model = store.folder(run) / RunStore.MODEL
        model.parent.mkdir(parents=True)
        save_file(training.weights(), model)
        store.finish(run, {"settings": settings, "study": "other", "code": {"versions": {}}})
        listed.append({"seed": seed, "id": run, "checksum": file_checksum(model)})
    manifest = {"study": "s", "dataset": "textures", "objective": "CL"} | names | {"runs": listed}
    path = folder / f"{manifest['objective']}-manifest.json"
    path.write_text(json.dumps(manifest))
    return {"manifest": path, "store": store.path, "device": "cpu"}


def relations(source: PairSource, images: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the distinct sentences of the images' reports, and the relation (sentences, images) of
    each to each image.
    """
    here = source.sentences[source.sentences["report"].isin(source.reports[images])]
    texts, table = sorted(here["sentence"].unique()), []
    for text in texts:
        said = here[here["sentence"] == text]
        true = source.shown[images, said["class"].iloc[0]]
        own = [report in set(said["report"]) for report in source.reports[images]]
        table.append(
            [
                OWN if is_own else TRUE if is_true else OTHER
                for is_own, is_true in zip(own, true, strict=True)
            ]
        )
    return texts, np.array(table)


@torch.no_grad()
def text_embedding(networks: Any, sentence: str) -> torch.Tensor:
    """Return the embedding (1, D) of a sentence."""
    tokens = networks.tokenizer([sentence], return_tensors="pt")
    return networks.model.embed_texts(tokens["input_ids"], tokens["attention_mask"])


@torch.no_grad()
def image_embeddings(networks: Any, image: np.ndarray, regions: bool = False) -> Any:
    """Return the embeddings of one image."""
    return networks.model.embed_images(
        networks.augmentation.normalise(torch.tensor(image[None])), regions=regions
    )


def unit_embedding(networks: Any, image: np.ndarray) -> torch.Tensor:
    """Return the pooled embedding (D,) of one image, of length 1."""
    return functional.normalize(image_embeddings(networks, image).pooled, dim=1)[0]


def similarity_table(networks: Any, images: Any, sentences: Any) -> np.ndarray:
    """Return the similarities (sentences, images)."""
    embedded = [
        image_embeddings(networks, image, networks.model.region_similarity.needs_regions)
        for image in images
    ]
    with torch.no_grad():
        texts = [text_embedding(networks, sentence) for sentence in sentences]
        return np.array(
            [
                [networks.model.similarity(text, image).item() for image in embedded]
                for text in texts
            ]
        )


def heatmap_of(networks: Any, image: np.ndarray, sentence: str, side: int) -> np.ndarray:
    """Return the cosines of a sentence with the regions of an image, interpolated to (side, side)
    pixels.
    """
    regions = image_embeddings(networks, image, regions=True).regions
    grid = functional.cosine_similarity(
        regions, text_embedding(networks, sentence)[:, :, None, None], dim=1
    )
    return (
        functional.interpolate(grid[None], size=(side, side), mode="bilinear")[0, 0]
        .numpy()
        .astype(float)
    )


def contrast(heatmap: np.ndarray, inside: np.ndarray) -> float:
    """Return the signed contrast-to-noise ratio."""
    a, b = heatmap[inside], heatmap[~inside]
    return (a.mean() - b.mean()) / np.sqrt(a.var() + b.var())
