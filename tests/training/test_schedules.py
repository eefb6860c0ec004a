"""Scheduled parameters follow their schedules, and measured ones equal their definition."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.studies import first_run, tiny_study
from tests.training.test_simclr import started
from trueneg.config.reading import load_configuration
from trueneg.data.images.loading import load_source
from trueneg.errors import UserError
from trueneg.training.schedules import learning_rate_factor, macro_auc, scheduled_value

LINEAR = {"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.05}


def test_the_linear_schedule_over_400_epochs_is_that_of_the_bcl_paper():
    """β = 2 − 0.005 · epoch, updated every 20 epochs."""
    for epoch in range(400):
        assert scheduled_value(LINEAR, epoch / 400) == pytest.approx(2 - 0.005 * (epoch // 20 * 20))


def test_the_warm_start_changes_once():
    setting = {"schedule": "warm-start", "before": 0.5, "after": 0.7, "at": 0.75}
    values = [scheduled_value(setting, epoch / 400) for epoch in range(400)]
    assert values == [0.5] * 300 + [0.7] * 100


@given(st.floats(0, 1))
def test_the_learning_rate_follows_half_a_cosine_or_is_constant(progress):
    assert learning_rate_factor("cosine", progress) == pytest.approx(
        (1 + math.cos(math.pi * progress)) / 2
    )
    assert learning_rate_factor("constant", progress) == 1


@given(seed=st.integers(0, 99), count=st.integers(4, 30), groups=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_macro_auc_is_the_mean_of_scikit_learns_auc_over_anchors(seed, count, groups):
    draw = torch.Generator().manual_seed(seed)
    # Unit vectors along axes: their similarities are 0 or 1 without rounding, so that many tie.
    embeddings = torch.eye(3, dtype=torch.float64)[torch.randint(3, (count,), generator=draw)]
    if seed % 2:
        embeddings = torch.randn(count, 3, generator=draw, dtype=torch.float64)
    labels = torch.randint(groups, (count,), generator=draw)
    directions = torch.nn.functional.normalize(embeddings, dim=1)
    similarities = directions @ directions.T
    areas = []
    for anchor in range(count):
        others = [other for other in range(count) if other != anchor]
        same = [int(labels[other] == labels[anchor]) for other in others]
        if 0 < sum(same) < len(same):
            areas.append(roc_auc_score(same, similarities[anchor, others]))
    found = macro_auc(embeddings, labels)
    if areas:
        assert found == pytest.approx(sum(areas) / len(areas), rel=1e-9)
    else:
        assert math.isnan(found)


@pytest.fixture(scope="module")
def source():
    return load_source("digits")


def settings_with(objective, epochs):
    study = tiny_study()
    study["objectives"]["BCL"] = {"name": "bcl", "class_probability": 0.1} | objective
    study["training"]["epochs"] = epochs
    return first_run("tiny", {"tiny": study}, "BCL").to_json()["settings"]


def test_scheduled_parameters_are_recorded_in_each_epoch(source):
    warm_start = {"schedule": "warm-start", "at": 0.5}
    linear = {"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.25}
    training = started(
        source, settings=settings_with({"alpha": warm_start, "beta": linear}, epochs=4)
    )
    rows = [training.train_epoch() for _ in range(4)]
    assert [row["alpha"] for row in rows] == [0.5, 0.5, 0.7, 0.7]
    assert [row["beta"] for row in rows] == [2.0, 1.5, 1.0, 0.5]


def test_a_measured_location_rises_as_the_encoder_learns(source):
    setting = {"schedule": "adjusted", "every": 0.5}
    training = started(source, settings=settings_with({"alpha": setting}, epochs=8))
    values = [training.train_epoch()["alpha"] for _ in range(8)]
    assert values[0] == values[3] < values[4] == values[7]
    assert all(0.5 <= value <= 0.99 for value in values)


def test_a_measured_location_may_follow_the_model_of_the_densities(source):
    """α = ½ + 3/2·(AUC − ½), clipped, from the same encoder."""
    first = []
    for link in ("auc", "model"):
        setting = {"schedule": "adjusted", "every": 0.5, "link": link}
        training = started(source, settings=settings_with({"alpha": setting}, epochs=2))
        first.append(training.train_epoch()["alpha"])
    assert 0.5 < first[0] < 0.99
    assert first[1] == pytest.approx(min(0.5 + 1.5 * (first[0] - 0.5), 0.99))


def test_a_schedule_outside_the_range_of_the_form_is_refused():
    study = tiny_study()
    study["objectives"]["BCL"] = {
        "name": "bcl",
        "class_probability": 0.1,
        "form": "released",
        "beta": LINEAR,
    }
    with pytest.raises(UserError, match=r"objectives\.BCL\.beta .*0\.5.* released form"):
        load_configuration({"tiny": study}, "test")


def test_the_network_trains_after_a_location_was_measured(source):
    setting = {"schedule": "adjusted", "every": 0.5}
    training = started(source, settings=settings_with({"alpha": setting}, epochs=2))
    before = {name: value.clone() for name, value in training.network.named_buffers()}
    assert any("running_mean" in name for name in before)
    training.train_epoch()
    assert training.network.training
    assert any((value != before[name]).any() for name, value in training.network.named_buffers())


def test_all_classes_are_measured_if_the_images_are_sorted_by_class(source, monkeypatch):
    monkeypatch.setattr("trueneg.data.images.training_split.MEASURED_IMAGES", 60)
    order = source.labels.argsort(kind="stable")
    by_class = dataclasses.replace(source, images=source.images[order], labels=source.labels[order])
    training = started(by_class, settings=settings_with({"alpha": 0.7}, epochs=2))
    images, labels = training.data.held_out
    assert len(images) == len(labels) == 60
    assert len(labels.unique()) == 10


def test_a_location_that_cannot_be_measured_is_one_sentence(source, monkeypatch):
    monkeypatch.setattr("trueneg.data.images.training_split.MEASURED_IMAGES", 1)
    setting = {"schedule": "adjusted", "every": 0.5}
    training = started(source, settings=settings_with({"alpha": setting}, epochs=2))
    with pytest.raises(UserError, match=r"the 1 measured ones, no class has two images.*more"):
        training.train_epoch()
