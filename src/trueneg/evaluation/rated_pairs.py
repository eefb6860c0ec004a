"""The pairs that people rated, among a seed's test images: whose caption, whose image, and both as anchors."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.human_ratings import RATINGS, SENSITIVITY, THRESHOLD, false_negatives


@dataclass(frozen=True, eq=False)
class RatedPairs:
    """n rated pairs of one of m images and a caption of ANOTHER of them, of which there are C, T of them different texts.

    Attributes:
        positions: (m,) of the images in the source.
        captions: C rows, every caption of the images: ``report``, ``index``, ``image`` (which of the m it was written for),
            ``text`` (which of the texts), and the class probabilities that the source knows.
        texts: the T texts.
        image: (n,) which of the m.
        caption: (n,) which of the C.
        ratings: (n, 3).
    """

    positions: np.ndarray
    captions: pd.DataFrame
    texts: list[str]
    image: np.ndarray
    caption: np.ndarray
    ratings: np.ndarray

    @property
    def anchors(self) -> dict[str, np.ndarray]:
        """(n,) the anchor of each pair: its caption (``text``: its candidates are images), or its image (captions)."""
        return {"text": self.caption, "image": self.image}

    @property
    def text(self) -> np.ndarray:
        """(n,) which of the texts is rated."""
        return self.captions["text"].to_numpy()[self.caption]

    @property
    def own_texts(self) -> np.ndarray:
        """(m, K) which texts are the captions of each image, in their order."""
        ordered = self.captions.sort_values(["image", "index"], kind="stable")
        return ordered["text"].to_numpy().reshape(len(self.positions), -1)

    def anchor_names(self, kind: str) -> np.ndarray:
        """(C,) or (m,) names of the anchors: ``report#index`` of a caption, the report of an image."""
        names = self.captions["report"].astype(str)
        if kind == "text":
            return (names + "#" + self.captions["index"].astype(str)).to_numpy(str)
        return names.groupby(self.captions["image"]).first().to_numpy(str)


def rated_pairs(source: PairSource, ratings: pd.DataFrame, test: np.ndarray) -> RatedPairs:
    """The rated pairs of which image and caption are both among some images; an image with its own caption is no negative.

    Args:
        source: one image per report, and equally many captions of each.
        ratings: of :func:`trueneg.data.pairs.flickr8k.read_ratings`.
        test: positions of the images.

    Raises:
        UserError: if there are no two anchors with false and true negatives on each side.
    """
    reports = pd.Index(source.reports[test])
    table = source.sentences[source.sentences["report"].isin(reports)].reset_index(drop=True)
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    captions = table.drop(columns=["sentence", "class"]).assign(image=reports.get_indexer(table["report"]), text=numbers)
    places = pd.MultiIndex.from_frame(captions[["report", "index"]])
    caption = places.get_indexer(pd.MultiIndex.from_frame(ratings[["report", "index"]]))
    image = reports.get_indexer(ratings["image"])
    chosen = (caption >= 0) & (image >= 0) & (ratings["image"] != ratings["report"]).to_numpy()
    found = RatedPairs(test, captions, texts.tolist(), image[chosen], caption[chosen], ratings.loc[chosen, RATINGS].to_numpy())
    false = false_negatives(found.ratings)
    for kind, own in found.anchors.items():
        both = np.intersect1d(own[false], own[~false])
        if len(both) < 2:
            raise UserError(
                f"source {source.name}: of {len(ratings):,} rated pairs {len(false):,} lie in the test split, where {len(both)} "
                f"{kind} anchors have false and true negatives, expected at least 2; take more images (dataset.images)."
            )
    return found


def anchor_rows(scores: Mapping[str, Callable[[np.ndarray, np.ndarray, float], pd.DataFrame]], pairs: RatedPairs) -> pd.DataFrame:
    """Areas within anchors of some scores, for text and image anchors, at every threshold.

    Args:
        scores: by name, from ratings, the anchor of each pair and a threshold to areas
            (:func:`trueneg.evaluation.human_ratings.areas_within_anchors`).
        pairs: rated pairs.

    Returns:
        A row per anchor: ``anchor``, ``area``, ``comparisons``, ``score``, ``anchors`` (text, image), ``threshold``.
    """
    parts, thresholds = [], (THRESHOLD, *SENSITIVITY)
    for (score, areas), (kind, own), threshold in itertools.product(scores.items(), pairs.anchors.items(), thresholds):
        found = areas(pairs.ratings, own, threshold)
        names = pairs.anchor_names(kind)[found["anchor"]]
        parts.append(found.assign(anchor=names, score=score, anchors=kind, threshold=threshold))
    return pd.concat(parts, ignore_index=True)
