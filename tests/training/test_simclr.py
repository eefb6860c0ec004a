"""Runs of a seed share everything but the objective, and a run depends only on its settings and
seed.
"""

import copy
import dataclasses
import functools
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.evaluation.finished_runs import write_runs
from tests.studies import first_run, tiny_study
from tests.training.interrupted import assert_same_weights
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import encoded_runs
from trueneg.training.simclr import SimCLR, channel_statistics


@pytest.fixture(scope="module")
def source():
    return load_source("digits")


def settings_of(objective="CL", **training):
    objectives = tiny_study()["objectives"] | {"Sigmoid": {"name": "sigmoid"}}
    study = tiny_study(training=tiny_study()["training"] | training, objectives=objectives)
    return copy.deepcopy(first_run("tiny", {"tiny": study}, objective).to_json()["settings"])


def started(source, objective="CL", seed=0, settings=None, **training):
    subset = make_subset(source, seed=seed, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    return SimCLR(
        settings or settings_of(objective, **training), seed, source, subset, torch.device("cpu")
    )


def recorded_views(training):
    """Return the views that the network gets during an epoch, by batch."""
    views = []
    training.network.register_forward_pre_hook(lambda _, given: views.append(given[0].clone()))
    training.train_epoch()
    return torch.stack(views)


def test_objectives_of_a_seed_share_weights_batches_and_views(source):
    cl, dcl, other = started(source), started(source, "DCL-true"), started(source, seed=1)
    assert_same_weights(cl, dcl)
    assert any(
        not torch.equal(value, other.weights()[name]) for name, value in cl.weights().items()
    )
    shared = recorded_views(cl)
    assert torch.equal(shared, recorded_views(dcl))
    assert not torch.equal(shared, recorded_views(other)[: len(shared)])


def test_a_run_trains_on_views_of_their_size_and_its_features_are_those_of_whole_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 3, 12, 12), np.uint8)
    animals = ImageSource(
        "animals", pixels, np.arange(60) % 3, np.arange(60) < 15, ("ant", "bee", "cow")
    )
    subset = make_subset(animals, seed=0)
    settings = settings_of(batch_size=16)
    settings["augmentation"] = {"name": "color", "size": 8, "blur": 0.5}
    training = SimCLR(settings, 0, animals, subset, torch.device("cpu"))
    assert recorded_views(training).shape[2:] == (3, 8, 8)

    write_source(animals, tmp_path / "source.npz")
    write_subsets([subset], tmp_path / "subsets.parquet")
    data = {"source": tmp_path / "source.npz", "subsets": tmp_path / "subsets.parquet"}
    with encoded_runs(
        **write_runs(tmp_path, settings, {"abc": training}), threads=1, **data
    ) as encoded:
        ((run,),) = encoded
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in channel_statistics(animals))
    whole = (torch.from_numpy(pixels[subset.test]) / 255 - mean) / std
    with torch.no_grad():
        torch.testing.assert_close(
            run.of_split("test"), training.network.eval().encoder(whole), rtol=0, atol=1e-5
        )


LARGE_IMAGES = """
import math
import torch
from tests.training.test_simclr import settings_of, started
from trueneg.data.images.loading import load_source

torch.set_num_threads(1)
settings = settings_of(epochs=None, updates=3)
settings["encoder"]["width"] = 8
run = started(load_source("digits", resolution=64), settings=settings)
print(math.isfinite(run.train_epoch()["loss"]))
"""


