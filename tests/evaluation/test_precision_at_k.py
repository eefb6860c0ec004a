"""Prec@k by label against sorting and scikit-learn, with unequal labels, the query's own patient,
and unlucky ties.
"""

from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import precision_score

from trueneg.evaluation.pairs import precision as module
from trueneg.evaluation.pairs.precision import label_precisions, single_label_gallery

NAMES = ("edema", "effusion", "pneumonia")


def retrieval_precisions(embeddings, texts, text_labels, labels, patients, ks, names):
    """Return the task's values for test images, direction → k → label → precision; `texts` are the
    scores of prompts.
    """
    images = SimpleNamespace(
        indices=np.arange(len(labels)), embeddings=SimpleNamespace(pooled=embeddings)
    )
    run = SimpleNamespace(
        source=SimpleNamespace(label_names=names, patients=patients),
        images=lambda split: images,
        labels=lambda split: labels,
        similarities=lambda prompts, split: np.stack([texts[int(prompt)] for prompt in prompts]),
        networks=SimpleNamespace(settings={"text_encoder": {"name": "small"}}),
    )
    prompts = {names[label]: {"positive": str(row)} for row, label in enumerate(text_labels)}
    found = {}
    for _, split, measured, value in module.measure(
        [run], {"zero_shot": {"prompts": prompts}, "precision": {"ks": ks}}
    ):
        if split == "test":
            found.setdefault(measured.direction, {}).setdefault(measured.k, {})[
                measured.group or "mean"
            ] = value
    return found


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 10_000))
def test_the_gallery_contains_single_label_images_of_labels_with_two_patients(count, classes, seed):
    generator = np.random.default_rng(seed)
    labels = generator.choice([0.0, 1, np.nan], size=(count, classes), p=[0.6, 0.3, 0.1])
    patients = generator.choice(list("abcd"), size=count)
    found = single_label_gallery(labels, patients)
    expected = []
    for image in range(count):
        positive = [label for label in range(classes) if labels[image, label] == 1]
        if len(positive) == 1 and all(value in (0, 1) for value in labels[image]):
            expected.append((image, positive[0], patients[image]))
    owners = [{patient for _, own, patient in expected if own == label} for label in range(classes)]
    expected = [entry for entry in expected if len(owners[entry[1]]) >= 2]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == [
        (image, label) for image, label, _ in expected
    ]


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 10_000), st.booleans())
def test_precisions_average_over_queries_then_labels_with_ties_against(
    count, queries, seed, by_image
):
    generator = np.random.default_rng(seed)
    labels, owners = generator.integers(3, size=count), generator.integers(5, size=count)
    scores = generator.integers(4, size=(queries, count)) / 4
    own = generator.integers(3, size=queries)
    patients = generator.integers(5, size=queries) if by_image else None
    excluded = None if patients is None else patients[:, None] == owners
    found = label_precisions(scores, own, labels, (1, 2, 4), NAMES, excluded=excluded)
    allowed = [
        [c for c in range(count) if patients is None or owners[c] != patients[q]]
        for q in range(queries)
    ]
    possible = [k for k in (1, 2, 4) if all(len(candidates) >= k for candidates in allowed)]
    assert list(found) == possible
    for k in possible:
        by_label = {}
        for q, candidates in enumerate(allowed):
            ordered = sorted(candidates, key=lambda c, q=q: (-scores[q, c], labels[c] == own[q]))
            share = sum(labels[c] == own[q] for c in ordered[:k]) / k
            by_label.setdefault(NAMES[own[q]], []).append(share)
        means = {name: np.mean(shares) for name, shares in by_label.items()}
        assert found[k] == pytest.approx(means | {"mean": np.mean(list(means.values()))})


def test_with_balanced_queries_precisions_match_scikit_learn():
    """The shape of ConVIRT's set, smaller: 8 labels, 20 images and 5 sentences each."""
    generator = np.random.default_rng(0)
    labels, queries = np.repeat(np.arange(8), 20), np.repeat(np.arange(8), 5)
    scores = generator.standard_normal((40, 160)) + (queries[:, None] == labels)
    names = list("abcdefgh")
    for k, found in zip(
        (5, 10, 50),
        label_precisions(scores, queries, labels, (5, 10, 50), names).values(),
        strict=True,
    ):
        first = scores >= np.sort(scores, axis=1)[:, -k, None]
        expected = [
            precision_score(labels == own, chosen)
            for own, chosen in zip(queries, first, strict=True)
        ]
        assert found["mean"] == pytest.approx(np.mean(expected))


