"""A synthetic world for image–text tests: small images of noisy textures, and reports that name
them; the truth is known.
"""

import copy
import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.data.pairs.pair_source import PairSource, join_sentences
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.specs import tasks

TEXTURES = ("stripes", "columns", "chequers", "blobs")
SIDES = ("left", "right")
# the positive classes: 8
FINDINGS = [f"{side} {texture}" for texture in TEXTURES for side in SIDES]
CLASSES = pd.DataFrame(
    {
        "class": range(len(FINDINGS) + len(TEXTURES) + 1),
        "kind": ["positive"] * len(FINDINGS) + ["negated"] * len(TEXTURES) + ["filler"],
        "finding": [*(name.split()[1] for name in FINDINGS), *TEXTURES, "weather"],
    }
)
SHARES = np.array([8, 4, 3, 2, 2, 2, 1, 1]) / 23
SIZE = 32

# Every setting of a run, small: what a test changes it says.
SETTINGS: dict[str, dict[str, Any]] = {
    "encoder": {"name": "small", "width": 8},
    "text_encoder": {
        "name": "small",
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "dropout": 0.1,
        "vocabulary": 300,
        "pooling": "mean",
        "maximum_tokens": 32,
        "truncate": False,
    },
    "projection": {"name": "linear", "dimensions": 16},
    "similarity": {
        "aggregation": "global",
        "lse_sharpness": None,
        "attention_scale": None,
        "combined": "scores",
        "logit_scale": 14.0,
        "learned_logit_scale": True,
        "maximum_logit_scale": 100.0,
    },
    "augmentation": {"crop": 0.9375, "brightness": 0.2, "contrast": 0.2},
    "training": {
        "kind": "image-text",
        "epochs": 2,
        "updates": None,
        "unit": "image",
        "batch_size": 16,
        "optimizer": "adamw",
        "learning_rate": 3e-3,
        "weight_decay": 0.01,
        "warmup_updates": 0,
        "schedule": "cosine",
        "device": "cpu",
        "threads": 1,
        "devices": 1,
        "runs_per_device": 1,
        "checkpoint_minutes": 5.0,
    },
    "objective": {"name": "cl", "directions": "text"},
}
# ConVIRT's augmentation, as in two public implementations: jl298/repro-convirt and
# onyekaokonji/ConVIRT-PyTorch-Implementation.
CONVIRT = {
    "brightness": 0.4,
    "contrast": 0.4,
    "crop_area": 0.6,
    "flip": 0.5,
    "rotation": 20,
    "translation": 0.1,
}
CONVIRT |= {"scaling": 0.05, "blur": 3}
LSE_NL = {"aggregation": "lse+nl", "lse_sharpness": 5.0, "attention_scale": 5.0}


def settings_of(
    objective: dict[str, Any] | None = None, **sections: Any
) -> dict[str, dict[str, Any]]:
    """The settings with another objective, and with changes to other sections."""
    changed = copy.deepcopy(SETTINGS)
    for name, values in sections.items():
        changed[name] |= values
    return changed if objective is None else changed | {"objective": objective}


