"""Settings of objectives that the golden results cover besides the defaults and each word and
boolean.
"""

from typing import Any

Objective = dict[str, Any]

EMA, SELF = {"name": "ema", "momentum": 0.8}, {"name": "self"}
ETA = {"class_probability": 0.05}
# so large that some anchors are at the bound, and others are not
AT_BOUND = {"class_probability": 0.6}
FNC = {"name": "fnc", "threshold": 0.9, "top_k": 3}
SOFTMAX = {"name": "softmax", "temperature": 0.2, "share": 0.6}
# Numbers with which an objective does something on untrained networks, unlike its defaults.
VIEW_NUMBERS = {
    "remove": {"threshold": 0.97, "top_k": 4, "guide": EMA},
    "glofnd": {"share": 0.1, "threshold_rate": 0.5, "start": 0.34},
    "guided": {"margin": 0.01, "guide": EMA},
    "sigmoid": {"bias": -1.0},
}
PAIR_NUMBERS = {
    "remove": {"threshold": 0.7},
    "resample": {"size": 8},
    "glofnd": {"share": 0.1, "threshold_rate": 1.5, "start": 0.34},
    "guided": {"margin": 0.01, "guide": EMA},
    "sigmoid": {"bias": -1.0},
}
VIEWS: dict[str, Objective] = {
    "dcl at the bound": {"name": "dcl"} | AT_BOUND,
    "hcl at the bound": {"name": "hcl"} | AT_BOUND,
    "bcl on a schedule": {
        "name": "bcl",
        "alpha": {"schedule": "adjusted", "every": 0.5},
        "beta": {"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.5},
    }
    | ETA,
    "bcl after its warm start": {
        "name": "bcl",
        "beta": {"schedule": "warm-start", "before": 0.5, "after": 2.0, "at": 0.5},
    }
    | ETA,
    "hcl with a larger beta": {"name": "hcl", "beta": 2.5} | ETA,
    "cl, own temperature": {"name": "cl", "temperature": 0.1},
    "oracle, precision and recall": {"name": "oracle", "precision": 0.6, "recall": 0.5},
    "remove without top_k": {"name": "remove", "threshold": 0.97, "guide": SELF},
    "remove by labels, top_k among ties": {
        "name": "remove",
        "threshold": 0.5,
        "top_k": 1,
        "guide": {"name": "labels"},
    },
    "guided by self": {"name": "guided", "margin": 0.002, "guide": SELF},
    "guided by labels": {"name": "guided", "margin": 0.5, "guide": {"name": "labels"}},
    "targets half_uniform": {"name": "cl", "targets": {"name": "half_uniform"}},
    "targets half_uniform of dcl": {"name": "dcl", "targets": {"name": "half_uniform"}} | ETA,
    "targets fnc, guide self": {"name": "cl", "targets": FNC, "guide": SELF},
    "targets fnc, guide labels": {
        "name": "cl",
        "targets": FNC | {"top_k": 1},
        "guide": {"name": "labels"},
    },
    "targets softmax, guide ema": {"name": "cl", "targets": SOFTMAX, "guide": EMA},
    "targets softmax, guide self": {"name": "cl", "targets": SOFTMAX, "guide": SELF},
    "targets wcl_one_head, guide self": {
        "name": "cl",
        "targets": {"name": "wcl_one_head"},
        "guide": SELF,
    },
    "targets wcl_one_head, guide ema": {
        "name": "cl",
        "targets": {"name": "wcl_one_head"},
        "guide": EMA,
    },
}
# At the initial logit scale of 14, the bound is so low that its value would not matter.
LOW_SCALE = {"logit_scale": 2.0}
LABELS, WORDS = {"name": "labels"}, {"name": "words"}
PAIRS: dict[str, Objective] = {
    "dcl at the bound": {"name": "dcl", "directions": "both"} | AT_BOUND | LOW_SCALE,
    "hcl at the bound": {
        "name": "hcl",
        "directions": "both",
        "beta": 0.5,
        "class_probability": 0.85,
    }
    | LOW_SCALE,
    "dcl at the bound, with its gradient": {"name": "dcl", "bound_gradient": True}
    | AT_BOUND
    | LOW_SCALE,
    "cl, switched off by a number": {"name": "cl", "directions": "both", "switched_off_by": 0.9}
    | LOW_SCALE,
    "cl, fixed logit scale": {"name": "cl", "logit_scale": 5.0, "learned_logit_scale": False},
    "oracle, precision and recall": {"name": "oracle", "precision": 0.6, "recall": 0.5},
    "remove by guide, top_k": {
        "name": "remove",
        "by": "guide",
        "threshold": 0.2,
        "top_k": 2,
        "guide": SELF,
    },
    "remove by labels, top_k among ties": {
        "name": "remove",
        "by": "labels",
        "threshold": 0.5,
        "top_k": 1,
    },
    "reweight by text, exponent": {"name": "reweight", "exponent": 3.0},
    "reweight by words": {"name": "reweight", "by": "guide", "guide": WORDS},
    "guided by self": {"name": "guided", "directions": "both", "guide": SELF},
    "guided by labels": {"name": "guided", "margin": 0.2, "guide": LABELS},
    "guided by words": {"name": "guided", "margin": 0.3, "guide": WORDS},
    "guided by permuted words": {
        "name": "guided",
        "margin": 0.3,
        "guide": WORDS | {"permuted": True},
    },
    "targets half_uniform": {
        "name": "cl",
        "directions": "both",
        "targets": {"name": "half_uniform"},
    },
    "targets fnc, guide self": {"name": "cl", "targets": FNC | {"threshold": 0.0}, "guide": SELF},
    "targets fnc, guide ema": {"name": "cl", "targets": FNC | {"threshold": 0.0}, "guide": EMA},
    "targets fnc, guide labels": {
        "name": "cl",
        "targets": FNC | {"threshold": 0.5, "top_k": 1},
        "guide": LABELS,
    },
    "targets softmax, guide self": {
        "name": "cl",
        "directions": "both",
        "targets": SOFTMAX,
        "guide": SELF,
    },
    "targets softmax, guide ema": {"name": "cl", "targets": SOFTMAX, "guide": EMA},
    "targets softmax, guide words": {"name": "cl", "targets": SOFTMAX, "guide": WORDS},
}
# On pairs of texts: each guide and target, and what marks negatives, with hard negatives.
TEXTS: dict[str, Objective] = {
    "cl in both directions": {"name": "cl", "directions": "both"},
    "dcl true": {"name": "dcl", "directions": "both", "class_probability": "true"},
    "remove by labels": {"name": "remove", "by": "labels"},
    "guided by self": {"name": "guided", "directions": "both", "guide": SELF},
    "guided by labels": {"name": "guided", "margin": 0.2, "guide": LABELS},
    "guided by words": {"name": "guided", "margin": 0.3, "guide": WORDS},
    "sigmoid by labels": {
        "name": "sigmoid",
        "directions": "both",
        "bias": -4.0,
        "positives": "labels",
    },
    "targets fnc, guide words": {"name": "cl", "targets": FNC | {"threshold": 0.2}, "guide": WORDS},
    "targets softmax, guide ema": {
        "name": "cl",
        "directions": "both",
        "targets": SOFTMAX,
        "guide": EMA,
    },
    "targets half_uniform": {
        "name": "cl",
        "directions": "both",
        "targets": {"name": "half_uniform"},
    },
}
