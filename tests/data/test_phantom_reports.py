"""The phantom's reports have their documented properties, exactly or within sampling error."""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from trueneg.data.phantom.classes import CLASSES, OWNERS, class_probability
from trueneg.data.phantom.reports import _systematic, phantom_reports
from trueneg.text import split_sentences


@functools.cache
def made():
    return phantom_reports(3000, seed=0)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.3])
def test_classes_follow_zipfs_law(exponent):
    probability = class_probability(exponent, seed=3)
    assert np.bincount(OWNERS, probability).max() <= 0.5
    probability = np.sort(probability)[::-1]
    assert probability.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        probability / probability[0], np.arange(1, len(CLASSES) + 1) ** -exponent
    )


def test_classes_are_distinct_and_numbered_in_order():
    assert len({each.name for each in CLASSES}) == len(CLASSES) >= 40
    assert [each.number for each in CLASSES] == list(range(len(CLASSES)))


def test_exponents_that_give_one_finding_more_than_half_are_rejected():
    with pytest.raises(ValueError, match=r"exponent is 3\.0"):
        class_probability(3.0)


def test_reports_depend_only_on_the_seed():
    drawn = phantom_reports(50, seed=4)
    for first, second in zip(drawn, phantom_reports(50, seed=4), strict=True):
        pd.testing.assert_frame_equal(first, second)
    assert not drawn.reports.equals(phantom_reports(50, seed=5).reports)


def test_class_probabilities_match_the_frequencies_of_sentences():
    observed = (
        made().sentences["class"].value_counts().reindex(made().classes["class"], fill_value=0)
    )
    expected = made().classes["probability"].to_numpy() * len(made().sentences)
    # Sentences of a report are dependent, so their counts vary less than Poisson counts.
    assert (np.abs(observed - expected) < 5 * np.sqrt(expected) + 1).all()


def test_image_probabilities_match_the_frequencies_of_reports():
    per_report = (
        made()
        .sentences.groupby("class")["report"]
        .nunique()
        .reindex(made().classes["class"], fill_value=0)
        / 3000
    )
    positive = made().classes["kind"].to_numpy() == "positive"
    expected = made().classes["image_probability"].to_numpy()
    assert (
        np.abs(per_report - expected)[positive] < 5 * np.sqrt(expected[positive] / 3000) + 1e-3
    ).all()


def test_reports_do_not_contradict_themselves():
    named = made().sentences.merge(made().classes, on="class")
    present = named[named["kind"] == "positive"].groupby("report")["finding"].agg(list)
    assert present.map(lambda findings: len(set(findings)) == len(findings)).all()
    denied = named[named["kind"] == "negated"].groupby("report")["finding"].agg(set)
    both = pd.concat([present.map(set), denied], axis=1, keys=["present", "denied"]).dropna()
    assert len(both) > 1000
    assert not [row for row in both.itertuples() if row.present & row.denied]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=9), st.integers(0, 100))
def test_systematic_draws_have_the_given_inclusion_probabilities(weights, seed):
    inclusion = 2 * np.array(weights) / np.sum(weights)
    if inclusion.max() > 1:
        return
    generator = np.random.default_rng(seed)
    times = np.zeros(len(inclusion))
    for _ in range(1500):
        drawn = _systematic(inclusion, generator)
        assert len(drawn) == len(set(drawn)) == 2
        times[drawn] += 1
    assert (
        np.abs(times / 1500 - inclusion) < 5 * np.sqrt(inclusion * (1 - inclusion) / 1500) + 1e-3
    ).all()


@pytest.mark.parametrize("seed", range(2))
def test_entropy_and_length_have_the_given_correlation_with_class_probability(seed):
    for correlation in (0.0, 0.9, -1.0):
        classes = phantom_reports(5, seed, correlation=correlation).classes
        for style in ("entropy", "words"):
            assert (
                abs(stats.spearmanr(classes["probability"], classes[style]).statistic - correlation)
                < 0.25
            )


def test_wordings_identify_their_class_and_vary_in_number_and_entropy():
    assert made().sentences.groupby("sentence")["class"].nunique().max() == 1
    # many reports share some sentences
    assert made().sentences["sentence"].value_counts().iloc[0] > 500
    assert made().classes["entropy"].min() < 0.5 < 3 < made().classes["entropy"].max()
    several = made().sentences.groupby("class")["sentence"].nunique()
    assert (several > 1).mean() > 0.7


def test_splitting_the_text_gives_the_sentences():
    sentences = made().sentences.groupby("report")["sentence"].agg(list)
    for report, text in made().reports.head(150).itertuples(index=False):
        assert split_sentences(text) == sentences[report]
