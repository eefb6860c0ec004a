"""The fit of a and k, Spearman's ρ and the simple scorers equal those of numpy, scipy and hand
calculation.
"""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.text import corpus
from trueneg.io import privacy
from trueneg.text.assumption import (
    ALL,
    FINDINGS,
    SIMPLE,
    check_assumption,
    cross_fitted,
    frequency,
    unigram,
    words_of,
)
from trueneg.text.folds import with_folds
from trueneg.text.log_linear import bootstrap_spearman, fit_log_linear, weighted_spearman

PROPERTIES = settings(deadline=None, max_examples=50)
COUNTS = st.lists(
    st.tuples(st.integers(-20, 0), st.integers(1, 9), st.integers(1, 4)), min_size=3, max_size=15
)


@PROPERTIES
@given(COUNTS)
def test_weighted_spearman_equals_spearman_of_repeated_pairs(rows):
    x, y, times = map(np.array, zip(*rows, strict=True))
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert math.isnan(weighted_spearman(x, y, times))
        return
    expected = stats.spearmanr(np.repeat(x, times), np.repeat(y, times)).statistic
    assert weighted_spearman(x, y, times) == pytest.approx(expected, abs=1e-9)
    assert weighted_spearman(
        np.append(x, 5), np.append(y, 0), np.append(times, 0)
    ) == pytest.approx(expected, abs=1e-9)


@PROPERTIES
@given(COUNTS)
def test_the_fit_is_a_weighted_line_in_log_space(rows):
    x, y, times = (np.array(column, float) for column in zip(*rows, strict=True))
    assume(len(set(x)) > 1)
    fit = fit_log_linear(x, y / 10, times)
    slope, intercept = np.polyfit(
        np.repeat(x, times.astype(int)), np.log(np.repeat(y, times.astype(int)) / 10), 1
    )
    assert fit.k == pytest.approx(slope, abs=1e-9)
    assert fit.a == pytest.approx(math.exp(intercept), rel=1e-9)
    assert fit.calibration["texts"].sum() == pytest.approx(times.sum())
    average = (fit.calibration["actual"] * fit.calibration["texts"]).sum() / times.sum()
    assert average == pytest.approx(np.average(y / 10, weights=times))


def test_the_interval_resamples_classes_not_texts():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 200)
    y = np.repeat(generator.normal(size=20), 200)
    x = np.repeat(generator.normal(size=20), 200) + generator.normal(0, 0.1, 4000)
    low, high = bootstrap_spearman(x, y, np.ones(4000), groups, seed=0, draws=300)
    assert high - low > 0.5  # 4,000 independent texts would give 0.06
    assert low < weighted_spearman(x, y, np.ones(4000)) < high
    assert bootstrap_spearman(x, y, np.ones(4000), groups, seed=0, draws=300) == (low, high)


def test_unigrams_and_frequencies_by_hand():
    training = ["Clear lungs.", "Clear lungs.", "Clear heart."]
    # 9 tokens, 4 different; words: clear 3, lungs 2, heart 1, '.' 3
    expected = math.log(4 / 14) + math.log(3 / 14) + math.log(4 / 14)
    assert unigram(training, ["Clear lungs."])[0] == pytest.approx(expected)
    assert unigram(training, ["Edema"])[0] == pytest.approx(math.log(1 / 14))
    assert frequency(training, ["Clear lungs.", "Edema."]).tolist() == pytest.approx(
        [math.log(3 / 6), math.log(1 / 6)]
    )


def test_simple_scorers_are_counted_on_other_folds():
    table = pd.DataFrame(
        {"patient": [f"p{n}" for n in range(40)], "sentence": [f"Word{n} here." for n in range(40)]}
    )
    scored = cross_fitted(with_folds(table, 2, 0), frequency)
    # No sentence occurs in the other fold, so all sentences of a fold have the same score.
    assert scored.groupby("fold")["log_likelihood"].nunique().tolist() == [1, 1]


def check(folder, scorer):
    """Check the assumption for the scores in SCORER.parquet, and return the tables written."""
    inputs = {name: folder / f"{name}.parquet" for name in ("sentences", "assigned", "classes")}
    tables = {name: folder / f"{name}.parquet" for name in ("points", "summary", "calibration")}
    likelihoods = {scorer: folder / f"{scorer}.parquet"}
    check_assumption(
        **inputs, likelihoods=likelihoods, corpus="phantom", folds=2, seed=0, tables=tables
    )
    return {name: pd.read_parquet(path) for name, path in tables.items()}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assumption")
    sentences, _ = privacy.read_table(corpus.write_sentences(folder, reports=300))
    assigned, classes = (
        privacy.read_table(folder / f"{name}.parquet")[0] for name in ("assigned", "classes")
    )
    scores = sentences.merge(assigned, on=["report", "index"]).merge(
        classes[["class", "probability"]], on="class"
    )
    # A scorer for which the assumption holds exactly: ρ = 0.2·p^0.35.
    scores["log_likelihood"] = np.log(scores["probability"] / 0.2) / 0.35
    columns = [*sentences.columns, "log_likelihood"]
    privacy.write_table(
        scores[columns].assign(tokens=5), folder / "perfect.parquet", restricted=False
    )
    return sentences, check(folder, "perfect")


def test_a_scorer_that_meets_the_assumption_gets_a_perfect_fit(checked):
    sentences, tables = checked
    summary = tables["summary"].set_index(["sentences", "scorer"])
    for chosen in (ALL, FINDINGS):
        row = summary.loc[(chosen, "perfect")]
        assert row["spearman"] == pytest.approx(1)
        assert (row["a"], row["k"]) == pytest.approx((0.2, 0.35))
        assert row["error"] == pytest.approx(0, abs=1e-9)
        bins = tables["calibration"].query("sentences == @chosen and scorer == 'perfect'")
        np.testing.assert_allclose(bins["predicted"], bins["actual"])
    assert set(summary.loc[ALL].index) == {"perfect", *SIMPLE}
    assert (summary.loc[ALL]["texts"] == len(sentences)).all()
    assert (summary.loc[FINDINGS]["texts"] < len(sentences) / 2).all()
    assert summary["low"].le(summary["high"]).all()


def test_points_cover_every_sentence_and_contain_no_text(checked):
    sentences, tables = checked
    points = tables["points"]
    assert (points.groupby("scorer")["count"].sum() == len(sentences)).all()
    words = {
        word for sentence in sentences["sentence"] for word in words_of(sentence) if len(word) > 4
    }
    values = set(points.select_dtypes(include=["object", "string"]).to_numpy().ravel())
    assert not values & set(sentences["sentence"])
    assert values & words <= {"phantom", "length"}
