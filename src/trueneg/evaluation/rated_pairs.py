"""The pairs that people rated, among a seed's test images: whose caption, whose image, and both as anchors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.human_ratings import RATINGS, SENSITIVITY, THRESHOLD, AnchorAreas, false_negatives
from trueneg.evaluation.implied_scores import drawn_areas


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
        """(C,) or (m,) what the anchors are called: ``report#index`` of a caption, the report of an image."""
        names = self.captions["report"].astype(str)
        if kind == "text":
            return (names + "#" + self.captions["index"].astype(str)).to_numpy(str)
        return names.groupby(self.captions["image"]).first().to_numpy(str)


def rated_pairs(source: PairSource, ratings: pd.DataFrame, test: np.ndarray) -> RatedPairs:
    """The rated pairs of which image and caption are both among some images; an image with its own caption is no negative.

    Args:
        source: images, one a report, with as many captions each.
        ratings: of :func:`trueneg.data.pairs.flickr8k.read_ratings`.
        test: positions of the images.

    Raises:
        UserError: if there are no two anchors with false and true negatives on each side.
        ValueError: if a report has several images, or captions are not as many of each.
    """
    reports = pd.Index(source.reports[test])
    table = source.sentences[source.sentences["report"].isin(reports)].reset_index(drop=True)
    if not reports.is_unique or table["report"].value_counts().nunique() != 1:
        raise ValueError(f"source {source.name}: expected one image a report, and as many captions of each.")
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    captions = table.drop(columns=["sentence", "class"]).assign(image=reports.get_indexer(table["report"]), text=numbers)
    places = pd.MultiIndex.from_frame(captions[["report", "index"]])
    caption = places.get_indexer(pd.MultiIndex.from_frame(ratings[["report", "index"]]))
    image = reports.get_indexer(ratings["image"])
    chosen = (caption >= 0) & (image >= 0) & (ratings["image"] != ratings["report"]).to_numpy()
    found = RatedPairs(test, captions, texts.tolist(), image[chosen], caption[chosen], ratings.loc[chosen, RATINGS].to_numpy())
    false = false_negatives(found.ratings) if chosen.any() else np.zeros(0, bool)
    for kind, own in found.anchors.items():
        both = np.intersect1d(own[false], own[~false])
        if len(both) < 2:
            raise UserError(
                f"source {source.name}: of {len(ratings):,} rated pairs {len(false):,} lie in the test split, where {len(both)} "
                f"{kind} anchors have false and true negatives, expected at least 2; take more images (dataset.images)."
            )
    return found


def area_rows(scores: Mapping[str, np.ndarray], pairs: RatedPairs) -> pd.DataFrame:
    """The :func:`anchor_rows` of some scores by name; each is (n,), or (n, K) where a batch draws one of K."""
    parts = [anchor_rows(name, pairs, partial(_drawn, values, pairs.ratings)) for name, values in scores.items()]
    return pd.concat(parts, ignore_index=True)


def anchor_rows(score: str, pairs: RatedPairs, areas: Callable[[np.ndarray, float], AnchorAreas]) -> pd.DataFrame:
    """Areas within anchors, of both sides, at every threshold.

    Args:
        score: the name of what ranks.
        pairs: rated pairs.
        areas: from the anchor of each pair and a threshold to areas.

    Returns:
        A row per anchor: ``score``, ``anchors`` (text, image), ``threshold``, ``anchor``, ``area``, ``comparisons``.
    """
    parts = []
    for kind, own in pairs.anchors.items():
        for threshold in (THRESHOLD, *SENSITIVITY):
            found = areas(own, threshold)
            labels = {"score": score, "anchors": kind, "threshold": threshold}
            names = pairs.anchor_names(kind)[found.anchors]
            parts.append(pd.DataFrame({**labels, "anchor": names, "area": found.areas, "comparisons": found.comparisons}))
    return pd.concat(parts, ignore_index=True)


def _drawn(values: np.ndarray, ratings: np.ndarray, anchors: np.ndarray, threshold: float) -> AnchorAreas:
    return drawn_areas(values.reshape(len(anchors), -1), false_negatives(ratings, threshold), anchors)
