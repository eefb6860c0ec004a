"""Objectives of image–text training equal loops over plain numbers."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from tests.training.image_text.batches import (
    CPU,
    OBJECTIVES,
    facts,
    features_of,
    loss_of,
    random_similarity,
    slow_loss,
)
from trueneg.data.pairs.training_split import PairBatch, PairData


def test_class_probabilities_are_those_of_the_sentence(source, parts):
    data, pairs = parts
    columns = {
        "language model": "eta",
        "permuted": "eta permuted",
        "constant mean": "eta constant",
        "true": "eta true",
    }
    for name, column in columns.items():
        objective = {"name": "dcl", "directions": "text", "class_probability": name}
        similarity, scale = random_similarity(), 3.0
        eta = source.sentences.set_index(["report", "index"])[column]
        total = 0.0
        for row, number in enumerate(pairs.anchors.tolist()):
            sentence = data.source.sentences.iloc[data._sentence_rows].iloc[number]
            value = np.float32(eta[sentence["report"], sentence["index"]])
            logits = [scale * float(score) for score in similarity[row]]
            negatives = [math.exp(u) for column, u in enumerate(logits) if column != row]
            positive = math.exp(logits[row])
            mass = max(
                (sum(negatives) - 23 * value * positive) / (1 - value), 23 * math.exp(-scale)
            )
            total += math.log(1 + mass / positive) / 24
        assert loss_of(objective, source, parts, similarity, scale).loss.item() == pytest.approx(
            total, rel=1e-5
        )


@pytest.mark.parametrize(
    "estimator", [{"name": "dcl"}, {"name": "hcl", "beta": 0.5}, {"name": "bcl", "alpha": 0.7}]
)
def test_an_objective_can_have_its_own_a_and_k(source, subset, parts, estimator):
    source = dataclasses.replace(
        source, sentences=source.sentences.assign(**{"eta by length": 0.1})
    )
    table, similarity, data = source.sentences, random_similarity(), PairData(source, subset, CPU)
    permuted = np.log(table["eta permuted"] / 0.25) / 0.35
    eta = 0.4 * np.exp(0.1 * np.log(table["eta"] / 0.25) / 0.35)
    lengths = table["sentence"].str.split().str.len()
    expected = {
        "language model": eta,
        "permuted": 0.4 * np.exp(0.1 * permuted),
        "constant mean": pd.Series(eta.mean(), table.index),
    }
    expected["length"] = eta.groupby(lengths).transform("mean")
    for name, values in expected.items():
        by_hand = dataclasses.replace(source, sentences=table.assign(eta=values))
        of_source = {"directions": "both", "class_probability": "language model"} | estimator
        wanted = loss_of(
            of_source, by_hand, (PairData(by_hand, subset, CPU), parts[1]), similarity, 3.0
        ).loss.item()
        objective = of_source | {"class_probability": name, "a": 0.4, "k": 0.1}
        loss = loss_of(objective, source, (data, parts[1]), similarity, 3.0).loss.item()
        assert loss == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("direction", ["text", "image"])
def test_the_oracle_removes_images_for_which_the_sentence_is_true(source, parts, direction):
    _, classes, _, images = facts(source, parts)
    similarity = random_similarity()
    true = [
        [number >= 0 and bool(source.shown[image, number]) for image in images]
        for number in classes
    ]
    if direction == "image":
        true = np.array(true).T.tolist()
    expected = slow_loss(similarity if direction == "text" else similarity.T, 14.0, true)
    found = loss_of({"name": "oracle", "directions": direction}, source, parts, similarity)
    assert found.loss.item() == pytest.approx(expected, rel=1e-9)
    assert np.array(true).sum() > 24  # more than the pairs themselves


@pytest.mark.parametrize("direction", ["text", "image"])
@pytest.mark.parametrize("mode", ["left out", "positives"])
def test_images_whose_report_contains_the_sentence_are_removed_or_become_positives(
    source, parts, direction, mode
):
    texts, _, said, _ = facts(source, parts)
    similarity = random_similarity()
    same = [[text in own for own in said] for text in texts]
    if direction == "image":
        same = np.array(same).T.tolist()
    matrix = similarity if direction == "text" else similarity.T
    expected = slow_loss(matrix, 14.0, same, same if mode == "positives" else None)
    found = loss_of(
        {"name": "same_sentence", "directions": direction, "mode": mode}, source, parts, similarity
    )
    assert found.loss.item() == pytest.approx(expected, rel=1e-6)
    assert np.array(same).sum() > 24


@pytest.mark.parametrize("by", ["labels", "text"])
def test_removal_by_labels_or_by_sentence_similarity_equals_a_loop(source, parts, by):
    texts, _, _, images = facts(source, parts)
    data, similarity = parts[0], random_similarity()
    if by == "labels":
        alike = [
            [bool(((source.labels[i] == 1) & (source.labels[j] == 1)).any()) for j in images]
            for i in images
        ]
    else:
        mean = np.mean(
            [features_of(data)[data.texts.index(text)].numpy() for text in data.sentences], axis=0
        )
        rows = [features_of(data)[data.texts.index(text)].numpy() - mean for text in texts]
        cosines = np.array(
            [
                [one @ other / np.sqrt((one @ one) * (other @ other)) for other in rows]
                for one in rows
            ]
        )
        pairs = sorted(cosines[row, column] for row in range(24) for column in range(row))
        alike = cosines > pairs[round(0.7 * len(pairs)) - 1] + 1e-5  # the top 30 %, including ties
    found = loss_of(
        {"name": "remove", "directions": "text", "by": by, "threshold": 0.7},
        source,
        parts,
        similarity,
    )
    assert found.loss.item() == pytest.approx(slow_loss(similarity, 14.0, alike), rel=1e-6)
    removed = np.array(
        [[alike[row][column] for column in range(24) if column != row] for row in range(24)]
    )
    assert 0 < removed.mean() < 1
    np.testing.assert_allclose(found.removed, removed.mean(1), rtol=1e-6)


def test_anchors_switched_off_by_the_dcl_bound_get_no_gradient_and_others_are_unchanged(
    source, parts
):
    similarity = random_similarity().requires_grad_()
    found = loss_of(OBJECTIVES["switched"] | {"switched_off_by": 0.1}, source, parts, similarity)
    bounded = loss_of(
        {"name": "dcl", "directions": "text", "class_probability": 0.1}, source, parts, similarity
    )
    assert torch.equal(found.at_bound, bounded.at_bound)
    assert 0 < found.at_bound.mean() < 1
    (gradient,) = torch.autograd.grad(found.loss, similarity)
    (plain,) = torch.autograd.grad(
        loss_of(OBJECTIVES["cl"], source, parts, similarity).loss, similarity
    )
    off = found.at_bound.bool()
    assert gradient[off].abs().max() == 0
    torch.testing.assert_close(gradient[~off], plain[~off])
    none = loss_of(OBJECTIVES["switched"] | {"switched_off_by": 0.0}, source, parts, similarity)
    assert none.loss.item() == loss_of(OBJECTIVES["cl"], source, parts, similarity).loss.item()


DETERMINISTIC = [name for name in OBJECTIVES if name not in ("reco", "oc", "resample")]


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_loss_does_not_depend_on_the_order_of_a_batch(source, parts, name):
    data, pairs = parts
    objective = {
        key: value
        for key, value in OBJECTIVES[name].items()
        if key not in ("masked_words_weight", "mask_share")
    }
    similarity, order = (
        random_similarity(),
        torch.randperm(24, generator=torch.Generator().manual_seed(2)),
    )
    straight = loss_of(objective, source, parts, similarity, 2.0)
    turned = loss_of(
        objective,
        source,
        (data, PairBatch(*(one[order] for one in pairs))),
        similarity[order][:, order],
        2.0,
    )
    assert turned.loss.item() == pytest.approx(straight.loss.item(), rel=1e-9)
    torch.testing.assert_close(turned.at_bound, straight.at_bound[order])


def test_both_directions_give_their_mean_which_is_clips_loss(source, parts):
    similarity = random_similarity()
    one, other, both, clip = (
        loss_of(OBJECTIVES[name], source, parts, similarity).loss.item()
        for name in ("cl", "cl image", "cl both", "clip")
    )
    assert both == pytest.approx((one + other) / 2, rel=1e-12)
    assert clip == both
    target = torch.arange(24)
    reference = functional.cross_entropy(14 * similarity, target) + functional.cross_entropy(
        14 * similarity.T, target
    )
    assert clip == pytest.approx(reference.item() / 2, rel=1e-9)
