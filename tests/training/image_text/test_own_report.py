"""The other pairs of an anchor's own report are counted, and left out of the negatives."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.textures import settings_of
from tests.training.image_text.batches import CPU, OBJECTIVES, loss_of, random_similarity, slow_loss
from trueneg.data.pairs.training_split import PairBatch, PairData
from trueneg.store.identity import model_of
from trueneg.training.pair_criterion import PairCriterion


@pytest.fixture
def studies(source, subset):
    """A batch of eight pairs in which two studies have two images each, and whether two pairs
    belong to the same study.
    """
    data = PairData(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    reports = source.reports[subset.train][drawn.columns[:, 0].numpy()]
    names, counts = np.unique(reports, return_counts=True)
    chosen = [
        *np.flatnonzero(np.isin(reports, names[counts == 2][:2])),
        *np.flatnonzero(np.isin(reports, names[counts == 1][:4])),
    ]
    pairs = PairBatch(*(each.flatten()[chosen] for each in drawn))
    same = [[a == b for b in reports[chosen]] for a in reports[chosen]]
    assert np.array(same).sum() == 8 + 4
    return (data, pairs), same


def test_two_images_of_a_study_are_negatives_of_each_other_unless_the_own_report_is_left_out(
    source, studies
):
    parts, same = studies
    similarity = random_similarity(8)
    for direction, matrix in (("text", similarity), ("image", similarity.T)):
        objective = {"name": "cl", "directions": direction}
        kept = loss_of(objective, source, parts, similarity)
        left = loss_of(objective | {"own_report": "left out"}, source, parts, similarity)
        assert kept.loss.item() == pytest.approx(
            slow_loss(matrix, 14.0, np.zeros((8, 8))), rel=1e-9
        )
        assert left.loss.item() == pytest.approx(slow_loss(matrix, 14.0, same), rel=1e-9)
        assert left.loss < kept.loss
    debiased = {
        "name": "dcl",
        "directions": "text",
        "class_probability": 0.1,
        "own_report": "left out",
    }
    total = 0.0
    for row, values in enumerate((3 * similarity).tolist()):
        # N is 6 or 7
        negatives = [math.exp(u) for column, u in enumerate(values) if not same[row][column]]
        mass = max(
            (sum(negatives) - len(negatives) * 0.1 * math.exp(values[row])) / 0.9,
            len(negatives) * math.exp(-3),
        )
        total += math.log(1 + mass / math.exp(values[row])) / 8
    assert loss_of(debiased, source, parts, similarity, 3.0).loss.item() == pytest.approx(
        total, rel=1e-9
    )


@pytest.mark.parametrize("name", ["reco", "oc"])
def test_losses_without_estimator_can_leave_out_the_own_report(source, studies, name):
    (data, pairs), same = studies
    texts, images = torch.randn(
        2, 8, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    cosines = [
        [float(functional.cosine_similarity(text, image, dim=0)) for image in images]
        for text in texts
    ]
    for leaves_out in (False, True):
        objective = {"name": name, "negative_weight": 0.6} | (
            {"own_report": "left out"} if leaves_out else {}
        )
        made = PairCriterion(
            model_of(settings_of(objective), "objective"), objective, data, "global"
        )
        expected = sum((1 - cosines[i][i]) ** 2 for i in range(8))
        for i in range(8):
            for j in range(8):
                if i != j and not (leaves_out and same[i][j]):
                    expected += (
                        0.6 * (max(0, cosines[i][j]) if name == "reco" else cosines[i][j]) ** 2
                    )
        assert made.of_embeddings(texts, images, pairs).loss.item() == pytest.approx(
            expected, rel=1e-9
        )


EVERY_PAIR = [
    name
    for name, objective in OBJECTIVES.items()
    if objective["name"] not in ("reco", "oc", "same_sentence")
]


@pytest.mark.parametrize("name", EVERY_PAIR)
def test_every_objective_can_leave_out_the_own_report(source, studies, name):
    parts, same = studies
    same = torch.tensor(same) & ~torch.eye(8, dtype=torch.bool)
    objective = {
        key: value
        for key, value in OBJECTIVES[name].items()
        if key not in ("masked_words_weight", "mask_share")
    }
    objective |= {"size": 4} if name == "resample" else {}
    torch.manual_seed(0)
    similarity = random_similarity(8).requires_grad_()
    terms = loss_of(objective | {"own_report": "left out"}, source, parts, similarity, 2.0)
    (gradient,) = torch.autograd.grad(terms.loss, similarity)
    assert gradient.isfinite().all()
    assert gradient[~same].abs().sum() > 0
    if "targets" not in objective:  # which may attract the own report
        assert gradient[same].abs().max() == 0


def test_training_counts_the_negatives_of_the_own_report_and_leaves_them_out(
    source, subset, started
):
    training = started("cl", training={"epochs": 1, "batch_size": 24})
    row = training.train_epoch()
    drawn = training.data.epoch(
        "image", started("cl", training={"epochs": 1, "batch_size": 24}).generator("pairs")
    )
    reports = source.reports[subset.train][drawn.columns[:, 0].numpy()]
    batches = [reports[start : start + 24] for start in range(0, len(reports) - 23, 24)]
    same = sum(
        a == b
        for batch in batches
        for i, a in enumerate(batch)
        for j, b in enumerate(batch)
        if i != j
    )
    assert same > 0
    assert row["share of own report"] == pytest.approx(same / (len(batches) * 24 * 23))
    assert (
        started("cl", training={"epochs": 1, "unit": "study"}).train_epoch()["share of own report"]
        == 0
    )
    objective = {"name": "cl", "directions": "text", "own_report": "left out"}
    left = started(objective, training={"epochs": 1, "batch_size": 24}).train_epoch()
    assert left["share of own report"] == row["share of own report"]
    assert left["loss"] != row["loss"]
