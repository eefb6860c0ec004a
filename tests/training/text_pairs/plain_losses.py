"""Objectives on texts as loops over plain numbers."""

import math

import numpy as np
import torch

from tests.losses import by_the_book as book
from tests.questions import subset_of
from tests.training.text_pairs.batches import SCALE, SIDES, cosine


def expected(
    facts,
    mass,
    directions="text",
    same_text="exclude",
    averaged=None,
    targets=None,
    decoupled=False,
    off=None,
):
    """Return the mean over anchors of −log e^p / (e^p + mass), one number after the other.

    Args:
        facts: the batch.
        mass: function of facts, pair, positives, negatives, and the (text, column) of each
            negative.
        directions: which texts are anchors.
        same_text: what happens to same texts.
        averaged: function that says which further columns are positives.
        targets: function that returns the weight of each column.
        decoupled: whether the positive is left out of the denominator.
        off: function that says which anchors have no loss.
    """
    losses, wide = [], len(facts.texts[1])
    for side in SIDES[directions]:
        columns = range(wide if side == "text" else facts.count)
        for i in range(facts.count):
            place = {j: (i, j) if side == "text" else (j, i) for j in columns}
            u = {
                j: torch.tensor(SCALE * facts.cosines[a][b], dtype=torch.float64)
                for j, (a, b) in place.items()
            }
            kept = [
                j for j in columns if j != i and not (same_text != "keep" and facts.same(*place[j]))
            ]
            arguments = facts, i, [u[i]], [u[j] for j in kept], [place[j] for j in kept]
            of_anchor = mass(*arguments) if kept else torch.tensor(0.0)
            below = of_anchor if decoupled else of_anchor + torch.exp(u[i])
            weights = {i: 1.0}
            if targets is not None:
                weights = targets(facts, place, i)
            elif averaged is not None:
                chosen = [j for j in columns if j == i or averaged(facts, *place[j])]
                weights = dict.fromkeys(chosen, 1 / len(chosen))
            is_off = off is not None and off(*arguments)
            of_columns = (
                # A further positive stands in its own denominator.
                weight
                * (
                    torch.log(1 + of_anchor / torch.exp(u[j]))
                    if averaged
                    else torch.log(below) - u[j]
                )
                for j, weight in weights.items()
            )
            losses.append(0.0 if is_off else float(sum(of_columns)))
    return sum(losses) / len(losses)


def uncorrected(facts, i, positives, negatives, places):
    return book.uncorrected(positives, negatives)


def with_eta(loss, eta, *parameters):
    """An estimator with a class probability, which `eta` returns for the facts and a pair."""

    def mass(facts, i, positives, negatives, places):
        temperature = () if loss is book.bayesian else (1 / SCALE,)
        return loss(positives, negatives, eta(facts, i), *temperature, *parameters)

    return mass


def number(value):
    return lambda facts, i: value


def of_sentence(column):
    """The value in a column of the sentences."""

    def eta(facts, i):
        table = facts.run.data.source.sentences
        return float(np.float32(table[column][table["sentence"] == facts.texts[0][i]].iloc[0]))

    return eta


def frequency(facts, i):
    labels = facts.run.data.source.labels[subset_of(facts.run.data.source).train].tolist()
    return float(np.float32(labels.count(facts.classes[0][i]) / len(labels)))


def partly(facts, i):
    return float(facts.run.data.class_probability({"true_share": 0.5})[facts.pairs.anchors[i]])


def unmatched(facts, i, positives, negatives, places):
    return book.oracle(positives, negatives, [facts.match(*place) for place in places])


def rescaled(facts, i, positives, negatives, places):
    left = sum(not facts.match(*place) for place in places)
    return unmatched(facts, i, positives, negatives, places) * len(places) / max(left, 1)


def without_largest(share):
    def mass(facts, i, positives, negatives, places):
        # equal logits all remain
        limit = sorted(negatives, reverse=True)[math.ceil(share * len(negatives) - 1e-9)]
        return book.exp_sum(u for u in negatives if u <= limit)

    return mass


