"""Expected false negatives and doses, against counting by hand and against the losses
themselves.
"""

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.questions import question_source, started, subset_of
from tests.questions import settings_of as text_settings
from tests.studies import tiny_study
from tests.textures import settings_of, texture_source
from trueneg.class_probability import probability_of_shared_class
from trueneg.config.runs import all_runs
from trueneg.data.false_negatives import MOST, of_pairs, of_texts, of_views
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.losses import build
from trueneg.report.known_data import sentences
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.objectives.sigmoid import PairSigmoid
from trueneg.training.image_text import ImageText


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=2, max_size=9))
def test_the_probability_of_a_shared_class_matches_counting(samples):
    """A sample that is drawn w times as often is like one of w copies, which do not count as
    different samples.
    """
    classes, weights = map(np.array, zip(*samples, strict=True))
    copies = np.repeat(np.arange(len(samples)), weights)
    pairs = [(one, other) for one, other in itertools.product(copies, repeat=2) if one != other]
    expected = np.mean([classes[one] == classes[other] for one, other in pairs])
    assert probability_of_shared_class(classes, weights) == pytest.approx(expected)


def test_many_samples_give_the_sum_of_squared_frequencies_and_unrepeated_ones_zero():
    many = np.repeat([0] * 5 + [1] * 3, 1000)
    assert probability_of_shared_class(many, np.ones(8000)) == pytest.approx(
        (5 / 8) ** 2 + (3 / 8) ** 2, rel=1e-3
    )
    for count in (24, 198, 300):  # rounding would give more than 0 for 24, and less for 198
        assert str(probability_of_shared_class(np.arange(count), np.ones(count))) == "0.0"
    million = np.arange(1_000_000)
    million[1] = 0  # one pair of equal texts
    assert probability_of_shared_class(million, np.ones(1_000_000)) == pytest.approx(
        2e-12, rel=1e-3
    )
    assert probability_of_shared_class(np.array([0]), np.ones(1)) == 0


def different_images(count):
    return np.repeat(np.arange(count, dtype=np.uint8), 4).reshape(count, 1, 2, 2)


def views(objective, batch_size=16, rare=(), **of_objective):
    """Return the facts of a run on 90 images of three classes: 60, 24 and 6."""
    labels = np.repeat(np.arange(3), (60, 24, 6))
    source = ImageSource("s", different_images(90), labels, np.zeros(90, bool), ("a", "b", "c"))
    subset = make_subset(source, seed=0, fraction=0.5, rare_classes=rare, validation=0.0, test=0.5)
    study = tiny_study(
        objectives=tiny_study()["objectives"] | {"X": {"name": objective, **of_objective}}
    )
    run = next(
        run for run in all_runs("s", ImageStudy.model_validate(study)) if run.objective == "X"
    )
    run.settings["training"]["batch_size"] = batch_size
    return of_views(source, subset, run.settings), labels[subset.train], run.settings


def test_the_negatives_of_two_views_are_those_of_the_loss():
    facts, labels, _ = views("cl")
    anchors = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(0))
    terms = build({"name": "cl"}, temperature=0.5).terms(*anchors)
    counts = torch.cat([(~logits.isneginf()).sum(1) for logits in terms.logits])
    assert set(counts.tolist()) == {facts["negatives"]}
    assert facts["expected"]["classes"] == pytest.approx(
        30 * np.mean([a == b for a, b in itertools.permutations(labels, 2)])
    )
    assert "eta" not in facts


def test_unlabelled_images_do_not_count():
    labels = np.array([0] * 30 + [1] * 10 + [-1] * 60)
    source = ImageSource("s", different_images(100), labels, np.zeros(100, bool), ("a", "b"))
    subset = make_subset(source, seed=0, validation=0.0, test=0.5)
    run = views("dcl", class_probability="true")[2]
    known = labels[subset.train][labels[subset.train] >= 0]
    share = np.mean([a == b for a, b in itertools.permutations(known, 2)])
    facts = of_views(source, subset, run)
    assert facts["expected"]["classes"] == pytest.approx(30 * share)
    assert facts["eta"]["maximum"] == pytest.approx(0.75)


def test_the_range_of_the_true_eta_is_that_of_the_class_frequencies():
    facts, labels, _ = views("dcl", class_probability="true", rare=["c", "b"])
    shares = (np.bincount(labels) / len(labels))[labels]
    assert [facts["eta"][key] for key in ("minimum", "mean", "maximum")] == pytest.approx(
        [shares.min(), shares.mean(), shares.max()]
    )
    (about_data, about_eta), _ = sentences([("d", "X", facts)] * 2, "CL")
    assert "share its class" in about_data
    assert re.search(
        rf"η is {shares.min():.2g} to {shares.max():.2g}, on average {shares.mean():.2g}", about_eta
    )


