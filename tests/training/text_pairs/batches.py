"""What is known of a batch of texts, and the terms of a run."""

import functools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.golden.numerics import double_precision
from tests.questions import frozen_of, settings_of, started, subset_of, vectors_of
from trueneg.training.text_pairs import TextPairs
from trueneg.training.text_similarity import embeddings_of

CPU = torch.device("cpu")
SCALE, HARD = 6.0, 2
SIDES = {"text": ("text",), "image": ("image",), "both": ("text", "image")}
KINDS = {"drawn": {}, "given": {"given": True}, "hard negatives": {"given": True, "hard": HARD}}


def plain(text):
    return " ".join(text.lower().split()).strip(" .!?")


@dataclass
class Facts:
    """What is known of a batch of B pairs and B + B·H columns, by their texts alone."""

    run: TextPairs
    pairs: Any
    count: int
    texts: list[list[str]]
    classes: list[list[int]]
    cosines: list[list[float]]

    def same(self, i, j):
        """Whether column j is a text of pair i, or its pair has the anchor of i."""
        (anchors, columns) = ([plain(text) for text in texts] for texts in self.texts)
        return columns[j] in (anchors[i], columns[i]) or (
            j < self.count and anchors[j] == anchors[i]
        )

    def match(self, i, j):
        return self.classes[0][i] == self.classes[1][j]

    @functools.cached_property
    def weighted_words(self):
        """Tf-idf weights of the words of each distinct training text."""
        words_of = {
            text: re.findall(r"\w\w+", text.lower())
            for sample in self.trained_on
            for text in sample
        }
        containing, count = (
            Counter(word for words in words_of.values() for word in set(words)),
            1 + len(words_of),
        )
        return {
            text: {
                word: words.count(word) * (1 + math.log(count / (1 + containing[word])))
                for word in words
            }
            for text, words in words_of.items()
        }

    @property
    def trained_on(self):
        """The training texts, a list for each sample; an anchor comes first."""
        source = self.run.data.source
        rows = source.pairs if len(source.pairs) else source.anchors[:, None]
        texts = source.sentences["sentence"].tolist()
        return [[texts[row] for row in sample] for sample in rows[subset_of(source).train].tolist()]


def facts_of(run, pairs):
    """Read a batch: texts, the class of each (none of hard negatives), and the cosines of their
    stored vectors.
    """
    data, count = run.data, len(pairs.anchors)
    texts = [
        [data.sentences[number] for number in numbers.tolist()]
        for numbers in (pairs.anchors, pairs.columns)
    ]
    labels = {
        text: label
        for text, label in zip(
            *(data.source.sentences[key] for key in ("sentence", "class")), strict=True
        )
        if label >= 0
    }
    classes = [
        [labels[text] for text in side[:count]] + [-1] * (len(side) - count) for side in texts
    ]
    towers = [run.frozen.texts, run.frozen.stored.get("positive_encoder", run.frozen.texts)]
    vectors = [
        [tower.values[run.frozen.rows[text], 0, :, 0] for text in side]
        for tower, side in zip(towers, texts, strict=True)
    ]
    return Facts(
        run, pairs, count, texts, classes, [[cosine(u, v) for v in vectors[1]] for u in vectors[0]]
    )


def cosine(u, v):
    return float(u @ v) / math.sqrt(float(u @ u) * float(v @ v))


def with_loss(source, objective, **sections):
    """Return the facts of the first batch of a run without a head, and the run's terms, in
    float64.
    """
    unprojected = {"projection": {"name": "none"}, "similarity": {"logit_scale": SCALE}} | sections
    if objective.get("by") == "text":
        embeddings_of(source, [], CPU)  # kept from here on, in float32
    with double_precision():
        others = {}
        if is_guided_by(objective, "encoder"):
            others["guide text_encoder"] = vectors_of(source, 4, seed=7, dtype=np.float64)
        frozen = frozen_of(source, np.float64, **others)
        run = started(source, settings_of(objective, **unprojected), frozen)
        run.network.double()
        run.network.train()
        run.update = 1  # after which thresholds are learned
        pairs, inputs = next(run.batches(2))
        terms = run.backward(pairs, inputs)[0]
    return facts_of(run, pairs), terms


def is_guided_by(objective, name):
    return (objective.get("guide") or {}).get("name") == name


ENCODER = {
    "name": "encoder",
    "text_encoder": {"name": "vectors", "path": "made up", "column": None, "train": "none"},
}
WORDS, SELF, EMA, LABELS = (
    {"name": "words"},
    {"name": "self"},
    {"name": "ema", "momentum": 0.9},
    {"name": "labels"},
)
