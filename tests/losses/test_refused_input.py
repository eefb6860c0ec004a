"""Arguments that are out of range, missing or of the wrong shape are refused."""

import math

import numpy as np
import pytest
import torch

from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Guided,
    LearnedThresholds,
    Oracle,
    Quantile,
    Removed,
    Uncorrected,
    build,
)
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Attracted

NAN = torch.full((3, 3), math.nan)


def build_targets(name, directions=None, **settings):
    return build({"name": "cl", "targets": {"name": name, **settings}}, directions=directions)


def two(estimator, **known):
    return ContrastiveLoss(estimator)(torch.eye(3), torch.eye(3), **known)


def pairs(similarity, estimator=Uncorrected(), **known):  # noqa: B008 (estimators have no state)
    return CrossModalLoss(estimator)(similarity, 1.0, **known)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_targets("softmax", temperature=0), "targets.temperature is 0"),
        (lambda: build_targets("softmax", temperature=math.nan), "targets.temperature is nan"),
        (lambda: build_targets("softmax", share=1.1), r"targets.share is 1\.1"),
        (lambda: build_targets("softmax", share=-0.1), r"targets.share is -0\.1"),
        (
            lambda: build_targets("softmax")(torch.eye(3), torch.eye(3)),
            "negative_similarity is missing; the targets softmax",
        ),
        (
            lambda: build_targets("wcl_one_head")(torch.eye(3), torch.eye(3)),
            "is missing; the targets wcl_one_head",
        ),
        (
            lambda: build_targets("wcl_one_head", directions="text")(
                torch.eye(3), 1.0, negative_similarity=torch.eye(3)
            ),
            "1 views",
        ),
        (lambda: LearnedThresholds(0), "samples is 0"),
        (lambda: LearnedThresholds(3, share=1), "share is 1"),
        (lambda: LearnedThresholds(3, share=-0.1), r"share is -0\.1"),
        (lambda: LearnedThresholds(3, learning_rate=0), "learning_rate is 0"),
        (lambda: Guided(math.nan), "margin is nan"),
        (lambda: Quantile(1.0), r"share is 1\.0"),
        (lambda: Removed(top_k=0), "top_k is 0"),
        (lambda: Oracle(precision=0), "precision is 0"),
        (lambda: Oracle(recall=1.5), r"recall is 1\.5"),
        (lambda: Attracted(math.inf), "threshold is inf"),
        (lambda: Attracted(top_k=0), "top_k is 0"),
        (lambda: Attracted()(Layout(4, 4), None), "negative_similarity is missing"),
        (
            lambda: two(Guided(), negative_similarity=torch.zeros(3, 3)),
            "positive_similarity is missing",
        ),
        (
            lambda: two(Guided(), positive_similarity=torch.zeros(3), unused="ignore"),
            "negative_similarity is missing",
        ),
        (
            lambda: two(
                Guided(), negative_similarity=torch.zeros(3, 3), positive_similarity=torch.zeros(2)
            ),
            r"\(2,\).*\(6,\)",
        ),
        (lambda: two(Removed(), negative_similarity=torch.zeros(3, 4)), r"\(3, 4\).*\(3, 3\)"),
        (
            lambda: two(Removed(), negative_similarity=torch.full((3, 3), math.nan)),
            "negative_similarity contains NaN",
        ),
        (lambda: two(Uncorrected(), targets=torch.full((3, 3), 0.5)), r"row 0 sums to 1\.5"),
        (lambda: two(Uncorrected(), targets=torch.full((3, 3), math.nan)), "row 0 sums to nan"),
        (
            lambda: two(Uncorrected(), targets=torch.eye(4)),
            r"targets has shape \(4, 4\); expected \(3, 3\)",
        ),
        (lambda: pairs(torch.zeros(4, 3)), r"\(4, 3\); expected \(B, B\) or \(B, B \+ H\)"),
        (
            lambda: pairs(torch.zeros(3, 3), targets=torch.eye(3)),
            "targets has 1 tensors; expected one per direction",
        ),
        (
            lambda: two(Removed(), negative_similarity=(torch.zeros(3, 3),) * 3),
            "negative_similarity has 3 parts",
        ),
        (
            lambda: two(
                build({"name": "cl", "targets": {"name": "fnc"}}).estimator,
                negative_similarity=NAN,
                unused="ignore",
            ),
            "contains NaN",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), positive_similarity=torch.zeros(3), unused="ignore"),
            r"positive_similarity has shape \(3,\).*\(8,\)",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), positive_similarity=torch.zeros(()), unused="ignore"),
            r"positive_similarity has shape \(\)",
        ),
        (
            lambda: CrossModalLoss(Removed(), "image")(
                torch.eye(4), 1.0, negative_similarity=torch.zeros(4)
            ),
            r"\(4,\).*\(4, 4\)",
        ),
        (
            lambda: pairs(torch.zeros(4, 4), exclude=torch.zeros(4, 4)),
            "exclude is torch.float32; expected bool",
        ),
        (
            lambda: pairs(
                torch.zeros(4, 4), negative_similarity=(torch.zeros(4, 4),), unused="ignore"
            ),
            "negative_similarity has 1 parts",
        ),
        (
            lambda: two(Removed(), negative_similarity=np.zeros((3, 3))),
            "negative_similarity is a ndarray; expected a tensor",
        ),
        (
            lambda: two(Oracle(), labels=np.array([0, 1, 0])),
            "labels is a ndarray; expected a tensor",
        ),
        (
            lambda: ContrastiveLoss(Uncorrected())(np.eye(3), np.eye(3)),
            "z1 is a ndarray; expected a tensor",
        ),
        (lambda: build({"name": "cl", "targets": "fnc"}), "targets is 'fnc'; expected a mapping"),
        (
            lambda: build({"name": "cl", "decoupled": "false"}),
            "decoupled is 'false'; expected True or False",
        ),
        (
            lambda: pairs(torch.zeros(3, 5), exclude=torch.zeros(3, 3, dtype=torch.bool)),
            r"exclude has shape \(3, 3\); expected \(3, 5\)",
        ),
        (
            lambda: build({"name": "cl", "targets": {"name": "soft"}}),
            "targets.name is 'soft'.*onehot, half_uniform, fnc",
        ),
        (
            lambda: build({"name": "cl", "targets": {"name": "fnc", "k": 3}}),
            "targets fnc has no parameter k.*threshold, top_k",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
