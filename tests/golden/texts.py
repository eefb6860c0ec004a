"""Entries of the text steps: splitting reports, training a language model, scoring sentences, and
class probabilities.
"""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.golden.golden import Entry
from tests.golden.numerics import change, copied, double_precision, float32_is_float64
from tests.text import models
from tests.text.corpus import MODEL
from tests.text.test_sentences import HARD
from trueneg.io import privacy
from trueneg.text import pseudo_log_likelihood, split_sentences
from trueneg.text.eta import write_class_probabilities
from trueneg.text.folds import training_parts, with_folds
from trueneg.text.masked_lm import MaskedLMTraining, new_masked_lm

TEXTS = [
    "The lungs are clear.",
    "No effusion.",
    "Small left effusion.",
    "Heart size is normal.",
] * 12
SETTINGS = MODEL | {"vocabulary": 200, "epochs": 1, "batch_size": 16}
REPORT = (
    "FINDINGS: PA and lateral views, e.g. of 3/4/2011, were compared. The nodule measures 1.4 x 0.9"
    " cm vs. 1.2 cm before.Heart size is normal.\n\n1. No acute disease; no edema. 2. Stable XXXX"
    " nodule, cf. Dr. Smith's note at 3 p.m. 3. ___"
)


def entries() -> Iterator[tuple[str, Entry]]:
    """The steps from reports to class probabilities."""
    yield "splitter: difficult reports", Entry(("splitter",), _sentences)
    yield "language_model: three updates", Entry(("language_model",), _language_model)
    yield "language_model: folds", Entry(("language_model",), _folds)
    for variant, model in (
        ("original", models.bert),
        ("within_word_l2r", models.bert),
        ("causal", models.gpt),
    ):
        yield (
            f"likelihoods: {variant}",
            Entry(("likelihoods",), functools.partial(_likelihoods, variant, model)),
        )
    for per_token in (False, True):
        title = "per token" if per_token else "of sentences"
        yield (
            f"class_probability: {title}",
            Entry(("class_probability",), functools.partial(_class_probability, per_token)),
        )


def _sentences() -> list[list[str]]:
    return [split_sentences(text) for text in (REPORT, *(text for text, _ in HARD[1:16]))]


def _language_model() -> dict[str, Any]:
    with double_precision(), float32_is_float64():
        model, tokenizer = new_masked_lm(TEXTS, SETTINGS, seed=0)
        for part in model.double().modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0  # torch's own draws differ from those of MKL
        training = MaskedLMTraining(
            model, tokenizer, (TEXTS, TEXTS[:4]), SETTINGS, 0, torch.device("cpu")
        )
        before = copied(model.state_dict())
        row = training.train_epoch(lambda: None)
        return {
            "row": row,
            "weights": change(before, model.state_dict(), 2),
            "tokens": len(tokenizer),
        }


def _folds() -> dict[str, Any]:
    table = pd.DataFrame(
        {
            "patient": [f"p{number // 2}" for number in range(24)],
            "sentence": [f"s{n}" for n in range(24)],
        }
    )
    folded = with_folds(table, 2, seed=0)
    training, validation = training_parts(folded, 0, 0.3, seed=0)
    return {
        "folds": folded["fold"],
        "training": training["sentence"],
        "validation": validation["sentence"],
    }


def _likelihoods(variant: str, model: Any) -> list[float]:
    tokenizer = models.tokenizer()
    with double_precision(), float32_is_float64():
        network = model(len(tokenizer))
        return pseudo_log_likelihood(
            network.double(), tokenizer, models.SENTENCES[:5], variant=variant
        ).tolist()


def _class_probability(per_token: bool) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "report": [f"r{number // 3}" for number in range(12)],
            "index": [number % 3 for number in range(12)],
        }
    )
    table = table.assign(
        log_likelihood=-6 * generator.random(12), tokens=generator.integers(2, 5, 12)
    )
    settings = {"a": 0.8, "k": 0.35, "maximum": 0.6, "per_token": per_token}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        privacy.write_table(table, folder / "likelihoods.parquet", restricted=False)
        write_class_probabilities(
            folder / "likelihoods.parquet", settings=settings, seed=0, eta=folder / "eta.parquet"
        )
        found = privacy.read_table(folder / "eta.parquet")[0]
    return {column: found[column] for column in found if column.startswith("eta")}
