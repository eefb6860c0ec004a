"""Objectives of text training equal loops over plain numbers, and guides rate every anchor against
every column.
"""

import functools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from tests.golden.numerics import double_precision
from tests.losses import by_the_book as book
from tests.questions import frozen_of, question_source, settings_of, started, subset_of, vectors_of
from tests.text.models import saved
from trueneg.training.guides.base import GuideBatch
from trueneg.training.text_pairs import TextPairs
from trueneg.training.text_similarity import embeddings_of

CPU = torch.device("cpu")
SCALE, HARD = 6.0, 2
SIDES = {"text": ("text",), "image": ("image",), "both": ("text", "image")}
KINDS = {"drawn": {}, "given": {"given": True}, "hard negatives": {"given": True, "hard": HARD}}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    model = saved(tmp_path_factory.mktemp("model"))
    return {
        name: question_source(**arguments, language_model=model)
        for name, arguments in KINDS.items()
    }


def plain(text):
    return " ".join(text.lower().split()).strip(" .!?")


@dataclass
class Facts:
    """What is known of a batch of B pairs and B + B·H columns, by their texts alone."""

    run: TextPairs
    pairs: Any
    count: int
    texts: list[list[str]]
    classes: list[list[int]]
    cosines: list[list[float]]

    def same(self, i, j):
        """Whether column j is a text of pair i, or its pair has the anchor of i."""
        (anchors, columns) = ([plain(text) for text in texts] for texts in self.texts)
        return columns[j] in (anchors[i], columns[i]) or (
            j < self.count and anchors[j] == anchors[i]
        )

    def match(self, i, j):
        return self.classes[0][i] == self.classes[1][j]

    @functools.cached_property
    def weighted_words(self):
        """Tf-idf weights of the words of each distinct training text."""
        words_of = {
            text: re.findall(r"\w\w+", text.lower())
            for sample in self.trained_on
            for text in sample
        }
        containing, count = (
            Counter(word for words in words_of.values() for word in set(words)),
            1 + len(words_of),
        )
        return {
            text: {
                word: words.count(word) * (1 + math.log(count / (1 + containing[word])))
                for word in words
            }
            for text, words in words_of.items()
        }

    @property
    def trained_on(self):
        """The training texts, a list for each sample; an anchor comes first."""
        source = self.run.data.source
        rows = source.pairs if len(source.pairs) else source.anchors[:, None]
        texts = source.sentences["sentence"].tolist()
        return [[texts[row] for row in sample] for sample in rows[subset_of(source).train].tolist()]


def facts_of(run, pairs):
    """Read a batch: texts, the class of each (none of hard negatives), and the cosines of their
    stored vectors.
    """
    data, count = run.data, len(pairs.anchors)
    texts = [
        [data.sentences[number] for number in numbers.tolist()]
        for numbers in (pairs.anchors, pairs.columns)
    ]
    labels = {
        text: label
        for text, label in zip(
            *(data.source.sentences[key] for key in ("sentence", "class")), strict=True
        )
        if label >= 0
    }
    classes = [
        [labels[text] for text in side[:count]] + [-1] * (len(side) - count) for side in texts
    ]
    towers = [run.frozen.texts, run.frozen.positives or run.frozen.texts]
    vectors = [
        [tower.values[run.frozen.rows[text], 0, :, 0] for text in side]
        for tower, side in zip(towers, texts, strict=True)
    ]
    return Facts(
        run, pairs, count, texts, classes, [[cosine(u, v) for v in vectors[1]] for u in vectors[0]]
    )


def cosine(u, v):
    return float(u @ v) / math.sqrt(float(u @ u) * float(v @ v))


