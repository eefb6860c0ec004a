"""Monitors equal plain loops over anchors, by class group."""

import math

import pytest
import torch

from trueneg.losses import build
from trueneg.training.monitors import ViewMonitors

RARE = torch.tensor([False, False, True])
UNKNOWN = (-1, -2)  # classes of the unlabelled images


def by_the_book(first, second, labels, temperature, log_mass, at_bound):
    """Yield the measures of each anchor of known class, from their definitions."""
    views = torch.nn.functional.normalize(torch.cat([first, second]).double(), dim=1)
    classes = torch.cat([labels, labels]).tolist()
    count = len(labels)
    for anchor in (place for place, own in enumerate(classes) if own >= 0):
        partner = (anchor + count) % (2 * count)
        others = [other for other in range(2 * count) if other not in (anchor, partner)]
        mass = {
            other: math.exp(float(views[anchor] @ views[other]) / temperature) for other in others
        }
        positive = math.exp(float(views[anchor] @ views[partner]) / temperature)
        same = [mass[other] for other in others if classes[other] == classes[anchor]]
        different = [
            mass[other] for other in others if classes[other] not in (classes[anchor], *UNKNOWN)
        ]
        yield {
            "at bound": at_bound[anchor],
            "rare": bool(RARE[classes[anchor]]),
            "ratio": sum(same) / len(same) / positive if same else None,
            "true": sum(different) / len(different) if different else None,
            "estimated": math.exp(float(log_mass[anchor])) / len(others),
        }


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else float("nan")


@pytest.mark.parametrize("temperature", [0.1, 0.5])
@pytest.mark.parametrize("eta", [0.0, 0.3])
@pytest.mark.parametrize("unlabelled", [(), UNKNOWN])
def test_monitors_equal_loops_over_anchors(temperature, eta, unlabelled):
    draw = torch.Generator().manual_seed(1)
    # Class 2 has one image: its anchors have no negative of their own class.
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 0, *unlabelled])
    first = torch.randn(len(labels), 5, generator=draw)
    second = first + 0.7 * torch.randn(len(labels), 5, generator=draw)
    terms = build({"name": "dcl", "class_probability": eta}, temperature=temperature).terms(
        first, second
    )
    monitors = ViewMonitors(RARE, torch.device("cpu"))
    monitors.add(terms, labels)
    row = monitors.read()
    anchors = list(
        by_the_book(
            first, second, labels, temperature, terms.log_negative_mass, terms.at_bound.tolist()
        )
    )
    assert row["loss"] == pytest.approx(float(terms.loss), rel=1e-6)
    for group, rare in (("common", False), ("rare", True)):
        chosen = [anchor for anchor in anchors if anchor["rare"] == rare]
        assert row[f"estimated mean {group}"] == pytest.approx(
            mean(a["estimated"] for a in chosen), rel=1e-4
        )
        assert row[f"true mean {group}"] == pytest.approx(mean(a["true"] for a in chosen), rel=1e-4)
        ratio = row[f"same-class to positive ratio {group}"]
        assert ratio == pytest.approx(mean(a["ratio"] for a in chosen), rel=1e-4, nan_ok=True)
        assert row[f"share at bound {group}"] == pytest.approx(
            mean(float(a["at bound"]) for a in chosen)
        )
    assert math.isnan(row["same-class to positive ratio rare"])
    if eta and temperature == 0.1:
        assert row["share at bound common"] > 0


def test_means_are_over_steps_and_reset_when_read():
    labels = torch.tensor([0, 1, 2, 0])
    monitors = ViewMonitors(RARE, torch.device("cpu"))
    loss = build({"name": "cl"}, temperature=0.5)
    values = []
    for seed in range(3):
        first, second = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(seed))
        terms = loss.terms(first, second)
        monitors.add(terms, labels)
        values.append(float(terms.loss))
    assert monitors.read()["loss"] == pytest.approx(sum(values) / 3, rel=1e-6)
    assert monitors.read()["loss"] == 0


def test_a_low_temperature_does_not_overflow():
    first, second = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    monitors = ViewMonitors(RARE, torch.device("cpu"))
    monitors.add(build({"name": "cl"}, temperature=0.01).terms(first, second), labels)
    assert all(math.isfinite(value) for value in monitors.read().values())
