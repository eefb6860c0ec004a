"""Retrieval that one can look at: for some queries, what a finished image–text run puts first, and whether it is relevant."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from trueneg.compute.devices import leased_device
from trueneg.data.pairs.pair_source import PairSource
from trueneg.evaluation.pair_pictures import OTHER, OWN, TRUE
from trueneg.evaluation.pairs import first_of
from trueneg.evaluation.retrieval import ranks
from trueneg.evaluation.said import said_of
from trueneg.evaluation.training_records import first_run_names
from trueneg.randomness import seed_for
from trueneg.store.run_store import RunStore
from trueneg.text import privacy

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
    """
    torch.set_num_threads(threads)
    kept = RunStore(store)
    with leased_device(device) as leased:
        run = first_of(manifest, kept, {"source": source, "subsets": subsets}, leased)
        pairs, test, seed = run.source, run.subset.test, run.subset.seed
        table = pd.DataFrame(columns=COLUMNS)
        if not pairs.restricted:
            texts, relation = relations(pairs, test)
            table = retrieval_examples(run.similarities(texts, "test"), texts, relation, pairs, test, seed)
    names = first_run_names(manifest, seed)
    privacy.write_table(table.assign(**names)[[*names, *COLUMNS]], examples, pairs.restricted)


def relations(source: PairSource, indices: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The T different sentences of some images' reports, and int8 (T, n): the place of their relation in :data:`RELATIONS`.

    A sentence of another report that is true of the image is a false negative; where no class is known, there is none.
    """
    said = said_of(source, indices)
    return said.texts, np.where(said.own, RELATIONS.index(OWN), said.true).astype(np.int8)


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