def test_weighting_by_hardness_alone_has_no_eta_to_show():
    facts, _, _ = views("hcl", class_probability=0)
    assert facts["eta"]["maximum"] == 0
    (about_data,), warnings = sentences([("d", "X", facts)], "CL")
    assert "η" not in about_data
    assert warnings == []


@pytest.mark.parametrize(
    ("objective", "options", "is_warned"),
    [
        ("dcl", {"class_probability": 1e-4}, True),
        ("dcl", {"class_probability": 0.0}, True),
        ("dcl", {"class_probability": 0.05}, False),
        ("dcl", {"class_probability": 1e-4, "decoupled": True}, False),
        ("dcl", {"class_probability": 1e-4, "targets": {"name": "half_uniform"}}, False),
        ("hcl", {"class_probability": 1e-4, "beta": 0}, True),
        ("hcl", {"class_probability": 1e-4, "beta": 1}, False),
        ("bcl", {"class_probability": 1e-4}, False),
        ("cl", {}, False),
        ("quantile", {"share": 0.1}, False),
    ],
)
def test_a_small_eta_is_numerically_uncorrected(objective, options, is_warned):
    facts, _, _ = views(objective, **options)
    warned = sentences([("d", "X", facts)], "CL")[1]
    assert len(warned) == is_warned
    assert all(
        "X is numerically uncorrected" in warning
        and "of an anchor's 30 negatives, about" in warning
        for warning in warned
    )
    assert sentences([("d", "X", facts)], "X")[1] == []
    anchors = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(0))
    settings = {"name": objective, **options}
    if "targets" not in options and objective != "bcl":
        losses = [
            build(each, temperature=0.5).terms(*anchors).loss for each in (settings, {"name": "cl"})
        ]
        assert (abs(losses[0] / losses[1] - 1) < 1e-3) == (is_warned or objective == "cl")


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"temperature": 0.1}, ()),  # γ = 10 = −b
        ({"temperature": 0.5}, ("logit scale 2 .* raise the scale .* to 10",)),
        ({"temperature": 0.1, "bias": -3}, ("30 negatives .* lower bias to -3.4",)),
        ({"temperature": 0.5, "bias": -3}, ("raise the scale .* to 3", "lower bias to -3.4")),
        ({"temperature": 0.25, "bias": -3.5}, ()),
    ],
)
def test_a_sigmoid_with_a_softmaxs_temperature_is_warned_of(settings, facts):
    warned = sentences([("d", "X", views("sigmoid", **settings)[0])], "CL")[1]
    assert len(warned) == len(facts)
    for warning, fact in zip(warned, facts, strict=True):
        assert re.search(rf"^d: X starts like a softmax.*{fact}", warning)


@pytest.mark.parametrize(("objective", "scale"), [({}, 5.0), ({"logit_scale": 4.0}, 4.0)])
def test_the_warning_on_pairs_is_about_the_logit_scale_of_the_run(objective, scale):
    source = texture_source(patients=12)
    objective = PairSigmoid.model_validate({"name": "sigmoid", **objective}).model_dump()
    run = settings_of(objective, similarity={"logit_scale": 5.0}, training={"batch_size": 8})
    facts = of_pairs(source, split_pairs(source, seed=0, validation=0.1, test=0.2), run)
    (warning,) = sentences([("d", "X", facts)], "CL")[1]
    assert f"logit scale {scale:g} and bias -10" in warning


@pytest.mark.parametrize("unit", ["image", "study"])
def test_identical_texts_and_matches_of_pairs_match_counting(unit):
    source = texture_source(patients=12)
    shouted = source.sentences["sentence"].where(
        np.arange(len(source.sentences)) % 2 == 0, source.sentences["sentence"].str.upper()
    )
    source.sentences["sentence"] = shouted
    subset = split_pairs(source, seed=0, validation=0.1, test=0.2)
    data = PairData(source, subset, torch.device("cpu"))
    said = [
        source.sentences[source.sentences["report"] == report]
        for report in source.reports[subset.train]
    ]
    if unit == "study":
        said = list({table["report"].iloc[0]: table for table in said}.values())
    assert len(said) == data.per_epoch(unit)
    weights = np.concatenate([np.full(len(table), 1 / len(table)) for table in said])
    texts = np.concatenate([table["sentence"].str.lower() for table in said])
    which = np.concatenate([table.index for table in said])
    pairs = [
        (one, other)
        for one, other in itertools.permutations(range(len(texts)), 2)
        if which[one] != which[other]
    ]
    of_pair = [weights[one] * weights[other] for one, other in pairs]
    share = np.average([texts[one] == texts[other] for one, other in pairs], weights=of_pair)
    run = settings_of(
        {"name": "same_sentence", "mode": "left out"}, training={"unit": unit, "batch_size": 8}
    )
    facts = of_pairs(source, subset, run)
    assert facts["negatives"] == 7
    assert facts["expected"]["texts"] == pytest.approx(7 * share)
    trained = source.sentences[source.sentences["report"].isin(source.reports[subset.train])][
        "sentence"
    ]
    repeated = sum(sum(other.lower() == text.lower() for other in trained) > 1 for text in trained)
    assert 0 < repeated < len(trained)
    assert facts["texts"] == {"all": len(trained), "repeated": repeated}
    ((line,), _) = sentences([("d", "X", facts)], "CL")
    assert f"{facts['expected']['texts']:.3g} (" in line
    assert f"{repeated} of {len(trained)} training texts equal another" in line
    eta = "eta true" in source.sentences
    assert ("matches" in facts["expected"]) == eta
    if eta:
        assert facts["expected"]["matches"] == pytest.approx(
            7 * np.mean([table["eta true"].mean() for table in said])
        )


