"""The losses as the papers print them: loops over numbers, one anchor at a time, nothing in log
space.

A number is a scalar float64 tensor, so that autograd gives each loop's own gradient. Nothing is
shared with ``trueneg.losses``.
"""

import math

import torch


def exp_sum(logits):
    total = 0.0
    for logit in logits:
        total = total + torch.exp(logit)
    return total


def uncorrected(positives, negatives):
    return exp_sum(negatives)


def bracket(weighted_sum, positives, count, eta):
    """Equation 6 of the sample-specific paper, times N."""
    return (weighted_sum - count * eta * exp_sum(positives) / len(positives)) / (1 - eta)


def debiased(positives, negatives, eta, temperature):
    count = len(negatives)
    estimate = bracket(exp_sum(negatives), positives, count, eta)
    bound = count * torch.exp(-1 / torch.as_tensor(temperature, dtype=torch.float64))
    return estimate if estimate > bound else bound


def hard_negative(positives, negatives, eta, temperature, beta):
    count = len(negatives)
    importance = [torch.exp(beta * u) for u in negatives]
    mean = sum(importance) / count
    weighted = sum(w * torch.exp(u) for w, u in zip(importance, negatives, strict=True)) / mean
    estimate = bracket(weighted, positives, count, eta)
    bound = count * math.exp(-1 / temperature)
    return estimate if estimate > bound else torch.tensor(bound, dtype=torch.float64)


def share_at_most(negatives, value):
    """Equation 1 of BCL."""
    return sum(1 for other in negatives if other.item() <= value.item()) / len(negatives)


def recovered(mixture, alpha, eta, offset=0.0):
    """Return F with F_u(F) + offset·F² = mixture, by bisection: F_u = τ⁻·F_TN + τ⁺·F_FN increases
    from 0 at 0 to 1 at 1.
    """
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        true = alpha * (1 - (1 - middle) ** 2) + (1 - alpha) * middle**2
        false = (1 - alpha) * (1 - (1 - middle) ** 2) + alpha * middle**2
        if (1 - eta) * true + eta * false + offset * middle**2 < mixture:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def bayesian(positives, negatives, eta, alpha, beta, form):
    """`code` is what the authors train with: in image/main.py, 0.001 is added in two places."""
    count, true_prior = len(negatives), 1 - eta
    offset = 0.001 if form == "code" else 0.0
    weights = []
    for value in negatives:
        share = share_at_most(negatives, value)
        if form != "paper":
            share = recovered(share, alpha, eta, offset)
        if form in ("released", "code"):
            first, second = 2 * (1 - share), 2 * share
            true = alpha * first + (1 - alpha) * second
            false = (1 - alpha) * first + alpha * second
            hard = (alpha * (1 - beta) * first + (1 - alpha) * beta * second) / (
                alpha * (1 - beta) + (1 - alpha) * beta + offset
            )
            weights.append(hard / (true_prior * true + eta * false))
        else:
            numerator = alpha * true_prior + (1 - 2 * alpha) * share * true_prior
            denominator = (
                alpha * true_prior
                + (1 - alpha) * eta
                + (1 - 2 * alpha) * share * (true_prior - eta)
            )
            weights.append(numerator / denominator * torch.exp(beta * value))
    if form not in ("released", "code"):
        mean = sum(weights) / count
        weights = [weight / mean for weight in weights]
    return sum(weight * torch.exp(value) for weight, value in zip(weights, negatives, strict=True))


def oracle(positives, negatives, same_class):
    return exp_sum(u for u, same in zip(negatives, same_class, strict=True) if not same)


def removed(positives, negatives, similarity, threshold):
    return exp_sum(u for u, s in zip(negatives, similarity, strict=True) if float(s) <= threshold)


def reweighted(positives, negatives, similarity, exponent):
    weights = [(1 - max(0.0, float(s))) ** exponent for s in similarity]
    mean = sum(weights) / len(weights)
    return sum(w / mean * torch.exp(u) for w, u in zip(weights, negatives, strict=True))


def adjusted(positives, negatives, temperature, mu, sigma):
    """The loss of ADNCE in its authors' pseudo-code, but of cosines; weights are numbers, so they
    get no gradient.
    """
    heights = [math.exp(-0.5 * ((u.item() * temperature - mu) / sigma) ** 2) for u in negatives]
    mean = sum(heights) / len(heights)
    return sum(height / mean * torch.exp(u) for height, u in zip(heights, negatives, strict=True))


def anchor_loss(positive, mass):
    return -torch.log(torch.exp(positive) / (torch.exp(positive) + mass))


def sigmoid(positive, others, is_positive, bias):
    """The loss of an anchor, its pairs classified one at a time (SigLIP, with several
    positives).
    """
    total = torch.log(1 + torch.exp(-(positive + bias)))
    for u, same in zip(others, is_positive, strict=True):
        total = total + torch.log(1 + torch.exp(-(u + bias) if same else u + bias))
    return total


def cosine(a, b):
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def two_view_loss(mass, z1, z2, temperature, extra_positives=None):
    """Return the mean over 2B anchors; ``mass`` gets the sample, the logits, and the samples of the
    negatives.
    """
    views, count, total = (z1, z2), len(z1), 0.0
    for view in (0, 1):
        for i in range(count):
            anchor = views[view][i]
            positives = [cosine(anchor, views[1 - view][i]) / temperature]
            if extra_positives is not None:
                positives += [cosine(anchor, each) / temperature for each in extra_positives[i]]
            others = [j for j in range(count) if j != i]
            negatives = [
                cosine(anchor, views[w][j]) / temperature for w in (view, 1 - view) for j in others
            ]
            total = total + anchor_loss(
                positives[0], mass(i, positives, negatives, others + others)
            )
    return total / (2 * count)


def cross_modal_loss(mass, similarity, logit_scale, directions):
    count, losses = len(similarity), []
    for direction in directions:
        for i in range(count):
            others = [j for j in range(count) if j != i]
            negatives = [
                logit_scale * (similarity[i, j] if direction == "text" else similarity[j, i])
                for j in others
            ]
            positive = logit_scale * similarity[i, i]
            losses.append(anchor_loss(positive, mass(i, [positive], negatives, others)))
    return sum(losses) / len(losses)


def relaxed_loss(u, v, negative_weight, relaxed, margin=0.0):
    total = 0.0
    for i in range(len(u)):
        for j in range(len(v)):
            c = cosine(u[i], v[j])
            if i == j:
                total = total + (1 - c) ** 2
            elif c > margin or not relaxed:
                total = total + negative_weight * (c - margin) ** 2
    return total


def gradients(loss, inputs):
    """Return the gradient of a loss for each input; 0 if the loss does not depend on it."""
    return list(torch.autograd.grad(loss, inputs, retain_graph=True, materialize_grads=True))


def assert_same(actual, expected, inputs, tolerance=1e-9):
    """Compare the values and gradients of two losses."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(
        gradients(actual, inputs), gradients(expected, inputs), rtol=tolerance, atol=tolerance
    )
