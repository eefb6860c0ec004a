"""Objectives of text training equal loops over plain numbers."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.losses import by_the_book as book
from tests.questions import settings_of, started
from tests.training.text_pairs.batches import (
    EMA,
    ENCODER,
    KINDS,
    LABELS,
    SCALE,
    SELF,
    SIDES,
    WORDS,
    Facts,
    facts_of,
    with_loss,
)
from tests.training.text_pairs.plain_losses import (
    adjusted,
    at_bound,
    attracted,
    by_encoder,
    by_labels,
    by_scores,
    by_text,
    by_words,
    expected,
    frequency,
    guided,
    half_uniform,
    number,
    of_class,
    of_sentence,
    partly,
    removed,
    resampled,
    rescaled,
    reweighted,
    softmax,
    uncorrected,
    unmatched,
    with_eta,
    without_largest,
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
    np.testing.assert_array_equal(terms.mask[[0, 1, 3]], counts)
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