def texture_source(patients: int = 60, seed: int = 0, **changes: Any) -> PairSource:
    """Reports of one or two findings, some denials and some weather; every fourth patient has a
    second image of the report.
    """
    generator = np.random.default_rng(seed)
    rows, images, reports, owners = [], [], [], []
    for number in range(patients):
        report = f"R{number:03}"
        found = generator.choice(len(FINDINGS), generator.integers(1, 3), replace=False, p=SHARES)
        present = {FINDINGS[one].split()[1] for one in found}
        said = [
            (int(one), f"{generator.choice(['Seen', 'Note'])} {FINDINGS[one]}.") for one in found
        ]
        said += [
            (len(FINDINGS) + place, f"No {texture}.")
            for place, texture in enumerate(TEXTURES)
            if texture not in present and generator.random() < 0.3
        ]
        if generator.random() < 0.3:
            said.append((len(CLASSES) - 1, "It rains."))
        rows += [(report, index, sentence, number) for index, (number, sentence) in enumerate(said)]
        for _ in range(1 + (number % 4 == 0)):
            images.append(_draw(found, generator))
            reports.append(report)
            owners.append(f"P{number // 2:03}")
    sentences = pd.DataFrame(rows, columns=["report", "index", "sentence", "class"])
    names = np.array(reports)
    shown = statements_shown(CLASSES, findings_said(sentences, names, len(FINDINGS)))
    labels = np.stack(
        [shown[:, 2 * place : 2 * place + 2].any(1) for place in range(len(TEXTURES))], axis=1
    )
    classes = CLASSES.assign(
        image_probability=np.where(CLASSES["kind"] == "filler", np.nan, shown.mean(0).clip(0, 0.9))
    )
    eta = sentences[["report", "index"]].assign(eta=0.01 + 0.2 * generator.random(len(sentences)))
    eta = eta.assign(
        **{"eta permuted": generator.permutation(eta["eta"]), "eta constant": eta["eta"].mean()}
    )
    # The likelihoods of which a = 0.25 and k = 0.35 make these class probabilities.
    likelihoods = {"log_likelihood": "eta", "log_likelihood permuted": "eta permuted"}
    eta = eta.assign(
        **{name: np.log(eta[column] / 0.25) / 0.35 for name, column in likelihoods.items()}
    )
    eta["tokens"] = sentences["sentence"].str.split().str.len()
    table = join_sentences(
        sentences, assigned=sentences[["report", "index", "class"]], classes=classes, eta=eta
    )
    content = {
        "images": np.stack(images)[:, None],
        "reports": names,
        "patients": np.array(owners),
        "sentences": table,
        "labels": labels.astype(np.float32),
        "label_names": TEXTURES,
        "shown": shown,
    }
    return PairSource("textures", **(content | changes))


def texture_boxes(source: PairSource) -> pd.DataFrame:
    """A box for each finding of each report: its half of the image."""
    findings = source.sentences[source.sentences["class"] < len(FINDINGS)]
    left = findings["class"].to_numpy() % 2 == 0
    corners = {
        "x0": np.where(left, 0, SIZE // 2),
        "y0": 0,
        "x1": np.where(left, SIZE // 2, SIZE),
        "y1": SIZE,
    }
    names = np.array(FINDINGS)[findings["class"]]
    return (
        findings[["report", "class"]]
        .assign(finding=[name.split()[1] for name in names], **corners)
        .reset_index(drop=True)
    )


def _draw(found: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    image = 0.5 + 0.05 * generator.standard_normal((SIZE, SIZE))
    stripes = (np.arange(SIZE) // 2 % 2)[:, None] * np.ones(SIZE)
    blobs = np.add.outer((np.arange(SIZE) % 8 - 3.5) ** 2, (np.arange(SIZE) % 8 - 3.5) ** 2) < 8
    patterns = {
        "stripes": stripes,
        "columns": stripes.T,
        "chequers": (stripes + stripes.T) % 2,
        "blobs": blobs,
    }
    for one in found:
        side, texture = FINDINGS[one].split()
        half = slice(0, SIZE // 2) if side == "left" else slice(SIZE // 2, SIZE)
        image[:, half] += 0.3 * (patterns[texture] - 0.5)[:, half]
    return (255 * image.clip(0, 1)).round().astype(np.uint8)


def measured_rows(networks, source, subset, settings, boxes=None, benchmark=None):
    """The rows of one run; a task whose section `settings` lacks is not measured."""
    run = EmbeddedPairs("abc", networks, source, subset, torch.device("cpu"), boxes, benchmark)
    return list(rows_of("trueneg.evaluation.pairs", [run], dict.fromkeys(tasks.PAIRS) | settings))


def with_negatives(source: PairSource, most: int) -> PairSource:
    """The source with up to so many hard negatives of each sentence: images of other reports."""
    generator = np.random.default_rng(3)
    negatives = np.full((len(source.sentences), most), -1)
    for row, report in enumerate(source.sentences["report"]):
        others = np.flatnonzero(source.reports != report)
        count = generator.integers(0, most + 1)
        negatives[row, :count] = generator.choice(others, count, replace=False)
    return dataclasses.replace(source, negatives=negatives)
