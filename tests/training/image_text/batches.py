"""Objectives of image–text training, batches of textures, and loops over plain numbers."""

import math
from types import SimpleNamespace

import torch

from tests.textures import settings_of
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.store.identity import model_of
from trueneg.training.guides.base import UNRATED, Guide, GuideBatch, rate_pairs
from trueneg.training.guides.labels import SharedLabelGuide
from trueneg.training.guides.own import OwnGuide
from trueneg.training.guides.sentences import SentenceGuide
from trueneg.training.pair_criterion import PairCriterion
from trueneg.training.text_similarity import TextSimilarity

CPU = torch.device("cpu")
OBJECTIVES = {
    "cl": {"name": "cl", "directions": "text"},
    "cl image": {"name": "cl", "directions": "image"},
    "cl both": {"name": "cl", "directions": "both"},
    "dcl": {"name": "dcl", "directions": "text", "class_probability": 0.05},
    "dcl lm": {"name": "dcl", "directions": "text", "class_probability": "language model"},
    "dcl permuted": {"name": "dcl", "directions": "both", "class_probability": "permuted"},
    "dcl constant": {"name": "dcl", "directions": "text", "class_probability": "constant mean"},
    "dcl true": {
        "name": "dcl",
        "directions": "text",
        "class_probability": "true",
        "bound_gradient": True,
    },
    "hcl": {"name": "hcl", "directions": "text", "class_probability": 0.02, "beta": 0.5},
    "bcl": {
        "name": "bcl",
        "directions": "text",
        "class_probability": 0.05,
        "alpha": 0.7,
        "beta": 0.5,
    },
    "reco": {"name": "reco", "negative_weight": 0.6},
    "oc": {"name": "oc", "negative_weight": 0.6},
    "oracle": {"name": "oracle", "directions": "both"},
    "remove text": {"name": "remove", "directions": "text", "by": "text", "threshold": 0.9},
    "remove labels": {"name": "remove", "directions": "text", "by": "labels", "threshold": 0.5},
    "resample": {"name": "resample", "directions": "text", "by": "text", "size": 8},
    "reweight": {"name": "reweight", "directions": "both", "by": "text"},
    "clip": {"name": "clip"},
    "biovil": {"name": "biovil", "masked_words_weight": 0.5, "mask_share": 0.15},
    "left out": {"name": "same_sentence", "directions": "text", "mode": "left out"},
    "positives": {"name": "same_sentence", "directions": "both", "mode": "positives"},
    "guided": {
        "name": "guided",
        "directions": "both",
        "margin": 0.0,
        "guide": {"name": "ema", "momentum": 0.9},
    },
    "quantile": {"name": "quantile", "directions": "text", "share": 0.1, "decoupled": True},
    "eliminated": {
        "name": "remove",
        "by": "guide",
        "threshold": 0.2,
        "top_k": 3,
        "guide": {"name": "self"},
    },
    "attracted": {
        "name": "cl",
        "targets": {"name": "fnc", "threshold": 0.2, "top_k": 3},
        "guide": {"name": "self"},
    },
    "switched": {"name": "cl", "directions": "text", "switched_off_by": "language model"},
}


class OfTexts(SentenceGuide):
    """The guide with made-up embeddings."""

    def __init__(self, data, sample):
        Guide.__init__(self, {}, None)
        self.similarity = TextSimilarity(features_of(data), data.text_of, sample)


def loss_of(objective, source, parts, similarity, scale=14.0):
    data, pairs = parts
    guide = None
    if objective.get("by") == "text":
        guide = OfTexts(data, pairs.anchors)
    elif objective.get("by") == "labels":
        guide = SharedLabelGuide(objective, SimpleNamespace(data=data))
    elif "guide" in objective:
        guide = OwnGuide({}, None)
    rated = (
        UNRATED
        if guide is None
        else guide.rate(GuideBatch(*data.compared(pairs), lambda: rate_pairs(similarity)))
    )
    model = model_of(settings_of(objective), "objective")
    made = PairCriterion(model, objective, data, "global", guide)
    index, _ = data.compared(pairs).samples
    return made.of_similarities(
        [similarity], torch.tensor(scale, dtype=torch.float64), pairs, index, rated
    )


def features_of(data):
    """Random embeddings of the distinct sentences."""
    return torch.randn(len(data.texts), 5, generator=torch.Generator().manual_seed(1))


def random_similarity(count=24, seed=0):
    return (
        torch.rand(count, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        * 1.6
        - 0.8
    )


def slow_loss(similarity, scale, left_out, positives=None):
    """The mean over rows of −log e^p / (e^p + Σ kept e^u), averaged over each row's positives."""
    logits, total = (similarity * scale).tolist(), 0.0
    for row, values in enumerate(logits):
        mass = sum(
            math.exp(u)
            for column, u in enumerate(values)
            if column != row and not left_out[row][column]
        )
        own = (
            [row]
            if positives is None
            else [
                column for column in range(len(values)) if column == row or positives[row][column]
            ]
        )
        total += sum(
            -math.log(math.exp(values[p]) / (math.exp(values[p]) + mass)) for p in own
        ) / len(own)
    return total / len(logits)


def facts(source, parts):
    """Return, for each pair of the batch, its sentence, the sentence's class, the sentences of its
    report, and its image.
    """
    data, pairs = parts
    rows = data.source.sentences.iloc[data._sentence_rows].iloc[pairs.anchors.numpy()]
    subset = split_pairs(source, 0)
    images = subset.train[pairs.columns.numpy()]
    said = source.sentences.groupby("report")["sentence"].agg(set)
    return (
        rows["sentence"].tolist(),
        rows["class"].tolist(),
        [said[source.reports[image]] for image in images],
        images,
    )