def with_loss(source, objective, **sections):
    """Return the facts of the first batch of a run without a head, and the run's terms, in
    float64.
    """
    unprojected = {"projection": {"name": "none"}, "similarity": {"logit_scale": SCALE}} | sections
    if objective.get("by") == "text":
        embeddings_of(source, [], CPU)  # kept from here on, in float32
    with double_precision():
        frozen = frozen_of(source, np.float64)
        if is_guided_by(objective, "encoder"):
            frozen = frozen._replace(
                guide={"text_encoder": vectors_of(source, 4, seed=7, dtype=np.float64)}
            )
        run = started(source, settings_of(objective, **unprojected), frozen)
        run.network.double()
        run.network.train()
        run.update = 1  # after which thresholds are learned
        pairs, inputs = next(run.batches(2))
        terms = run.backward(pairs, inputs)[0]
    return facts_of(run, pairs), terms


def is_guided_by(objective, name):
    return (objective.get("guide") or {}).get("name") == name


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
        floor = () if loss is book.bayesian else (-SCALE,)
        return loss(positives, negatives, eta(facts, i), *floor, *parameters)

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


ENCODER = {
    "name": "encoder",
    "text_encoder": {"name": "vectors", "path": "made up", "column": None, "train": "none"},
}
WORDS, SELF, EMA, LABELS = (
    {"name": "words"},
    {"name": "self"},
    {"name": "ema", "momentum": 0.9},
    {"name": "labels"},
)
FNC, SOFTMAX = (
    {"name": "fnc", "threshold": 0.2, "top_k": 3},
    {"name": "softmax", "temperature": 0.2, "share": 0.6},
)
DCL, BY_WORDS = {"name": "dcl"}, {"by": "guide", "guide": WORDS}
# Settings, what is equal to the mass, and further arguments of :func:`expected`.
OBJECTIVES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "cl": ({"name": "cl"}, uncorrected, {}),
    "cl, decoupled": ({"name": "cl", "decoupled": True}, uncorrected, {"decoupled": True}),
    "cl, switched off": ({"name": "cl", "switched_off_by": 0.2}, uncorrected, {"off": at_bound}),
    "dcl": (DCL | {"class_probability": 0.05}, with_eta(book.debiased, number(0.05)), {}),
    "dcl language model": (
        DCL | {"class_probability": "language model"},
        with_eta(book.debiased, of_sentence("eta")),
        {},
    ),
    "dcl permuted": (
        DCL | {"class_probability": "permuted"},
        with_eta(book.debiased, of_sentence("eta permuted")),
        {},
    ),
    "dcl length": (
        DCL | {"class_probability": "length"},
        with_eta(book.debiased, of_sentence("eta by length")),
        {},
    ),
    "dcl true": (DCL | {"class_probability": "true"}, with_eta(book.debiased, frequency), {}),
    "dcl partly": (
        DCL | {"class_probability": {"true_share": 0.5}},
        with_eta(book.debiased, partly),
        {},
    ),
    "hcl": (
        {"name": "hcl", "class_probability": 0.05, "beta": 0.5},
        with_eta(book.hard_negative, number(0.05), 0.5),
        {},
    ),
    "bcl": (
        {
            "name": "bcl",
            "class_probability": "true",
            "alpha": 0.7,
            "beta": 0.5,
            "form": "consistent",
        },
        with_eta(book.bayesian, frequency, 0.7, 0.5, "consistent"),
        {},
    ),
    "adnce": ({"name": "adnce", "mu": 0.2, "sigma": 0.4}, adjusted(0.2, 0.4), {}),
    "oracle": ({"name": "oracle"}, unmatched, {}),
    "oracle, rescaled": ({"name": "oracle", "rescaled": True}, rescaled, {}),
    "quantile": ({"name": "quantile", "share": 0.15}, without_largest(0.15), {}),
    "remove by labels": (
        {"name": "remove", "by": "labels", "threshold": 0.5},
        removed(by_labels, 0.5),
        {},
    ),
    "remove by words": (
        {"name": "remove", "threshold": 0.2, "top_k": 3} | BY_WORDS,
        removed(by_words, 0.2, 3),
        {},
    ),
    "remove by text": (
        {"name": "remove", "by": "text", "threshold": 0.8},
        removed(by_text, lambda facts: facts.run.guide.similarity.threshold(0.8)),
        {},
    ),
    "reweight by text": ({"name": "reweight", "by": "text"}, reweighted(by_text), {}),
    "reweight by words": (
        {"name": "reweight", "exponent": 2.0} | BY_WORDS,
        reweighted(by_words, 2.0),
        {},
    ),
    "resample by labels": (
        {"name": "resample", "by": "labels", "size": 20_000},
        resampled(by_labels, 20_000),
        {},
    ),
    "guided by words": (
        {"name": "guided", "margin": 0.1, "guide": WORDS},
        guided(by_words, 0.1),
        {},
    ),
    "guided by labels": (
        {"name": "guided", "margin": 0.2, "guide": LABELS},
        guided(by_labels, 0.2),
        {},
    ),
    "guided by encoder": ({"name": "guided", "guide": ENCODER}, guided(by_encoder, 0.0), {}),
    "guided by self": (
        {"name": "guided", "margin": 0.1, "guide": SELF},
        guided(by_scores, 0.1),
        {},
    ),
    "guided by ema": ({"name": "guided", "guide": EMA}, guided(by_scores, 0.0), {}),
    # A threshold starts at 1, and Adam's first step is the learning rate.
    "glofnd": (
        {"name": "glofnd", "share": 0.1, "threshold_rate": 0.8, "start": 0.01},
        removed(by_scores, 0.2),
        {},
    ),
    "same sentence": ({"name": "same_sentence", "mode": "left out"}, uncorrected, {}),
    "same sentence, positives": (
        {"name": "same_sentence", "mode": "positives"},
        uncorrected,
        {"averaged": Facts.same},
    ),
    "half uniform": (
        {"name": "cl", "targets": {"name": "half_uniform"}},
        uncorrected,
        {"targets": half_uniform},
    ),
    "fnc": (
        {"name": "cl", "targets": FNC, "guide": WORDS},
        uncorrected,
        {"targets": attracted(by_words, 0.2, 3)},
    ),
    "supcon": ({"name": "supcon"}, uncorrected, {"targets": of_class}),
    "supcon, decoupled": (
        {"name": "supcon", "decoupled": True},
        uncorrected,
        {"targets": of_class, "decoupled": True},
    ),
    "softmax": (
        {"name": "cl", "targets": SOFTMAX, "guide": ENCODER},
        uncorrected,
        {"targets": softmax(by_encoder, 0.2, 0.6)},
    ),
}