@pytest.mark.parametrize(
    ("training", "draws"),
    [
        ({"updates": 14, "epochs": None}, 14 * 16 / 45),
        ({"updates": 15, "epochs": None}, 15 * 16 / 45),
        ({"updates": None, "epochs": 7}, 7 * 32 / 45),
    ],
)
def test_what_is_learned_of_a_sample_needs_five_draws_of_views(training, draws):
    """Of 45 images, an epoch draws 32: two batches."""
    assert "draws" not in views("cl")[0]
    _, _, run = views("global", batch_size=16)
    run["training"] |= training
    labels = np.repeat(np.arange(3), (60, 24, 6))
    source = ImageSource("s", different_images(90), labels, np.zeros(90, bool), ("a", "b", "c"))
    subset = make_subset(source, seed=0, validation=0.0, test=0.5)
    facts = of_views(source, subset, run)
    assert len(subset.train) == 45
    assert facts["draws"] == {"mean": pytest.approx(draws), "least": 5}
    warnings = sentences([("d", "X", facts)], "CL")[1]
    assert [
        f"X draws each training sample {draws:.2g} times" in warning for warning in warnings
    ] == [True] * (draws < 5)


@pytest.mark.parametrize("unit", ["image", "study"])
@pytest.mark.parametrize(
    "training", [{"updates": 9, "epochs": None}, {"updates": None, "epochs": 2}]
)
def test_draws_of_pairs_match_counting(unit, training):
    source = texture_source(patients=30)
    subset = split_pairs(source, 0)
    settings = settings_of({"name": "global"}, training=training | {"unit": unit, "batch_size": 8})
    run = ImageText(settings, 0, source, subset, torch.device("cpu"))
    drawn = []
    while len(drawn) < run.updates:
        count = min(run.updates_per_epoch, run.updates - len(drawn))
        drawn += [pairs.columns.tolist() for pairs, _ in run.batches(count)]
        run.epoch += 1
    assert len(run.data.images) > run.data.per_epoch("study")
    mean = of_pairs(source, subset, settings)["draws"]["mean"]
    assert mean == pytest.approx(sum(map(len, drawn)) / len(run.data.images))


def test_draws_of_texts_match_counting():
    source, settings = (
        question_source(),
        text_settings({"name": "global"}, training={"updates": 11}),
    )
    run = started(source, settings)
    facts = of_texts(source, subset_of(source), settings)
    assert facts["draws"]["mean"] == pytest.approx(11 * run.batch_size / run.data.per_epoch())


@pytest.mark.parametrize(("hard", "is_known"), [(0, True), (2, False)])
def test_labels_are_not_expected_of_given_hard_negatives(hard, is_known):
    source = question_source(given=True, hard=hard)
    facts = of_texts(source, subset_of(source), text_settings({"name": "cl"}))
    assert ("classes" in facts["expected"]) is is_known


@pytest.mark.parametrize(
    ("value", "extra"),
    [("language model", {}), ("permuted", {}), ("permuted", {"a": 1e-4, "k": 0.0})],
)
def test_the_range_of_eta_is_that_of_the_training_sentences(value, extra):
    source = texture_source(patients=20)
    subset = split_pairs(source, seed=0, validation=0.1, test=0.2)
    run = settings_of(
        {"name": "dcl", "class_probability": value, **extra},
        training={"unit": "image", "batch_size": 8},
    )
    facts = of_pairs(source, subset, run)
    used = (
        PairData(source, subset, torch.device("cpu"))
        .class_probability(value, extra.get("a"), extra.get("k"))
        .numpy()
    )
    expected = [used.min(), used.mean(), np.quantile(used, MOST), used.max()]
    assert [facts["eta"][key] for key in ("minimum", "mean", "most", "maximum")] == pytest.approx(
        expected, rel=1e-5
    )
    assert len(sentences([("d", "LM", facts)], "CL")[1]) == bool(extra)
