"""Lemma 2 and Theorem 4: exact losses against loops, the lemma on random sets, constants against
gradients.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.theory.bounds import proposition_1
from trueneg.theory.transfer import (
    asymptotic_loss,
    best_linear_loss,
    lemma_2,
    lipschitz_constant,
    mean_classifier_loss,
    smallest_number,
    theorem_4,
)


def labelled(seed=0, count=23, classes=3, dimension=4):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    labels[:classes] = torch.arange(classes)
    centres = 2 * torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    return centres[labels] + torch.randn(
        count, dimension, generator=generator, dtype=torch.float64
    ), labels


def unit(features):
    return [[float(value) for value in row / row.norm()] for row in features]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def asymptotic_by_loops(features, labels, negatives, temperature):
    rows, labels, total = unit(features), labels.tolist(), 0.0
    for i, anchor in enumerate(rows):
        others = [
            math.exp(dot(anchor, row) / temperature)
            for j, row in enumerate(rows)
            if labels[j] != labels[i]
        ]
        mean = sum(others) / len(others)
        same = [
            math.exp(dot(anchor, row) / temperature)
            for j, row in enumerate(rows)
            if labels[j] == labels[i]
        ]
        total += sum(-math.log(s / (s + negatives * mean)) for s in same) / len(same)
    return total / len(rows)


def mean_classifier_by_loops(features, labels, temperature, task):
    rows, labels = unit(features), labels.tolist()
    means = {}
    for c in task:
        members = [row for row, label in zip(rows, labels, strict=True) if label == c]
        means[c] = [sum(column) / len(members) for column in zip(*members, strict=True)]
    losses = []
    for row, label in zip(rows, labels, strict=True):
        if label in task:
            scores = {c: math.exp(dot(row, means[c]) / temperature) for c in task}
            losses.append(-math.log(scores[label] / sum(scores.values())))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_asymptotic_loss_equals_loops(temperature):
    features, labels = labelled()
    expected = [asymptotic_by_loops(features, labels, count, temperature) for count in (1, 20, 300)]
    np.testing.assert_allclose(
        asymptotic_loss(features, labels, (1, 20, 300), temperature), expected
    )


def test_the_asymptotic_loss_does_not_depend_on_blocks(monkeypatch):
    features, labels = labelled()
    whole = asymptotic_loss(features, labels, (5,))
    monkeypatch.setattr("trueneg.theory.transfer.ANCHORS_PER_BLOCK", 4)
    torch.testing.assert_close(asymptotic_loss(features, labels, (5,)), whole)


def test_the_losses_of_the_mean_classifier_equal_loops():
    features, labels = labelled()
    expected = mean_classifier_by_loops(features, labels, 0.5, task=(0, 1, 2))
    assert mean_classifier_loss(features, labels, 0.5) == pytest.approx(expected)
    pairs = [(0, 1), (0, 2), (1, 2)]
    rho = torch.bincount(labels).double() / len(labels)
    weights = [float(rho[a] * rho[b]) for a, b in pairs]
    losses = [mean_classifier_by_loops(features, labels, 0.5, task) for task in pairs]
    expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    assert mean_classifier_loss(features, labels, 0.5, pairs=True) == pytest.approx(expected)


@given(
    st.integers(0, 10_000), st.integers(6, 30), st.integers(2, 4), st.sampled_from([0.2, 0.5, 1.0])
)
@settings(deadline=None, max_examples=25)
def test_lemma_2_holds_on_random_sets(seed, count, classes, temperature):
    frame = lemma_2(
        *labelled(seed, count, classes), negatives=(1, 10, 1000), temperature=temperature
    )
    value = frame.set_index("quantity")["value"]
    supervised = value["mean classifier, all classes"]
    assert value["best linear classifier"] <= supervised + 1e-9
    promised = frame[(frame["quantity"] == "asymptotic debiased loss") & frame["promised"]]
    assert len(promised)
    assert (promised["value"] >= supervised - 1e-12).all()


def test_lemma_2_can_fail_with_too_few_negatives():
    labels = torch.arange(40) % 4
    frame = lemma_2(torch.eye(4)[labels], labels, negatives=(1,))
    loss = frame.set_index("quantity")["value"]
    assert not frame["promised"].iloc[0]
    assert loss["asymptotic debiased loss"].iloc[0] < loss["mean classifier, all classes"]
    assert loss["accuracy of the mean classifier"] == 1


def test_labels_may_have_gaps_and_features_any_length():
    features, labels = labelled()
    frames = [
        lemma_2(*each, negatives=(4,))
        for each in ((features, labels), (3 * features, 5 * labels + 2))
    ]
    np.testing.assert_allclose(frames[0]["value"], frames[1]["value"], rtol=1e-6, atol=1e-6)


def test_the_smallest_number_of_negatives_of_the_lemma():
    low = 0.2 * 0.05 / 1.05
    assert smallest_number([low, 0.2 / 1.05]) == 104  # CIFAR10-r at r = 0.05
    assert smallest_number([0.5, 0.5]) == 1


def test_gradient_descent_finds_the_best_linear_classifier():
    torch.manual_seed(0)
    # not separable
    features, labels = torch.randn(200, 3, dtype=torch.float64), torch.randint(0, 3, (200,))
    from sklearn.linear_model import LogisticRegression

    unit_features = torch.nn.functional.normalize(features, dim=1).numpy()
    fitted = LogisticRegression(C=1e8, fit_intercept=False, max_iter=1000, tol=1e-9).fit(
        unit_features, labels.numpy()
    )
    expected = -np.log(fitted.predict_proba(unit_features)[np.arange(200), labels.numpy()]).mean()
    assert best_linear_loss(features, labels) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("negatives", "positives", "eta"), [(1, 1, 0.0), (3, 2, 0.3), (50, 5, 0.8)]
)
def test_no_gradient_exceeds_the_lipschitz_constant(negatives, positives, eta):
    """Equation 28, at points of the domain that similarities of unit vectors can reach."""
    constant = lipschitz_constant(negatives, positives, eta)
    generator = torch.Generator().manual_seed(negatives)
    longest = 0.0
    for _ in range(300):
        positive = 2 * torch.rand((), generator=generator, dtype=torch.float64) - 1
        extreme = torch.rand((), generator=generator) < 0.5
        signs = 2 * torch.rand(negatives + positives, generator=generator, dtype=torch.float64) - 1
        similarities = signs.sign() if extreme else signs
        a = (similarities[:negatives] - positive).requires_grad_()
        b = (similarities[negatives:] - positive).requires_grad_()
        c, d = (
            positive.clone().requires_grad_(),
            torch.tensor(eta, dtype=torch.float64, requires_grad=True),
        )
        g = torch.maximum((a.exp().mean() - d * b.exp().mean()) / (1 - d), torch.exp(-1 - c))
        gradients = torch.autograd.grad(
            (1 + negatives * g).log(), (a, b, c, d), materialize_grads=True
        )
        longest = max(
            longest, math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        )
    assert 0 < longest <= constant


def test_constants_printed_in_the_proofs_are_too_small():
    """SSD, equations 24, 43 and 46 (docs/theory.md)."""
    slope = 254 / (1 + 254 * math.exp(-2))  # of log(1 + N z) at the least z, e⁻²
    assert math.exp(-2) < slope < math.exp(2)
    # of ψ for d at d = 0, with a = 2 and b = 0: the positive's similarity is −1 in both
    a, b, d = torch.tensor(2.0), torch.tensor(0.0), torch.tensor(0.0, requires_grad=True)
    ((a.exp() - d * b.exp()) / (1 - d)).backward()
    assert math.e < float(d.grad) == pytest.approx(math.exp(2) - 1)
    rho = {0: 0.5, 1: 0.25, 2: 0.25}
    tasks = {pair: rho[pair[0]] * rho[pair[1]] for pair in itertools.combinations(rho, 2)}
    marginal = [
        sum(
            weight / sum(tasks.values()) * rho[label] / sum(rho[each] for each in pair)
            for pair, weight in tasks.items()
            if label in pair
        )
        for label in rho
    ]
    assert marginal == pytest.approx([8 / 15, 7 / 30, 7 / 30])


def test_the_terms_of_theorem_4_follow_its_equation():
    rho = [0.2, *[0.1] * 8]
    frame = theorem_4(5.0, 3, 2, rho, dimension=4, samples=100)
    values = frame.set_index(["encoders", "term"])["value"]
    # equation 56, κ constant
    lipschitz = lipschitz_constant(3, 2, 0.2) * math.sqrt(4 * 3 + 4 * 2 + 1 + 5 + 1 + 5)
    # The supremum over all functions into the unit ball: every point is mapped to the direction of
    # its signs.
    signs = np.sign(np.random.default_rng(0).normal(size=((3 + 2 + 2) * 100, 4)))
    supremum = sum(float(point @ (point / np.linalg.norm(point))) for point in signs)
    assert values["all functions", "complexity"] == pytest.approx(lipschitz * supremum / 100)
    largest = math.log(1 + 3 * (math.exp(2) - 0.2 * math.exp(-2)) / 0.8)
    # δ = 0.05
    assert values["linear maps", "confidence"] == pytest.approx(
        largest * math.sqrt(math.log(20) / 100)
    )
    assert values["linear maps", "Proposition 1"] == proposition_1(3, 2, rho, rho)
    assert values["linear maps", "log C (no information)"] == pytest.approx(math.log(9))
    for encoders in ("all functions", "linear maps"):
        terms = values[encoders].drop(["sum", "log C (no information)"])
        assert values[encoders, "sum"] == pytest.approx(terms.sum())
    assert values["linear maps", "complexity"] < values["all functions", "complexity"]