@pytest.mark.parametrize("directions", SIDES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_equals_a_loop_over_the_texts_of_the_batch(sources, name, kind, directions):
    settings, mass, arguments = OBJECTIVES[name]
    facts, terms = with_loss(sources[kind], settings | {"directions": directions})
    tolerance = {"resample by labels": 0.01}.get(name, 1e-5 if "text" in name else 1e-8)
    assert terms.loss.item() == pytest.approx(
        expected(facts, mass, directions, **arguments), rel=tolerance
    )


@pytest.mark.parametrize("directions", SIDES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same_text", ["keep", "exclude", "positives"])
def test_same_texts_are_kept_left_out_or_positives(sources, same_text, kind, directions):
    facts, terms = with_loss(
        sources[kind], {"name": "cl", "directions": directions, "same_text": same_text}
    )
    averaged = Facts.same if same_text == "positives" else None
    assert terms.loss.item() == pytest.approx(
        expected(facts, uncorrected, directions, same_text, averaged), rel=1e-9
    )
    wide = len(facts.texts[1])
    same = [(i, j) for i in range(facts.count) for j in range(wide) if i != j and facts.same(i, j)]
    assert {j >= facts.count for _, j in same} == (
        {False, True} if kind == "hard negatives" else {False}
    )
    facts.run.update = 0
    batches = [facts_of(facts.run, pairs) for pairs, _ in facts.run.batches(2)]
    marked = sum(
        each.same(i, j)
        for each in batches
        for i in range(facts.count)
        for j in range(wide)
        if i != j
    )
    share = marked / (2 * facts.count * (wide - 1))
    assert facts.run.measured()["share of same text"] == pytest.approx(share)


def test_clip_is_cl_in_both_directions(sources):
    facts, terms = with_loss(sources["hard negatives"], {"name": "clip"})
    assert terms.loss.item() == pytest.approx(expected(facts, uncorrected, "both"), rel=1e-9)


@pytest.mark.parametrize("kind", ["drawn", "given"])
@pytest.mark.parametrize("name", ["reco", "oc"])
def test_losses_without_estimator_leave_out_same_texts(sources, name, kind):
    head = {"name": "residual", "dimensions": None}  # starts as the identity
    facts, terms = with_loss(sources[kind], {"name": name, "negative_weight": 0.6}, projection=head)
    total = 0.0
    for i in range(facts.count):
        for j in range(facts.count):
            value = facts.cosines[i][j]
            if i == j:
                total += (1 - value) ** 2
            elif not facts.same(i, j):
                total += 0.6 * (max(0, value) if name == "reco" else value) ** 2
    assert terms.loss.item() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("directions", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_marked_negatives_are_compared_with_the_labels(sources, kind, directions):
    """Hard negatives have no label, so they count neither as false nor as true negatives."""
    facts, terms = with_loss(
        sources[kind], {"name": "guided", "margin": 0.1, "guide": SELF, "directions": directions}
    )
    counts = np.zeros((3, facts.count))
    for side in SIDES[directions]:
        for i in range(facts.count):
            places = [(i, j) if side == "text" else (j, i) for j in range(facts.count) if i != j]
            kept = [place for place in places if not facts.same(*place)]
            marked = [facts.cosines[a][b] > facts.cosines[i][i] - 0.1 for a, b in kept]
            false = [facts.match(*place) for place in kept]
            counts[:, i] += [np.sum(np.logical_and(marked, false)), np.sum(marked), np.sum(false)]
    np.testing.assert_array_equal(terms.mask[:3], counts)
    assert (counts > 0).any(1).all()


@pytest.mark.parametrize("directions", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_debiasing_assumes_and_estimates_is_compared_with_the_labels(
    sources, kind, directions
):
    """Hard negatives have no label, so they are neither of the anchor's class nor of another one,
    but they count in N.
    """
    eta = 0.2
    facts, terms = with_loss(
        sources[kind], {"name": "dcl", "class_probability": eta, "directions": directions}
    )
    sums = np.zeros((6, facts.count))
    for side in SIDES[directions]:
        columns = range(len(facts.texts[1]) if side == "text" else facts.count)
        for i in range(facts.count):
            places = [(i, j) if side == "text" else (j, i) for j in columns if i != j]
            mass = {
                place: math.exp(SCALE * facts.cosines[place[0]][place[1]])
                for place in places
                if not facts.same(*place)
            }
            positive = math.exp(SCALE * facts.cosines[i][i])
            labelled = {place: value for place, value in mass.items() if place[1] < facts.count}
            alike = [value for place, value in labelled.items() if facts.match(*place)]
            other = [value for place, value in labelled.items() if not facts.match(*place)]
            debiased = (sum(mass.values()) / len(mass) - eta * positive) / (1 - eta)
            sums[:, i] += [
                sum(alike) / len(alike) / positive if alike else 0,
                bool(alike),
                max(debiased, math.exp(-SCALE)),
                1,
                sum(other) / len(other) if other else 0,
                bool(other),
            ]
    np.testing.assert_allclose(terms.means, sums, rtol=1e-8)
    assert (sums[1] > 0).any()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.75])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_without_their_true_class_probability_exchange_it(sources, kind, share):
    data = started(sources[kind], settings_of()).data
    anchors = data.epoch("", torch.Generator()).anchors.unique()
    true, eta, again = (
        data.class_probability(name)[anchors]
        for name in ("true", {"true_share": share}, {"true_share": share})
    )
    assert eta.sort().values.equal(true.sort().values)
    assert eta.equal(again)
    # of the same class
    by_chance = sum(float((true == value).double().mean()) ** 2 for value in true.unique())
    assert float((eta == true).double().mean()) == pytest.approx(
        share + (1 - share) * by_chance, abs=4 / len(true) ** 0.5
    )


@pytest.mark.parametrize("positives", ["given", "drawn"])
@pytest.mark.parametrize(
    ("objective", "rating"),
    [
        ({"name": "guided", "guide": LABELS}, by_labels),
        ({"name": "remove", "by": "labels"}, by_labels),
        ({"name": "guided", "guide": WORDS}, by_words),
        ({"name": "guided", "guide": ENCODER}, by_encoder),
        ({"name": "guided", "guide": SELF}, by_scores),
        ({"name": "guided", "guide": EMA}, by_scores),
        ({"name": "reweight", "by": "text"}, by_text),
    ],
    ids=["labels", "by labels", "words", "encoder", "self", "ema", "by text"],
)
def test_a_guide_rates_every_anchor_against_every_column(sources, objective, rating, positives):
    source = sources["hard negatives" if positives == "given" else positives]
    facts, _ = with_loss(source, objective)
    run, wide = facts.run, len(facts.texts[1])
    inputs = [
        inputs
        for pairs, inputs in run.batches(2)
        if torch.equal(pairs.columns, facts.pairs.columns)
    ]
    with double_precision():
        scores = run.model.region_similarity(*run._embed(inputs[0], run.model))
        rated = run.rated(
            GuideBatch(
                *run.data.compared(facts.pairs),
                lambda network=None: run._rated_by(inputs[0], scores, network),
            )
        )
    table = [[rating(facts, i, j) for j in range(wide)] for i in range(facts.count)]
    np.testing.assert_allclose(rated.negative_similarity, table, rtol=1e-5, atol=1e-6)
    assert wide == facts.count * (1 + HARD * (positives == "given"))
    if rated.positive_similarity is not None:
        np.testing.assert_allclose(
            rated.positive_similarity, np.diagonal(table), rtol=1e-5, atol=1e-6
        )


def test_permuted_words_are_those_of_another_text(sources):
    runs = [
        started(
            sources["drawn"], settings_of({"name": "guided", "guide": WORDS | {"permuted": value}})
        )
        for value in (True, False)
    ]
    permuted, plain_words = (run.guide.overlap for run in runs)
    every = torch.arange(len(runs[0].data.texts))
    tables = [overlap(every, every).numpy() for overlap in (permuted, plain_words)]
    values = [np.sort(table[~np.eye(len(table), dtype=bool)]) for table in tables]
    np.testing.assert_allclose(*values, atol=1e-6)
    assert not np.allclose(*tables)


def test_the_average_of_the_networks_is_the_ema_guide(sources):
    settings = settings_of({"name": "guided", "guide": {"name": "ema", "momentum": 0.6}})
    run, kept = started(sources["hard negatives"], settings), []
    run.train_epoch(
        lambda: kept.append(
            [value.detach().clone() for value in run.model.anchors.text_projection.parameters()]
        )
    )
    weight, bias = kept[0]  # the average starts as the first update's networks
    for one, other in kept[1:]:
        weight, bias = 0.6 * weight + 0.4 * one, 0.6 * bias + 0.4 * other
    run.epoch = 0
    pairs, inputs = next(run.batches(1))
    rated = run.rated(
        GuideBatch(*run.data.compared(pairs), lambda network: run._rated_by(inputs, None, network))
    )
    stored = [
        torch.from_numpy(run.frozen.texts.values[run.frozen.rows[text], 0, :, 0])
        for text in run.data.sentences
    ]
    anchors, columns = (
        torch.stack([stored[number] for number in each]) @ weight.T + bias for each in pairs
    )
    cosines = torch.nn.functional.cosine_similarity(anchors[:, None], columns[None], dim=2)
    torch.testing.assert_close(rated.negative_similarity, cosines, rtol=1e-4, atol=1e-5)
