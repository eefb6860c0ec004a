"""t-SNE embeddings are deterministic and preserve neighbours."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

from trueneg.evaluation.embedding import silhouettes, tsne


def some_digits(count):
    return load_digits().data[:count]


def test_tsne_is_deterministic_for_a_seed():
    pixels = some_digits(120)
    picture = tsne(pixels, seed=3)
    assert (picture.shape, picture.dtype) == ((120, 2), np.float64)
    assert np.array_equal(picture, tsne(pixels, seed=3))


def test_tsne_ignores_feature_lengths():
    pixels = some_digits(90)
    # exact in floating point
    lengths = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(90, 1))
    assert np.array_equal(tsne(pixels, seed=0), tsne(pixels * lengths, seed=0))


def test_tsne_preserves_cosine_neighbours():
    pixels = some_digits(600)
    picture = tsne(pixels, seed=0)
    # 0.83 for two components
    assert trustworthiness(pixels, picture, n_neighbors=10, metric="cosine") > 0.98


@pytest.mark.parametrize("count", [4, 22, 61, 91, 92])
def test_perplexity_is_reduced_for_few_points(count, caplog):
    pixels = some_digits(count)
    assert np.isfinite(tsne(pixels, seed=0)).all()
    assert not caplog.records


def test_tsne_accepts_zero_features():
    pixels = some_digits(40)
    pixels[7] = 0
    assert np.isfinite(tsne(pixels, seed=0)).all()


@pytest.mark.parametrize(
    "features", [np.zeros((40, 8)), np.arange(1.0, 41)[:, None] * np.arange(8)]
)
@pytest.mark.filterwarnings("error")
def test_equal_features_are_one_point_and_reported(features, caplog):
    noise = 1e-8 * np.random.default_rng(0).normal(size=features.shape)
    assert not tsne(features, seed=0).any()
    assert not tsne(features + noise * features.any(), seed=0).any()
    assert ["40 features are equal" in record.getMessage() for record in caplog.records] == [
        True
    ] * 2


def test_silhouettes_equal_their_definition_with_cosine_distances():
    pixels, labels = load_digits().data[:60], load_digits().target[:60]
    units = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    expected = []
    for image, label in enumerate(labels):
        others = [n for n in range(60) if n != image]
        to_class = {
            other: np.mean([1 - units[image] @ units[n] for n in others if labels[n] == other])
            for other in range(10)
        }
        own, nearest = to_class.pop(label), min(to_class.values())
        expected.append((nearest - own) / max(nearest, own))
    np.testing.assert_allclose(silhouettes(pixels, labels), expected)


@pytest.mark.parametrize("labels", [[2, 2, 2, 2], [0, 1, 2, 3]])
def test_silhouettes_need_two_classes_and_two_images_of_one(labels):
    assert np.isnan(silhouettes(some_digits(4), np.array(labels))).all()
