"""Names in configurations build their losses, and unknown names list the known ones."""

import inspect
import re
from pathlib import Path

import pytest
import torch

import trueneg.losses
from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    HardNegative,
    Oracle,
    RelaxedContrastiveLoss,
    Removed,
    Resampled,
    Reweighted,
    Uncorrected,
    build,
)
from trueneg.losses.build import parameters
from trueneg.losses.registry import ESTIMATORS, WHOLE_LOSSES
from trueneg.losses.targets import SameClass

NAMES = [*ESTIMATORS, *WHOLE_LOSSES]
REQUIRED = {"quantile": {"share": 0.2}, "global": {"samples": 64}, "glofnd": {"samples": 64}}
SHIPPED = [
    name
    for name in NAMES
    if name in WHOLE_LOSSES or ESTIMATORS[name] in vars(trueneg.losses).values()
]
PAGE = Path(__file__).parents[2] / "docs/losses.md"


@pytest.mark.parametrize(
    ("objective", "estimator"),
    [
        ({"name": "cl"}, Uncorrected()),
        ({"name": "dcl", "class_probability": 0.1}, Debiased(0.1)),
        ({"name": "hcl", "beta": 2.0, "class_probability": 0.1}, HardNegative(2.0, 0.1)),
        ({"name": "bcl", "alpha": 0.9, "form": "consistent"}, Bayesian(0.9, form="consistent")),
        ({"name": "remove", "threshold": 0.8}, Removed(0.8)),
        ({"name": "reweight", "exponent": 2.0}, Reweighted(2.0)),
        ({"name": "resample", "size": 16}, Resampled(16)),
        (
            {"name": "adnce", "mu": 0.4, "sigma": 1.0, "shuffled": True},
            AdjustedInfoNCE(0.4, 1.0, True),
        ),
        ({"name": "oracle"}, Oracle()),
    ],
)
def test_a_name_and_its_parameters_build_the_estimator(objective, estimator):
    two_views = build(objective, temperature=0.2, chunk_size=8)
    assert isinstance(two_views, ContrastiveLoss)
    assert (two_views.estimator, two_views.temperature, two_views.chunk_size) == (estimator, 0.2, 8)
    two_modalities = build(objective, directions="text")
    assert isinstance(two_modalities, CrossModalLoss)
    assert (two_modalities.estimator, two_modalities.directions) == (estimator, "text")


def test_names_without_an_estimator_build_their_loss():
    reco, constraint = (
        build({"name": "reco", "margin": -0.2}),
        build({"name": "oc", "negative_weight": 0.3}),
    )
    assert isinstance(reco, RelaxedContrastiveLoss)
    assert (reco.negative_weight, reco.relaxed, reco.margin) == (0.6, True, -0.2)
    assert (constraint.negative_weight, constraint.relaxed, constraint.margin) == (0.3, False, 0)
    with pytest.raises(ValueError, match="oc has no parameter margin"):
        build({"name": "oc", "margin": -0.2})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("directions", [None, "both"])
def test_execution_options_reach_every_loss(name, directions):
    loss = build(
        {"name": name, **REQUIRED.get(name, {})},
        directions=directions,
        chunk_size=8,
        gather_distributed=True,
    )
    assert (loss.chunk_size, loss.gather_distributed) == (8, True)


@pytest.mark.parametrize(
    "objective",
    [
        {"name": "simclr"},
        {},
        {"name": "dcl", "eta": 0.1},
        {"name": "reco", "hardness": 5},
        {"name": "reco", "scope": "hard"},
        {"name": "sigmoid", "scope": "hard"},
    ],
)
def test_an_unknown_name_or_parameter_raises_an_error_that_lists_all_of_them(objective):
    with pytest.raises(ValueError, match="objective") as error:
        build(objective)
    for name in NAMES:
        listed = ", ".join(parameters(name)) or "no parameters"
        assert f"{name} ({listed})" in str(error.value)


def test_a_name_instead_of_a_mapping_is_refused():
    with pytest.raises(ValueError, match="objective is 'dcl'; expected a mapping"):
        build("dcl")


def test_the_targets_of_an_alias_are_its_own():
    with pytest.raises(ValueError, match="supcon has targets of its own"):
        build({"name": "supcon", "targets": {"name": "half_uniform"}})
    assert build({"name": "supcon", "targets": None}).target_rule == SameClass()


def test_a_value_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"class_probability is 1\b"):
        build({"name": "dcl", "class_probability": 1})


@pytest.mark.parametrize("name", SHIPPED)
def test_the_documentation_lists_every_name_with_its_parameters_and_defaults(name):
    row = next(
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{name}` |")
    )
    listed = dict(re.findall(r"`(\w+)=([^`]+)`", row))
    given = {
        key: default
        for key, default in parameters(name).items()
        if default is not inspect.Parameter.empty
    }
    assert listed == {key: str(default) for key, default in given.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_trains_with_its_defaults(name):
    z1, z2 = torch.randn(6, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    loss = build({"name": name, **REQUIRED.get(name, {})})
    known = {
        "labels": torch.arange(6) % 2,
        "negative_similarity": torch.eye(6),
        "class_probability": 0.1,
    }
    known |= {"positive_similarity": torch.ones(6), "sampling_probability": torch.ones(6)}
    known |= {"index": torch.arange(6), "unused": "ignore"}
    (loss(z1, z2) if name in WHOLE_LOSSES else loss(z1, z2, **known)).backward()
    assert bool(z1.grad.isfinite().all())
    assert bool((z1.grad != 0).any())