def by_labels(facts, i, j):
    return float(facts.match(i, j))


def by_scores(facts, i, j):
    return facts.cosines[i][j]


def by_words(facts, i, j):
    """The cosine of tf-idf vectors with smooth document frequencies of the distinct training
    texts.
    """
    u, v = facts.weighted_words[facts.texts[0][i]], facts.weighted_words[facts.texts[1][j]]
    products = sum(value * v.get(word, 0) for word, value in u.items())
    return products / math.sqrt(
        sum(value**2 for value in u.values()) * sum(value**2 for value in v.values())
    )


def by_encoder(facts, i, j):
    stored, rows = facts.run.frozen.guide["text_encoder"], facts.run.frozen.rows
    u, v = (stored.values[rows[text], 0, :, 0] for text in (facts.texts[0][i], facts.texts[1][j]))
    return cosine(u, v)


def by_text(facts, i, j):
    """Each pair of texts on its own; tests/training/test_text_similarity.py compares the similarity
    with loops.
    """
    numbers = (
        each[place : place + 1]
        for each, place in zip((facts.pairs.anchors, facts.pairs.columns), (i, j), strict=True)
    )
    return float(facts.run.guide.similarity(*numbers))


def removed(rating, threshold, top_k=None):
    def mass(facts, i, positives, negatives, places):
        ratings = [rating(facts, *place) for place in places]
        limit = threshold(facts) if callable(threshold) else threshold
        if top_k is not None:
            limit = max(limit, sorted(ratings, reverse=True)[top_k])
        return book.removed(positives, negatives, ratings, limit + 1e-9)

    return mass


def reweighted(rating, exponent=1.0):
    def mass(facts, i, positives, negatives, places):
        return book.reweighted(
            positives, negatives, [rating(facts, *place) for place in places], exponent
        )

    return mass


def adjusted(mu, sigma):
    def mass(facts, i, positives, negatives, places):
        return book.adjusted(positives, negatives, 1 / SCALE, mu, sigma)

    return mass


def resampled(rating, size):
    """The mean of the sum over the draws."""

    def mass(facts, i, positives, negatives, places):
        weights = [1 - max(0.0, rating(facts, *place)) for place in places]
        pairs = zip(weights, negatives, strict=True)
        return size * sum(weight * torch.exp(u) for weight, u in pairs) / max(sum(weights), 1e-9)

    return mass


def guided(rating, margin):
    def mass(facts, i, positives, negatives, places):
        limit = rating(facts, i, i) - margin
        return book.removed(
            positives, negatives, [rating(facts, *place) for place in places], limit + 1e-9
        )

    return mass


def half_uniform(facts, place, i):
    return {j: 0.5 / len(place) + 0.5 * (j == i) for j in place}


def attracted(rating, threshold, top_k):
    def weights(facts, place, i):
        ratings = {j: rating(facts, *place[j]) for j in place if j != i}
        limit = max(threshold, sorted(ratings.values(), reverse=True)[top_k])
        chosen = [i, *(j for j, value in ratings.items() if value > limit + 1e-9)]
        return dict.fromkeys(chosen, 1 / len(chosen))

    return weights


def of_class(facts, place, i):
    """Weights of SupCon: uniform over the columns with the anchor's label; hard negatives have
    none.
    """
    chosen = [j for j in place if j == i or facts.match(*place[j])]
    return dict.fromkeys(chosen, 1 / len(chosen))


def softmax(rating, temperature, share):
    def weights(facts, place, i):
        powers = {j: math.exp(rating(facts, *place[j]) / temperature) for j in place}
        return {
            j: share * power / sum(powers.values()) + (1 - share) * (j == i)
            for j, power in powers.items()
        }

    return weights


def at_bound(facts, i, positives, negatives, places):
    estimate = book.bracket(book.exp_sum(negatives), positives, len(negatives), 0.2)
    return float(estimate) <= len(negatives) * math.exp(-SCALE)
