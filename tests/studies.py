"""A small valid configuration for tests, as plain values: digits, one objective of each kind, two
seeds, one epoch.
"""

from typing import Any

from trueneg.config.reading import load_configuration
from trueneg.config.runs import Run, all_runs


def tiny_study(**changes: Any) -> dict[str, Any]:
    """Return a study that trains in a second; `changes` replace its top-level keys."""
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
        "training": {"epochs": 1, "batch_size": 64, "device": "cpu"},
        "objectives": {
            "CL": {"name": "cl"},
            "DCL-true": {"name": "dcl", "class_probability": "true"},
            "Oracle": {"name": "oracle"},
        },
        "seeds": 2,
        "evaluation": {"linear_probe": {"epochs": 2, "label_fractions": [0.5, 1.0]}},
        "primary": {
            "task": "knn",
            "labels": "all",
            "treatment": "DCL-true",
            "baseline": "CL",
            "oracle": "Oracle",
        },
    }
    return study | changes


def tuned_study(**changes: Any) -> dict[str, Any]:
    """Return a study of two stages: three tuned objectives with two configurations each, a
    follower, and an untuned one.
    """
    objectives = {
        "CL": {"name": "cl", "temperature": [0.2, 0.5]},
        "HCL": {"name": "hcl", "class_probability": 0.1, "temperature": [0.2, 0.5], "beta": [2.0]},
        "Oracle": {"name": "oracle", "temperature": [0.2, 0.5]},
        "Hardness": {"name": "hcl", "class_probability": 0},
        "CL-untuned": {"name": "cl", "temperature": 0.5},
    }
    primary = tiny_study()["primary"] | {"treatment": "HCL"}
    tuning = {"seeds": [100, 101], "follow": {"Hardness": "HCL"}}
    return tiny_study(objectives=objectives, primary=primary, tuning=tuning) | changes


def tiny_words(**changes: Any) -> dict[str, Any]:
    """Return a likelihood study of few synthetic reports."""
    study = {
        "kind": "likelihood",
        "title": "Tiny words",
        "reports": {"source": "phantom", "reports": 120},
        "language_models": {
            "BERT": {"epochs": 1, "hidden": 16, "layers": 1, "vocabulary": 300, "device": "cpu"}
        },
        "scoring": {"device": "cpu"},
    }
    return study | changes


def tiny_world(**changes: Any) -> dict[str, Any]:
    """Return an image–text study on the reports of a study named words, which trains in a
    second.
    """
    study = {
        "kind": "image-text",
        "title": "Tiny world",
        "dataset": {
            "source": "phantom",
            "text": "words",
            "resolution": 32,
            "images": 100,
            "test": 0.3,
        },
        "encoder": {"name": "small", "width": 4},
        "text_encoder": {
            "name": "small",
            "hidden": 16,
            "layers": 1,
            "heads": 2,
            "vocabulary": 300,
            "pooling": "mean",
        },
        "projection": {"dimensions": 16},
        "training": {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3, "device": "cpu"},
        "objectives": {
            "CL": {"name": "cl"},
            "DCL-LM": {"name": "dcl", "class_probability": "language model"},
            "Oracle": {"name": "oracle"},
        },
        "seeds": 2,
        "evaluation": {"linear_probe": {"fractions": [1.0], "epochs": 2}},
        "primary": {"treatment": "DCL-LM", "baseline": "CL", "oracle": "Oracle"},
        "figures": {
            "overlays": {"objectives": ["CL", "DCL-LM"], "phrases": 2},
            "similarities": {"objectives": ["CL", "Oracle"]},
        },
    }
    return study | changes


def tiny_texts(**changes: Any) -> dict[str, Any]:
    """Return a text study on a table data/texts.csv and a tower in a folder named bert."""
    study = {
        "kind": "text",
        "title": "Tiny texts",
        "dataset": {"source": "text_table", "path": "data/texts.csv", "label_column": "label"},
        "text_encoder": {"name": "sentence_transformers", "model": "bert", "train": "none"},
        "training": {"updates": 2, "batch_size": 8, "learning_rate": 3e-3, "device": "cpu"},
        "objectives": {
            "CL": {"name": "cl"},
            "DCL": {"name": "dcl", "class_probability": "true"},
            "Oracle": {"name": "oracle"},
        },
        "seeds": 2,
        "primary": {"labels": "seen", "treatment": "DCL", "baseline": "CL", "oracle": "Oracle"},
    }
    return study | changes


def first_run(name: str, studies: dict[str, Any], objective: str) -> Run:
    """Return the run of an objective on the first data set with the first seed."""
    study = load_configuration(studies, "test").studies[name]
    return next(run for run in all_runs(name, study) if run.objective == objective)
