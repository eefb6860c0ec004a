"""Moving averages of each sample's negative mass over several epochs equal loops over plain
numbers, also with thresholds.
"""

import math

import numpy as np
import pytest
import torch

from tests.golden.numerics import double_precision
from tests.questions import frozen_of, question_source, settings_of, started
from tests.textures import LSE_NL, texture_source
from tests.textures import settings_of as pair_settings
from tests.training.interrupted import assert_same_weights
from tests.training.test_simclr import settings_of as view_settings
from tests.training.test_simclr import started as started_views
from tests.training.text_pairs.batches import SCALE, SIDES, facts_of
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.losses import LearnedThresholds
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
RATE = 0.4
# no share of any number of negatives here: Adam would enlarge the rounding of a gradient of 0
SHARE = 0.2137
GLOFND = {
    "name": "glofnd",
    "loss": "global",
    "rate": RATE,
    "share": SHARE,
    "threshold_rate": 0.4,
    "start": 0.01,
}  # from the second update

HARD = {"given": True, "hard": 2}


def new_average(before, mean):
    return mean if before is None else (1 - RATE) * before + RATE * mean


def recorded(run):
    """Let a run record the arguments and the terms of each backward pass, with the logit scale
    before it.
    """
    passes, backward = [], run.backward

    def record(*batch):
        scale = run.model.logit_scale().item() if hasattr(run, "model") else None
        monitored = backward(*batch)
        passes.append((batch[0], monitored[0], scale))
        return monitored

    run.backward = record
    return passes


def assert_averages(run, averages):
    log_averages = run.loss.estimator.log_averages
    expected = torch.full(log_averages.shape, -math.inf, dtype=torch.float64)
    for place, value in averages.items():
        expected[place] = math.log(value)
    torch.testing.assert_close(log_averages.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "objective", [{"name": "global", "rate": RATE}, GLOFND], ids=["global", "glofnd"]
)
def test_views_share_the_average_of_their_image(objective):
    settings = view_settings(epochs=2)
    run = started_views(load_source("digits"), settings=settings | {"objective": objective})
    passes, averages, removed = recorded(run), {}, 0
    for _ in range(2):
        run.train_epoch()
    thresholds, temperature = (
        LearnedThresholds(len(run.data.images), SHARE, 0.4),
        settings["training"]["temperature"],
    )
    for update, (chosen, terms, _) in enumerate(passes):
        before = dict(averages)
        cosines = temperature * terms.logits[0].detach()
        highest = torch.full((2 * len(chosen),), math.inf)
        if update and objective is GLOFND:
            highest = thresholds.update(chosen, cosines).repeat(2)
        for i, sample in enumerate(chosen.tolist()):
            new = []
            for view in (0, 1):
                row = view * len(chosen) + i
                logits, positive = terms.logits[0][row].tolist(), terms.positive[row].item()
                negatives = [u for u in logits if u > -math.inf]
                below = [
                    math.exp(u - positive)
                    for u in negatives
                    if temperature * u <= highest[row].item()
                ]
                removed += len(negatives) - len(below)
                new.append(new_average(before.get((0, sample)), sum(below) / len(below)))
                log_mass = math.log(len(negatives) * new[-1]) + positive
                assert terms.log_negative_mass[row].item() == pytest.approx(log_mass, rel=1e-4)
            averages[0, sample] = sum(new) / 2
    assert len(passes) * run.batch_size > len(averages)  # some images have been drawn twice
    assert (removed > 0) == (objective is GLOFND)
    assert_averages(run, averages)


@pytest.mark.parametrize("directions", SIDES)
@pytest.mark.parametrize(
    ("objective", "arguments"),
    # Without drawn positives for GloFND: the rounding of a cosine of 1 decides whether it is above
    # the initial threshold of 1.
    [
        ({"name": "global", "rate": RATE}, {}),
        ({"name": "global", "rate": RATE}, HARD),
        (GLOFND, HARD),
    ],
    ids=["drawn", "hard negatives", "hard negatives, thresholds"],
)
def test_each_direction_of_texts_has_its_averages(objective, arguments, directions):
    source, averages, removed = question_source(**arguments), {}, 0
    has_thresholds, objective = objective is GLOFND, objective | {"directions": directions}
    unprojected = {"projection": {"name": "none"}, "similarity": {"logit_scale": SCALE}}
    with double_precision():
        run = started(
            source,
            settings_of(objective, training={"updates": 14}, **unprojected),
            frozen_of(source, np.float64),
        )
        run.network.double()
        run.loss.double()
        if run.guide is not None:
            run.guide.double()
        passes = recorded(run)
        while run.epoch < run.epochs:
            run.train_epoch()
    assert run.epochs > 1
    learned = [LearnedThresholds(run.data.samples, SHARE, 0.4).double() for _ in SIDES[directions]]
    for update, (pairs, terms, scale) in enumerate(passes):
        facts, losses = facts_of(run, pairs), []
        for row, side in enumerate(SIDES[directions]):
            square = torch.tensor(
                [cosines[: facts.count] for cosines in facts.cosines], dtype=torch.float64
            )
            of_side = square if side == "text" else square.mT
            highest = (
                learned[row].update(pairs.anchors, of_side)
                if update and has_thresholds
                else len(square) * [math.inf]
            )
            for i, sample in enumerate(pairs.anchors.tolist()):
                columns = range(len(facts.texts[1]) if side == "text" else facts.count)
                places = [(i, j) if side == "text" else (j, i) for j in columns if j != i]
                kept = [place for place in places if not facts.same(*place)]
                below = [(a, b) for a, b in kept if facts.cosines[a][b] <= highest[i]]
                removed += len(kept) - len(below)
                means = [
                    math.exp(scale * (facts.cosines[a][b] - facts.cosines[i][i])) for a, b in below
                ]
                if means:
                    averages[row, sample] = new_average(
                        averages.get((row, sample)), sum(means) / len(means)
                    )
                losses.append(math.log(1 + len(kept) * averages[row, sample]) if means else 0)
        assert terms.loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-8)
    assert (removed > 0) == has_thresholds
    assert_averages(run, averages)


@pytest.mark.parametrize("combined", ["scores", "losses"])
def test_a_run_on_pairs_with_regions_resumes_with_its_averages(combined):
    source = texture_source(patients=40)
    settings = pair_settings(
        {"name": "global", "directions": "both", "rate": RATE},
        similarity=LSE_NL | {"combined": combined},
        training={"epochs": None, "updates": 7, "batch_size": 12},
    )
    whole, killed, resumed = (
        ImageText(settings, 0, source, split_pairs(source, 0), CPU) for _ in range(3)
    )
    whole.train_epoch()
    killed.train_epoch()
    assert whole.updates_per_epoch < 7
    resumed.load_state(*killed.state())
    for run in (whole, resumed):
        while run.epoch < run.epochs:
            run.train_epoch()
    assert_same_weights(whole, resumed)
    assert torch.equal(whole.loss.estimator.log_averages, resumed.loss.estimator.log_averages)
    drawn = whole.loss.estimator.log_averages.isfinite()
    assert drawn.any()
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(
        whole.loss.estimator.log_averages[0], whole.loss.estimator.log_averages[1]
    )
