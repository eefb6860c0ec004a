"""Human-rated image–caption pairs from a seed's test images, with captions and images as
anchors.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.human_ratings import RATINGS, SENSITIVITY, THRESHOLD, false_negatives


@dataclass(frozen=True, eq=False)
class RatedCaptions:
    """n rated pairs of an image and a caption of ANOTHER image; the m images have C captions with T
    distinct texts.

    Attributes:
        positions: (m,) positions of the images in the source.
        captions: C rows, all captions of the images: ``report``, ``index``, ``image`` (index of the
            image it was written for), ``text`` (index into ``texts``), ``row`` (in the source's
            sentences), and the source's class probabilities.
        texts: the T distinct texts.
        image: (n,) image index of each pair, in 0 … m − 1.
        caption: (n,) caption index of each pair, in 0 … C − 1.
        text: (n,) index of each pair's caption into ``texts``.
        ratings: (n, 3) ratings of each pair.
    """

    positions: ndarray
    captions: DataFrame
    texts: list[str]
    image: ndarray
    caption: ndarray
    text: ndarray
    ratings: ndarray

    @property
    def anchors(self) -> dict[str, ndarray]:
        """Anchor of each pair, (n,): its caption (``text``; candidates are images) or its image
        (candidates are captions).
        """
        return {"text": self.caption, "image": self.image}

    @property
    def own_texts(self) -> ndarray:
        """Text indices of the captions of each image, in order, (m, K)."""
        ordered = self.captions.sort_values(["image", "index"], kind="stable")
        return ordered["text"].to_numpy().reshape(len(self.positions), -1)

    def anchor_names(self, kind: str) -> ndarray:
        """Return the names of the anchors: ``report#index`` for captions (C,), the report for
        images (m,).
        """
        names = self.captions["report"].astype(str)
        if kind == "text":
            return (names + "#" + self.captions["index"].astype(str)).to_numpy(str)
        return names.groupby(self.captions["image"]).first().to_numpy(str)


def rated_pairs(source: PairSource, ratings: DataFrame, test: ndarray) -> RatedCaptions:
    """Select the rated pairs whose image and caption both belong to the test images, unless the
    caption is the image's own.

    Args:
        source: source with one image per report and the same number of captions for each image.
        ratings: table returned by :func:`trueneg.data.pairs.flickr8k.read_ratings`.
        test: positions of the test images.

    Raises:
        UserError: if fewer than two text anchors or fewer than two image anchors have both false
            and true negatives.
    """
    reports = pd.Index(source.reports[test])
    rows = np.flatnonzero(source.sentences["report"].isin(reports))
    table = source.sentences.iloc[rows].reset_index(drop=True)
    numbers, texts = pd.factorize(table["sentence"], sort=True)
    captions = table.drop(columns=["sentence", "class"]).assign(
        image=reports.get_indexer(table["report"]), text=numbers, row=rows
    )
    places = pd.MultiIndex.from_frame(captions[["report", "index"]])
    caption = places.get_indexer(pd.MultiIndex.from_frame(ratings[["report", "index"]]))
    image = reports.get_indexer(ratings["image"])
    chosen = (caption >= 0) & (image >= 0) & (ratings["image"] != ratings["report"]).to_numpy()
    image = image[chosen]
    caption = caption[chosen]
    chosen_ratings = ratings.loc[chosen, RATINGS].to_numpy()
    rated = RatedCaptions(
        test, captions, texts.tolist(), image, caption, numbers[caption], chosen_ratings
    )
    false = false_negatives(chosen_ratings)
    for kind, anchors in rated.anchors.items():
        both = np.intersect1d(anchors[false], anchors[~false])
        if len(both) < 2:
            raise UserError(
                f"source {source.name}: only {len(both)} {kind} anchors have both false and true"
                f" negatives; expected at least 2; {len(false):,} of {len(ratings):,} rated pairs"
                " are in the test split. Increase dataset.images."
            )
    return rated


def anchor_rows(
    scores: Mapping[str, Callable[[ndarray, ndarray, float], DataFrame]],
    pairs: RatedCaptions,
) -> DataFrame:
    """Compute the within-anchor AUCs for each score, for text and image anchors, at every
    threshold.

    Args:
        scores: name → function that maps ratings, the anchor of each pair and a threshold to AUCs
            (:func:`trueneg.evaluation.human_ratings.areas_within_anchors`).
        pairs: the rated pairs.

    Returns:
        One row per score, anchor and threshold: ``anchor``, ``area``, ``comparisons``, ``score``,
            ``anchors`` (text or image), ``threshold``.
    """
    parts = []
    thresholds = (THRESHOLD, *SENSITIVITY)
    for (score, measure), (kind, anchors), threshold in itertools.product(
        scores.items(), pairs.anchors.items(), thresholds
    ):
        areas = measure(pairs.ratings, anchors, threshold)
        parts.append(
            areas.assign(
                anchor=pairs.anchor_names(kind)[areas["anchor"]],
                score=score,
                anchors=kind,
                threshold=threshold,
            )
        )
    return pd.concat(parts, ignore_index=True)
