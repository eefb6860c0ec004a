"""The bias of the sigmoid loss is trained, saved and shown with the networks, in every kind of
training.
"""

import pytest
import torch

from tests import questions
from tests.objectives import train_one_update
from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.interrupted import EVERY_UPDATE, KilledError, assert_same_weights, without_times
from tests.training.test_simclr import settings_of as view_settings
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

CPU, KINDS = torch.device("cpu"), ["views", "pairs", "texts"]


def started(kind, **objective):
    """A new run of four updates in two epochs."""
    objective = {"name": "sigmoid", "bias": -4.0} | objective
    if kind == "views":
        source, settings = (
            load_source("digits"),
            view_settings(epochs=None, updates=4, batch_size=400, weight_decay=0.5),
        )
        subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
        return SimCLR(settings | {"objective": objective}, 0, source, subset, CPU)
    if kind == "pairs":
        source, training = (
            texture_source(patients=48),
            {"epochs": None, "updates": 4, "batch_size": 18, "warmup_updates": 0},
        )
        return ImageText(
            pair_settings(objective, training=training), 0, source, split_pairs(source, 0), CPU
        )
    settings = questions.settings_of(objective, training={"updates": 4, "batch_size": 40})
    return questions.started(questions.question_source(), settings)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_moves_the_bias_down_by_the_learning_rate_without_decay(kind):
    training = started(kind, bias=2.0)  # so large that the negatives dominate
    train_one_update(training)
    rate = training.optimizer.param_groups[-1]["lr"]
    # Adam's first step, whatever the gradient
    assert training.loss.estimator.bias.item() == pytest.approx(2 - rate, rel=1e-4)
    (group,) = (
        each
        for each in training.optimizer.param_groups
        if any(p is training.loss.estimator.bias for p in each["params"])
    )
    assert group["weight_decay"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_that_is_not_learned_stays(kind):
    training = started(kind, learned_bias=False)
    row = training.train_epoch()
    assert training.loss.estimator.bias.item() == row["bias"] == -4.0


def trained(kind, folder, killed_after=None):
    """Train to the end from the folder's checkpoint, if there is one, or until killed; return the
    run and its rows.
    """
    training, checkpoint = (
        started(kind),
        Checkpoint(folder, "digest", minutes=EVERY_UPDATE, about={}),
    )
    rows = checkpoint.restore(training)

    def after_update():
        checkpoint.after_update(training, rows)
        if training.updates_done == killed_after:
            raise KilledError

    while training.epoch < training.epochs:
        rows.append(training.train_epoch(after_update))
        checkpoint.after_epoch(training, rows)
    return training, rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_resumes_with_its_bias(kind, tmp_path):
    whole, expected = trained(kind, tmp_path / "whole")
    with pytest.raises(KilledError):
        trained(kind, tmp_path / "killed", killed_after=3)
    resumed, rows = trained(kind, tmp_path / "killed", killed_after=3)  # no longer reached
    assert_same_weights(whole, resumed)
    assert torch.equal(whole.loss.estimator.bias, resumed.loss.estimator.bias)
    assert rows[-1]["bias"] == whole.loss.estimator.bias.item() != -4.0
    assert without_times(rows) == without_times(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_of_the_run_holds_the_networks_without_the_bias(kind):
    with_bias, without = started(kind), started(kind, learned_bias=False)
    assert with_bias.weights().keys() == without.weights().keys()
