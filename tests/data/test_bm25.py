"""Hard negatives that are mined by words: ranks follow the formula of BM25, similarities are those
of the tower.
"""

import itertools
import math
import re
import sys
from collections import Counter

import numpy as np
import pytest

from tests.data.test_mining import pairs_of, source_of_labels, source_of_pairs, whole
from trueneg.data.mining import mine
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError


def scores_of(query, documents, k=1.5, b=0.75):
    """BM25 of each document (Robertson and Zaragoza, 2009), with the logarithm of Lucene, which is
    never negative.
    """
    words = [re.findall(r"\b\w\w+\b", document.lower()) for document in documents]
    average = sum(map(len, words)) / len(words)
    scores = []
    for document in words:
        score = 0.0
        for word in re.findall(r"\b\w\w+\b", query.lower()):
            containing = sum(word in other for other in words)
            frequency = Counter(document)[word]
            idf = math.log(1 + (len(words) - containing + 0.5) / (containing + 0.5))
            length = 1 - b + b * len(document) / average
            score += idf * frequency / (frequency + k * length)
        scores.append(score)
    return scores


@pytest.mark.parametrize("several", [False, True])
def test_ranks_follow_bm25_and_similarities_are_those_of_the_tower(several):
    pytest.importorskip("bm25s")  # an extra, which the oldest supported versions lack
    generator = np.random.default_rng(0)
    source, texts = source_of_pairs(pairs_of(generator, 30, several))
    vocabulary = [f"word{number}" for number in range(25)]
    texts = [" ".join(generator.choice(vocabulary, generator.integers(1, 9))) for _ in texts]
    sentences = source.sentences.assign(sentence=texts)
    source = TextSource(source.name, sentences, source.rows, ())
    vectors = generator.normal(size=(len(texts), 5)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mined = mine(source, whole(source), vectors, bm25=True)
    documents = sorted(set(source.rows[:, 1].tolist()))
    missing = 0
    for anchor, candidates, similarity in zip(*mined, strict=True):
        positives = set(source.rows[source.rows[:, 0] == anchor, 1].tolist())
        scores = dict(
            zip(documents, scores_of(texts[anchor], [texts[row] for row in documents]), strict=True)
        )
        near = [
            row
            for row in documents
            if row not in positives and scores[row] > 0 and texts[row] != texts[anchor]
        ]
        missing += len(documents) - len(positives) - len(near)
        found = candidates[candidates >= 0].tolist()
        assert sorted(found) == near
        ranked = [scores[row] for row in found]
        pairs = itertools.pairwise(ranked)
        assert all(first >= second - 2e-4 for first, second in pairs)
        assert np.allclose(similarity[: len(found)], unit[found] @ unit[anchor], atol=1e-4)
        assert (similarity[len(found) :] == -np.inf).all()
    assert missing


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    source = source_of_labels([0, 1, 2])
    with pytest.raises(UserError, match=r"bm25s is missing.*trueneg\[bm25\]"):
        mine(source, whole(source), np.eye(3), bm25=True)
