"""Retrieval that one can look at: for some queries, what a finished image–text run puts first, and whether it is relevant."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from trueneg.compute.devices import leased_device
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import read_pair_subsets
from trueneg.evaluation.pair_features import embed_images, similarities
from trueneg.evaluation.pair_pictures import OTHER, OWN, TRUE
from trueneg.evaluation.retrieval import ranks
from trueneg.evaluation.training_records import manifest_names
from trueneg.randomness import seed_for
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.text import privacy
from trueneg.training.image_text_networks import read_networks

COLUMNS = ["direction", "query", "text", "image", "rank", "score", "relation", "found", "thumbnail"]
TEXT_TO_IMAGE, IMAGE_TO_TEXT = "text to image", "image to text"
RELATIONS = (OTHER, TRUE, OWN)
QUERIES, LENGTH = 8, 5  # of each direction, and results of each
SIDE = 96  # pixels of a thumbnail's longer side


def write_examples(
    *,
    source: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    threads: int,
    device: str,
    examples: str | Path,
) -> None:
    """Write what the first run of a manifest retrieves among its test images and their sentences.

    Of a restricted source nothing is written but the columns, and the file says that it is restricted.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        subsets: the seeds' subsets (parquet).
        manifest: which runs (JSON).
        store: the run store's folder.
        threads: of the processor.
        device: as ``training.device``.
        examples: parquet file to write: dataset, objective, seed, and the columns of :func:`retrieval_examples`.

    Raises:
        UserError: if a run, the source or the subsets are missing or do not belong together.
    """
    torch.set_num_threads(threads)
    pairs, run, names = read_pairs(source), read_manifest(manifest, RunStore(store))[0], manifest_names(manifest)
    table = pd.DataFrame(columns=COLUMNS)
    if not pairs.restricted:
        test = read_pair_subsets(subsets)[run["seed"]].test
        with leased_device(device) as leased:
            networks = read_networks(run["model"], RunStore(store).record(run["id"])["settings"])
            networks.model.to(leased)
            networks.augmentation.to(leased)
            texts, relation = relations(pairs, test)
            embedded = embed_images(networks, pairs, test, leased, regions=True)
            scores = similarities(networks, texts, embedded, leased)
        table = retrieval_examples(scores, texts, relation, pairs, test, run["seed"])
    labels = {"dataset": names["dataset"], "objective": names["objective"], "seed": run["seed"]}
    privacy.write_table(table.assign(**labels)[[*labels, *COLUMNS]], examples, pairs.restricted)


def relations(source: PairSource, indices: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The different sentences of some images' reports, and how each is related to each image.

    Args:
        source: images and sentences.
        indices: (n,) positions of the images.

    Returns:
        T sentences, and int8 (T, n): 2 where the sentence is in the image's report, 1 where it is of another report but true of
        the image (a false negative), 0 otherwise: places in :data:`RELATIONS`. Where no class is known, there is no 1.
    """
    reports = source.reports[indices]
    table = source.sentences[source.sentences["report"].isin(reports)].drop_duplicates(["report", "sentence"])
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    relation = np.zeros((len(texts), len(indices)), dtype=np.int8)
    classes = table["class"].to_numpy()[np.unique(numbers, return_index=True)[1]]
    known = classes >= 0
    relation[known] = source.shown[indices][:, classes[known]].T
    for report, said in pd.Series(numbers).groupby(table["report"].to_numpy()):
        relation[np.ix_(said, reports == report)] = RELATIONS.index(OWN)
    return texts.tolist(), relation


def retrieval_examples(
    scores: np.ndarray,
    texts: Sequence[str],
    relation: np.ndarray,
    source: PairSource,
    indices: np.ndarray,
    seed: int,
    queries: int = QUERIES,
    length: int = LENGTH,
) -> pd.DataFrame:
    """The first results of some queries in both directions; the queries are the same for every network.

    Args:
        scores: (T, n) similarities of sentences with images.
        texts: T different sentences.
        relation: (T, n), from :func:`relations`.
        source: of the images.
        indices: (n,) positions of the images in the source.
        seed: of the draw of queries.
        queries: how many of each direction, at most.
        length: results of each, at most.

    Returns:
        A row a result: ``direction`` (text to image, image to text), ``query`` (0 … in each direction), ``text``, ``image``
        (position in the source), ``rank`` (from 1), ``score``, ``relation`` (of text and image: one of :data:`RELATIONS`),
        ``found`` (rank of the first of the query's own pairs, as :func:`trueneg.evaluation.retrieval.ranks` has it) and
        ``thumbnail`` (the image as WebP, its longer side at most 96 pixels).
    """
    generator = np.random.default_rng(seed_for(seed, "shown queries"))
    asked = _asked_texts(texts, relation, generator)[:queries]
    directions = {
        TEXT_TO_IMAGE: (asked, scores, relation),
        IMAGE_TO_TEXT: (generator.permutation(len(indices))[:queries], scores.T, relation.T),
    }
    rows, thumbnails = [], {}
    for direction, (chosen, grid, related) in directions.items():
        found = ranks(grid[chosen], related[chosen] == RELATIONS.index(OWN)) if len(chosen) else []
        for number, (query, first_own) in enumerate(zip(chosen, found, strict=True)):
            # Equal scores stand in the order of the source.
            for place, candidate in enumerate(np.argsort(-grid[query], kind="stable")[:length]):
                text, image = (query, candidate) if direction == TEXT_TO_IMAGE else (candidate, query)
                position = int(indices[image])
                if position not in thumbnails:
                    thumbnails[position] = thumbnail(np.asarray(source.images[position]))
                what = {"direction": direction, "query": number, "text": texts[text], "image": position, "rank": place + 1}
                what |= {"score": float(grid[query, candidate]), "relation": RELATIONS[related[query, candidate]]}
                rows.append(what | {"found": int(first_own), "thumbnail": thumbnails[position]})
    return pd.DataFrame(rows, columns=COLUMNS)


def _asked_texts(texts: Sequence[str], relation: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Sentences in the order in which they are asked: those that are true of other reports' images come first.

    There an objective can show whether it pushed false negatives away.
    """
    order = generator.permutation(len(texts))
    elsewhere = (relation[order] == RELATIONS.index(TRUE)).any(1)
    return order[np.argsort(~elsewhere, kind="stable")]


def thumbnail(pixels: np.ndarray, side: int = SIDE) -> bytes:
    """An image as WebP, made smaller where its longer side has more than `side` pixels.

    Args:
        pixels: uint8 (channels, H, W), with 1 or 3 channels.
        side: in pixels.
    """
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1))
    image.thumbnail((side, side))
    stream = io.BytesIO()
    image.convert("RGB").save(stream, "WEBP", quality=82)
    return stream.getvalue()
