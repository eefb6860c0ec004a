"""The nearest-neighbour vote and the linear probe of text studies."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.metrics import balanced_accuracy_score

from tests.evaluation.texts.embedded import embedded_run, labelled_run, paired_run, values
from trueneg.evaluation.images.knn import weighted_knn
from trueneg.evaluation.texts import knn, linear_probe
from trueneg.stats.measurement import Measurement

SETTINGS = {"knn": {"neighbours": 5}, "linear_probe": {"C": 2.0}}


def part(run, split, labels):
    """Return vectors and labels of the training texts, and of the held-out texts."""
    end = "_unseen" if labels == "unseen" else ""
    bank = getattr(run.subset, f"{split}_unseen_bank") if end else run.subset.bank
    return [
        (run.anchors.numpy()[rows], run.source.labels[rows])
        for rows in (bank, getattr(run.subset, split + end))
    ]


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("labels", ["seen", "unseen"])
def test_each_of_the_k_nearest_texts_has_one_vote(split, labels):
    run = labelled_run()
    (bank, bank_labels), (queries, expected) = part(run, split, labels)
    votes = []
    for query in queries.tolist():
        cosines = [sum(x * y for x, y in zip(query, text, strict=True)) for text in bank.tolist()]
        nearest = sorted(range(len(bank)), key=lambda row: -cosines[row])[:5]
        counted = Counter(int(bank_labels[row]) for row in nearest)
        votes.append(min(label for label in counted if counted[label] == max(counted.values())))
    assert 0.3 < np.mean(votes == expected) < 1
    tensors = torch.from_numpy(bank), torch.from_numpy(bank_labels), torch.from_numpy(queries)
    assert weighted_knn(*tensors, k=5, temperature=np.inf, classes=8).tolist() == votes
    found, measured = values(knn, run, SETTINGS), Measurement("knn", "accuracy", labels)
    assert found[split, measured] == pytest.approx(np.mean(votes == expected))
    assert found[split, measured._replace(group="macro")] == pytest.approx(
        balanced_accuracy_score(expected, votes)
    )
    assert found[split, measured._replace(metric="chance")] == pytest.approx(
        max(np.mean(expected == c) for c in range(8))
    )
    assert found[split, measured._replace(metric="chance", group="macro")] == 1 / len(
        {*bank_labels.tolist()}
    )


def test_a_rare_label_can_win_the_vote(caplog):
    common = [[0.3, 1.0], [0.2, 1.0], [0.1, 1.0], [0.0, 1.0]]
    vectors = [[1.0, 0.0], [1.0, 0.1], *common, [1.0, 0.05], [0.0, 1.0]]
    run = embedded_run(
        vectors, [0, 0, 1, 1, 1, 1, 0, 1], bank=range(6), validation=[6, 7], test=[6, 7]
    )
    # of five nearest texts, three would have the common label
    found = values(knn, run, {"knn": {"neighbours": 5}})
    assert found["test", Measurement("knn", "accuracy", "seen")] == 1
    assert "knn, test split, seen labels, seed 0: 2 neighbours instead of 5" in caplog.text


@pytest.mark.parametrize("labels", ["seen", "unseen"])
def test_the_probe_minimises_cross_entropy_and_the_squared_norm_of_its_weights(labels):
    run = labelled_run()
    (bank, bank_labels), (queries, expected) = part(run, "test", labels)
    texts, names = torch.from_numpy(bank), sorted({*bank_labels.tolist()})
    targets = torch.tensor([names.index(label) for label in bank_labels.tolist()])

    def loss(flat):
        weights = torch.from_numpy(flat).reshape(len(names), 9).requires_grad_()
        logits = texts @ weights[:, :8].T + weights[:, 8]
        value = (
            2.0 * torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            + weights[:, :8].square().sum() / 2
        )
        value.backward()
        return value.item(), weights.grad.numpy().ravel()

    learned = minimize(
        loss,
        np.zeros(9 * len(names)),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-14, "maxiter": 2000},
    ).x
    weights = learned.reshape(-1, 9)
    predicted = np.array(names)[(queries @ weights[:, :8].T + weights[:, 8]).argmax(1)]
    assert 0.3 < np.mean(predicted == expected) < 1
    found = values(linear_probe, run, SETTINGS)
    assert found["test", Measurement("linear probe", "accuracy", labels)] == pytest.approx(
        np.mean(predicted == expected)
    )


def test_texts_without_labels_have_no_accuracy():
    assert values(knn, paired_run(), SETTINGS) == values(linear_probe, paired_run(), SETTINGS) == {}


def test_groups_that_no_two_splits_share_are_no_classes(caplog):
    parts = {"bank": [0, 1, 2], "validation": [3, 4]}
    run = embedded_run(np.eye(6), [0, 0, 1, 2, 2, 3], **parts, test=[5])
    assert values(knn, run, SETTINGS) == values(linear_probe, run, SETTINGS) == {}
    assert "test split, seen labels, seed 0: not classified" in caplog.text
    shared = embedded_run(np.eye(6), [0, 0, 1, 2, 2, 1], **parts, test=[5])
    assert {split for split, _ in values(knn, shared, SETTINGS)} == {"test"}
