"""The suspects are the most similar pairs of training samples with different labels, or of
different pairs; restricted data have none.
"""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.studies import tiny_study
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.samples import Subset, write_subsets
from trueneg.data.stored_features import write_features
from trueneg.data.texts.text_source import TextSource, write_texts
from trueneg.evaluation import suspects
from trueneg.evaluation.suspects import most_similar, write_suspects
from trueneg.io.privacy import read_table


def reference(vectors, rows, labels, count):
    """The same by a loop over pairs."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = {}
    for one in range(len(rows)):
        for other in range(len(rows)):
            first, second = rows[one, 0], rows[other, -1]
            if labels is None:
                is_known = first == rows[other, 0] or rows[one, -1] == second
            else:
                is_known = labels[one] == labels[other] or min(labels[one], labels[other]) < 0
            if not is_known:
                found[tuple(sorted((first, second)))] = units[first] @ units[second]
    return sorted(found.values(), reverse=True)[:count]


def stored(path, vectors, source):
    """Write the stored vectors of a source."""
    made_of = {"weights": "w", "data": source.checksum}
    kept = {"grid": None, "at_once": 64, "restricted": False}
    write_features(path, path.parent / "cache", made_of, len(vectors), vectors.__getitem__, **kept)


@pytest.mark.parametrize("block", [2**24, 100])
@pytest.mark.parametrize("is_labelled", [True, False])
@pytest.mark.parametrize("texts", [30, 5])  # few: each is repeated
def test_the_most_similar_pairs_are_those_of_a_loop(monkeypatch, block, is_labelled, texts):
    monkeypatch.setattr(suspects, "BLOCK", block)
    drawn = np.random.default_rng(0)
    vectors = drawn.normal(size=(63, 4))
    rows = drawn.integers(0, texts, (40, 1 if is_labelled else 2))
    labels = drawn.integers(-1, 3, 40) if is_labelled else None
    if not is_labelled:
        rows[:, 1] += 30  # no text is an anchor and a positive
        rows[:2] = [[60, 61], [62, 61]]
        vectors[61] = vectors[60]  # of one pair, but the positive is also that of the other
    table = most_similar(vectors, rows, labels, 12)
    np.testing.assert_allclose(table["similarity"], reference(vectors, rows, labels, 12))
    one, other = table["sample"], table["sample2"]
    if is_labelled:
        assert (labels[one] != labels[other]).all()
    else:
        assert (rows[one] != rows[other]).all()


def test_two_images_that_differ_in_their_labels_alone_are_the_first_suspects(tmp_path):
    drawn = np.random.default_rng(0)
    pixels = drawn.integers(0, 256, (60, 1, 8, 8), np.uint8)
    animals = ImageSource(
        "animals", pixels, np.arange(60) % 3, np.arange(60) >= 40, ("ant", "bee", "cow")
    )
    write_source(animals, tmp_path / "source.npz")
    subset = make_subset(animals, seed=0)
    write_subsets([subset], tmp_path / "subsets.parquet")
    vectors = drawn.normal(size=(60, 1, 5, 1)).astype(np.float32)
    one, other = subset.train[0], next(n for n in subset.train if n % 3 != subset.train[0] % 3)
    vectors[other] = 2 * vectors[one]
    vectors[subset.test[0]] = vectors[one]  # not of the training data
    stored(tmp_path / "v.npz", vectors, animals)
    write_suspects(
        study=tiny_study(),
        source=tmp_path / "source.npz",
        subsets=tmp_path / "subsets.parquet",
        vectors=[tmp_path / "v.npz"],
        suspects=tmp_path / "suspects.parquet",
    )
    table, is_restricted = read_table(tmp_path / "suspects.parquet")
    assert not is_restricted
    assert len(table) == suspects.COUNT
    first = table.iloc[0]
    assert first["similarity"] == pytest.approx(1)
    assert {first["label"], first["label2"]} == {animals.class_names[n % 3] for n in (one, other)}
    for end in ("", "2"):
        assert Image.open(io.BytesIO(first[f"thumbnail{end}"])).size == (8, 8)


@pytest.mark.parametrize("restricted", [False, True])
def test_texts_of_different_pairs_are_suspects_unless_they_are_restricted(tmp_path, restricted):
    words = ["a", "b", "c", "d", "e", "f", "g", "h"]
    sentences = pd.DataFrame({"sentence": words, "class": -1, "split": ""})
    pairs = np.arange(8).reshape(4, 2)
    source = TextSource("mine", sentences, pairs, (), restricted=restricted)
    write_texts(source, tmp_path / "source.npz")
    subset = Subset(0, source.checksum, np.arange(3), np.array([3]))
    write_subsets([subset], tmp_path / "subsets.parquet")
    vectors = np.eye(8, dtype=np.float32)
    vectors[5] = vectors[0] + 0.1 * vectors[5]  # f, the positive of e, is like a
    stored(tmp_path / "v.npz", vectors[:, None, :, None], source)
    write_suspects(
        study={"kind": "text"},
        source=tmp_path / "source.npz",
        subsets=tmp_path / "subsets.parquet",
        vectors=[tmp_path / "v.npz"],
        suspects=tmp_path / "suspects.parquet",
    )
    table, is_restricted = read_table(tmp_path / "suspects.parquet")
    assert is_restricted == restricted
    assert table.empty == restricted
    if not restricted:
        assert table.iloc[0][["text", "text2"]].tolist() == ["a", "f"]
