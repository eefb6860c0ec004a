"""A small valid configuration for tests, as plain values: digits, one objective of each kind, two seeds, one epoch."""

from typing import Any


def tiny_study(**changes: Any) -> dict[str, Any]:
    """A study that trains in a second; `changes` replace its top-level keys."""
    study = {
        "title": "Tiny",
        "dataset": {
            "source": "digits",
            "rare_classes": [5, 6, 7, 8, 9],
            "fraction": 0.25,
            "test": 0.25,
            "validation": 0.1,
        },
        "encoder": {"name": "small_resnet", "width": 4},
        "projection": {"hidden": 16, "dimensions": 8},
        "augmentation": {"name": "digits"},
        "training": {"epochs": 1, "batch_size": 64, "device": "cpu", "gpu": 0},
        "objectives": {
            "CL": {"name": "cl"},
            "DCL-true": {"name": "dcl", "class_probability": "true"},
            "Oracle": {"name": "oracle"},
        },
        "seeds": 2,
        "evaluation": {"linear_probe": {"epochs": 2, "label_fractions": [0.5, 1.0]}, "gpu": 0},
        "primary": {
            "task": "knn",
            "setting": "labels=all",
            "treatment": "DCL-true",
            "baseline": "CL",
            "oracle": "Oracle",
        },
    }
    return study | changes