def test_uninformative_scores_give_one_over_the_number_of_labels():
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), [200, 50, 10])
    queries = np.repeat(np.arange(3), 2000)
    found = label_precisions(generator.random((len(queries), 260)), queries, labels, (5,), NAMES)[5]
    assert found["mean"] == pytest.approx(1 / 3, abs=0.01)
    assert found["edema"] == pytest.approx(200 / 260, abs=0.02)


def test_constant_embeddings_have_zero_precision():
    """Ties count against the method: only where the other labels' images run out is one of the own
    label found.
    """
    embeddings, labels = torch.ones(8, 4), np.repeat(np.eye(2), 4, axis=0)
    found = retrieval_precisions(
        embeddings, np.zeros((2, 8)), np.arange(2), labels, np.arange(8), (1, 4), NAMES[:2]
    )
    assert [by_label["mean"] for metrics in found.values() for by_label in metrics.values()] == [
        0
    ] * 5


def test_images_of_the_querys_patient_are_excluded():
    """Every patient's two images are alike, of the same label, and like nobody else's of that
    label.
    """
    embeddings = torch.eye(4).repeat_interleave(2, dim=0) + 0.1 * torch.eye(4).roll(
        1, 0
    ).repeat_interleave(2, dim=0)
    labels = np.eye(2)[[0, 0, 1, 1, 0, 0, 1, 1]]
    patients = np.array(["a", "a", "b", "b", "c", "c", "d", "d"])
    texts = np.array([labels[:, 0], labels[:, 1]])
    found = retrieval_precisions(
        embeddings, texts, np.arange(2), labels, patients, (1, 2), NAMES[:2]
    )
    assert [found["image to image"][k]["mean"] for k in (1, 2)] == [0, 0]
    assert [found["text to image"][k]["mean"] for k in (1, 2)] == [1, 1]
    assert found[None][None]["mean"] == 0.5


def test_images_are_compared_by_cosine_and_averaged_over_directions_and_lengths():
    generator = torch.Generator().manual_seed(0)
    labels = np.eye(3)[np.arange(30) % 3]
    embeddings = (
        torch.randn(30, 5, generator=generator)
        + 2 * torch.from_numpy(labels @ np.eye(3, 5)).float()
    )
    texts = np.random.default_rng(0).random((2, 30))
    found = retrieval_precisions(
        embeddings, texts, np.array([2, 0]), labels, np.arange(30), (1, 5), NAMES
    )
    expected = []
    for k in (1, 5):
        shares = []
        for query in range(30):
            cosines = torch.cosine_similarity(embeddings[query], embeddings, dim=1)
            cosines[query] = -2
            shares.append((cosines.topk(k).indices % 3 == query % 3).float().mean().item())
        expected.append(np.mean(shares))  # ten queries a label
        assert found["image to image"][k]["mean"] == pytest.approx(expected[-1])
        by_text = [
            (texts[row].argsort()[-k:] % 3 == label).mean() for row, label in enumerate((2, 0))
        ]
        expected.append(np.mean(by_text))
        assert found["text to image"][k]["pneumonia"] == pytest.approx(by_text[0])
    assert found[None][None]["mean"] == pytest.approx(np.mean(expected))
    longer = retrieval_precisions(
        3 * embeddings * torch.rand(30, 1, generator=generator),
        texts,
        np.array([2, 0]),
        labels,
        np.arange(30),
        (5,),
        NAMES,
    )
    assert longer["image to image"][5] == pytest.approx(found["image to image"][5])


def test_list_lengths_beyond_the_candidates_are_skipped_and_logged(caplog):
    labels, texts = np.eye(2)[[0, 0, 1, 1]], np.ones((2, 4))
    found = retrieval_precisions(
        torch.rand(4, 3), texts, np.arange(2), labels, np.arange(4), (1, 4, 50), NAMES[:2]
    )
    assert {direction: list(by_length) for direction, by_length in found.items()} == {
        "image to image": [1],
        "text to image": [1, 4],
    }
    assert any("[4, 50]" in message and "3" in message for message in caplog.messages)


def test_nothing_is_measured_without_single_label_images():
    labels = np.array([[1.0, 1.0], [np.nan, 1.0], [0.0, 0.0]])
    assert not retrieval_precisions(
        torch.rand(3, 2), np.ones((2, 3)), np.arange(2), labels, np.arange(3), (1,), NAMES[:2]
    )
