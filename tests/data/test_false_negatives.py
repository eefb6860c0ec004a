"""Expected false negatives and doses, against counting by hand and against the losses themselves."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies import tiny_study
from tests.textures import settings_of, texture_source
from trueneg.class_probability import expected_false_negatives
from trueneg.config.image_study import ImageStudy
from trueneg.config.runs import all_runs
from trueneg.data.false_negatives import MOST, of_pairs, of_views
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.losses import build
from trueneg.report.known_data import sentences


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=3), min_size=2, max_size=4), st.data())
def test_expected_false_negatives_match_counting_all_draws(of_owners, data):
    """Each owner is drawn from once or twice, one of its samples at a time, as pairs of an image and a sentence are."""
    repeats = [data.draw(st.integers(1, 2)) for _ in of_owners]
    drawn_from = [samples for samples, times in zip(of_owners, repeats, strict=True) for _ in range(times)]
    same = []
    for draw in itertools.product(*drawn_from):
        same += [first == second >= 0 for first, second in itertools.permutations(draw, 2)]
    classes = np.array([number for samples in of_owners for number in samples])
    owners = np.repeat(np.arange(len(of_owners)), list(map(len, of_owners)))
    found = expected_false_negatives(classes, 10, owners, np.array(repeats))
    assert found == pytest.approx(10 * np.mean(same))


def test_every_sample_is_drawn_if_there_are_no_owners():
    labels = np.array([0] * 5 + [1] * 3 + [-1] * 2)
    pairs = list(itertools.permutations(labels, 2))
    share = sum(first == second >= 0 for first, second in pairs) / len(pairs)
    assert expected_false_negatives(labels, 62) == pytest.approx(62 * share)
    many = np.repeat(labels[:8], 1000)
    assert expected_false_negatives(many, 62) == pytest.approx(62 * ((5 / 8) ** 2 + (3 / 8) ** 2), rel=1e-3)
    assert expected_false_negatives(np.arange(300), 254) == 0  # nothing is repeated


def views(objective, batch_size=16, rare=(), **of_objective):
    """Return the facts of a run on 90 images of three classes: 60, 24 and 6."""
    labels = np.repeat(np.arange(3), (60, 24, 6))
    source = ImageSource("s", np.zeros((90, 1, 2, 2), np.uint8), labels, np.zeros(90, bool), ("a", "b", "c"))
    subset = make_subset(source, seed=0, fraction=0.5, rare_classes=rare, validation=0.0, test=0.5)
    study = tiny_study(objectives=tiny_study()["objectives"] | {"X": {"name": objective, **of_objective}})
    run = next(run for run in all_runs("s", ImageStudy.model_validate(study)) if run.objective == "X")
    run.settings["training"]["batch_size"] = batch_size
    return of_views(source, subset, run.settings), labels[subset.train]


def test_the_negatives_of_two_views_are_those_of_the_loss():
    facts, labels = views("cl")
    anchors = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(0))
    terms = build({"name": "cl"}, temperature=0.5).terms(*anchors)
    counts = torch.cat([(~logits.isneginf()).sum(1) for logits in terms.logits])
    assert set(counts.tolist()) == {facts["negatives"]}
    assert facts["expected"]["classes"] == pytest.approx(30 * np.mean([a == b for a, b in itertools.permutations(labels, 2)]))
    assert facts["frequencies"] == {"": pytest.approx([3 / 45, 30 / 45])}
    assert facts["dose"] is None


def test_classes_are_rare_or_common_only_where_a_class_is_rare():
    facts, labels = views("dcl", class_probability="true", rare=["c", "b"])
    sizes = np.bincount(labels)
    expected = {"rare": [sizes[2], sizes[1]], "common": [sizes[0], sizes[0]]}
    assert facts["frequencies"] == {group: pytest.approx(np.array(of) / len(labels)) for group, of in expected.items()}
    lines = " ".join(sentences([("d", "X", facts)], "CL")[0])
    assert "(rare)" in lines
    assert "(common)" in lines
    plain = " ".join(sentences([("d", "X", views("cl")[0])], "CL")[0])
    assert "rare" not in plain
    assert "6.7 % to 66.7 %" in plain
    shares = (sizes / len(labels))[labels]
    found = facts["eta"]["class_probability"]
    assert [found[key] for key in ("minimum", "median", "mean", "maximum")] == pytest.approx(
        [shares.min(), np.median(shares), shares.mean(), shares.max()]
    )


@pytest.mark.parametrize(
    ("objective", "options", "dose"),
    [
        ("dcl", {"class_probability": 1e-4}, 30e-4),
        ("dcl", {"class_probability": 0.05}, 1.5),
        ("dcl", {"class_probability": 1e-4, "decoupled": True}, None),
        ("dcl", {"class_probability": 1e-4, "targets": {"name": "half_uniform"}}, None),
        ("hcl", {"class_probability": 1e-4, "beta": 0}, 30e-4),
        ("hcl", {"class_probability": 1e-4, "beta": 1}, None),
        ("cl", {}, None),
        ("quantile", {"share": 0.1}, None),
    ],
)
def test_a_small_dose_is_numerically_the_baseline(objective, options, dose):
    facts, _ = views(objective, **options)
    assert facts["dose"] == (None if dose is None else pytest.approx(dose))
    warned = sentences([("d", "X", facts)], "CL")[1]
    assert len(warned) == (dose is not None and dose < 0.01)
    assert all(f"X is numerically CL: for {100 * MOST:g} %" in warning and "0.003 of 30" in warning for warning in warned)
    anchors = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(0))
    settings = {"name": objective, **options}
    if "targets" not in options:
        losses = [build(each, temperature=0.5).terms(*anchors).loss for each in (settings, {"name": "cl"})]
        assert (abs(losses[0] / losses[1] - 1) < 1e-3) == (bool(warned) or objective == "cl")


@pytest.mark.parametrize("unit", ["image", "study"])
def test_identical_texts_and_matches_of_pairs_match_counting(unit):
    source = texture_source(patients=12)
    subset = split_pairs(source, seed=0, validation=0.1, test=0.2)
    data = PairData(source, subset, torch.device("cpu"))
    said = [source.sentences[source.sentences["report"] == report] for report in source.reports[subset.train]]
    if unit == "study":
        said = list({table["report"].iloc[0]: table for table in said}.values())
    assert len(said) == data.units(unit)
    shares = [
        np.mean([first == second for first in one["sentence"] for second in other["sentence"]])
        for one, other in itertools.permutations(said, 2)
    ]
    run = settings_of({"name": "same_sentence", "mode": "left out"}, training={"unit": unit, "batch_size": 8})
    facts = of_pairs(source, subset, run)
    assert facts["negatives"] == 7
    assert facts["expected"]["texts"] == facts["dose"] == pytest.approx(7 * np.mean(shares))
    eta = "eta true" in source.sentences
    assert ("matches" in facts["expected"]) == eta
    if eta:
        assert facts["expected"]["matches"] == pytest.approx(7 * np.mean([table["eta true"].mean() for table in said]))


@pytest.mark.parametrize(("value", "extra"), [("language model", {}), ("permuted", {}), ("permuted", {"a": 1e-4, "k": 0.0})])
def test_the_range_of_eta_is_that_of_the_training_sentences(value, extra):
    source = texture_source(patients=20)
    subset = split_pairs(source, seed=0, validation=0.1, test=0.2)
    run = settings_of({"name": "dcl", "class_probability": value, **extra}, training={"unit": "image", "batch_size": 8})
    facts = of_pairs(source, subset, run)
    used = PairData(source, subset, torch.device("cpu")).class_probability(value, extra.get("a"), extra.get("k")).numpy()
    found = facts["eta"]["class_probability"]
    expected = [used.min(), np.median(used), used.mean(), used.max()]
    assert [found[key] for key in ("minimum", "median", "mean", "maximum")] == pytest.approx(expected, rel=1e-5)
    assert facts["dose"] == pytest.approx(7 * np.quantile(used, MOST), rel=1e-5)
    assert len(sentences([("d", "LM", facts)], "CL")[1]) == bool(extra)