@pytest.mark.long
def test_a_narrow_network_trains_on_images_of_64_pixels():
    """Runs in a separate process, because a fault in a native library would end it."""
    done = subprocess.run([sys.executable, "-c", LARGE_IMAGES], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_global_random_state_is_neither_used_nor_changed(source):
    torch.manual_seed(1)
    first = started(source)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = started(source)
    assert_same_weights(first, second)
    second.train_epoch()
    assert torch.equal(torch.get_rng_state(), state)


def test_two_epochs_differ_in_order_and_views(source):
    training = started(source, epochs=2)
    assert not torch.equal(recorded_views(training)[:2], recorded_views(training)[:2])


def test_the_two_views_of_an_image_are_drawn_independently(source):
    """Equal views would leave nothing to learn."""
    views = recorded_views(started(source)).unflatten(1, (2, -1))
    differs = (views[:, 0] != views[:, 1]).flatten(2).any(2)
    assert differs.float().mean() > 0.9


def test_training_lowers_the_loss_and_reports_every_monitor(source):
    training = started(source, "DCL-true", epochs=12)
    rows = [training.train_epoch() for _ in range(12)]
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.2
    assert {"share at bound rare", "true mean common", "views_per_second", "learning_rate"} <= set(
        rows[0]
    )


def test_a_run_with_a_fixed_number_of_updates_stops_within_an_epoch(source):
    training = started(
        source,
        settings=settings_of()
        | {"training": settings_of()["training"] | {"epochs": None, "updates": 15}},
    )
    assert training.updates_per_epoch == 757 // 64
    assert training.epochs == 2
    steps = [len(recorded_views(training)) for _ in range(training.epochs)]
    assert steps == [11, 4]


def test_class_probabilities_are_class_frequencies_or_those_of_a_group(source):
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    training = started(source, "DCL-true")
    labels = source.labels[subset.train]
    counts = np.bincount(labels)
    np.testing.assert_allclose(
        training.class_probability.numpy(), counts[labels] / len(labels), rtol=1e-6
    )
    settings = settings_of("DCL-true")
    settings["objective"]["class_probability"] = "high"
    assert started(source, settings=settings).class_probability == pytest.approx(0.2 / 1.25)


def test_unlabelled_images_have_no_known_false_negatives_and_class_probability_0(source):
    hidden = np.arange(len(source.labels)) % 3 == 0
    partly = dataclasses.replace(source, labels=np.where(hidden, -1, source.labels))
    training = started(partly, "DCL-true")
    subset = make_subset(partly, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    labels = partly.labels[subset.train]
    assert set(np.flatnonzero(hidden)) <= set(subset.train)
    same = training.data.labels[:, None] == training.data.labels
    expected = (labels[:, None] == labels) & (labels >= 0)
    np.testing.assert_array_equal(same.numpy(), expected | np.eye(len(labels), dtype=bool))
    counts = np.bincount(labels[labels >= 0])
    frequencies = np.where(labels < 0, 0, counts[labels] / counts.sum())
    np.testing.assert_allclose(training.class_probability.numpy(), frequencies, rtol=1e-6)
    row = started(partly, "Oracle").train_epoch()
    assert all(
        math.isfinite(row[key])
        for key in ("loss", "true mean rare", "same-class to positive ratio common")
    )


def test_a_loss_of_nan_stops_the_run_and_reports_the_epoch_and_the_learning_rate(source):
    training = started(source, learning_rate=1e30, epochs=3)
    with pytest.raises(
        UserError, match=r"The loss became nan in epoch \d of 3 .*learning_rate, which is 1e\+30"
    ):
        [training.train_epoch() for _ in range(3)]


def test_a_batch_larger_than_the_subset_is_refused(source):
    with pytest.raises(UserError, match="batch_size is 800, but the subset of seed 0 contains 757"):
        started(source, batch_size=800)


def test_channel_statistics_exclude_official_test_images():
    from trueneg.data.images.image_source import ImageSource

    images = np.random.default_rng(0).integers(0, 256, (20, 3, 4, 4), dtype=np.uint8)
    is_test = np.arange(20) >= 15
    source = ImageSource("random", images, np.zeros(20, np.int64), is_test, ("only",))
    means, deviations = channel_statistics(source)
    pixels = images[:15].astype(np.float64) / 255
    np.testing.assert_allclose(means, pixels.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(deviations, pixels.std(axis=(0, 2, 3)), rtol=1e-9)


needs_compiler = pytest.mark.skipif(
    not shutil.which("g++"), reason="torch.compile needs a C++ compiler"
)


@needs_compiler
@pytest.mark.long
def test_a_compiled_run_equals_a_plain_one_up_to_rounding_and_is_compiled_once(source):
    from torch._dynamo.utils import counters

    counters.clear()
    for seed, objective in enumerate(("CL", "DCL-true")):
        plain, compiled = (
            started(source, objective, seed, compile=choice) for choice in (False, True)
        )
        assert compiled.train_epoch()["loss"] == pytest.approx(
            plain.train_epoch()["loss"], abs=0.01
        )
    assert counters["stats"]["unique_graphs"] == 1


@needs_compiler
@pytest.mark.long
def test_one_compiled_update_has_the_gradients_of_a_plain_one(source):
    gradients = []
    for choice in (False, True):
        training = started(source, compile=choice)
        training.optimizer.step = lambda: None
        order = torch.arange(64)
        parameters = [
            training.augmentation.draw(64, (8, 8), torch.Generator().manual_seed(view))
            for view in (1, 2)
        ]
        training.network.train()
        training.backward(order, parameters)
        gradients.append([parameter.grad for parameter in training.network.parameters()])
    for plain, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, compiled, atol=1e-5, rtol=1e-3)


@pytest.mark.long
def test_a_failed_compilation_reports_the_setting_and_the_remedy(tmp_path):
    code = (
        "from tests.training.test_simclr import load_source,"
        " started\nstarted(load_source('digits'), compile=True).train_epoch()"
    )
    environment = os.environ | {"CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert finished.returncode != 0
    assert "training.compile is true, but torch.compile failed" in finished.stderr
    assert "set training.compile to false" in finished.stderr


def test_the_weights_of_the_network_decay_and_the_parameters_of_the_loss_do_not(source):
    training = started(source, "Sigmoid", weight_decay=0.01)
    decay = {
        id(parameter): group["weight_decay"]
        for group in training.optimizer.param_groups
        for parameter in group["params"]
    }
    assert {decay[id(parameter)] for parameter in training.network.parameters()} == {0.01}
    assert {decay[id(parameter)] for parameter in training.loss.parameters()} == {0.0}


def test_draws_of_the_objective_depend_on_the_seed_alone(source, monkeypatch):
    """Random removal draws the same however often the network drew before, as by dropout."""
    settings = settings_of("Oracle")
    settings["objective"] |= {"shuffled": True}
    losses = []
    for state in (1, 2):
        training = started(source, settings=settings)
        monkeypatch.setattr(training, "seed_dropout", functools.partial(torch.manual_seed, state))
        losses.append(training.train_epoch()["loss"])
    assert losses[0] == losses[1]
