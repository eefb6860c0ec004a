"""Cross-fitting: which language model may score which report."""

import pandas as pd

from trueneg.randomness import seed_for

VALIDATION = "validation"


def fold_of(patient: str, folds: int, seed: int) -> int:
    """The fold of a patient, from the id alone: adding reports moves nobody.

    The model of fold f is trained on the patients of all other folds, and scores those of fold f.

    Args:
        patient: id of the patient, or of the report where patients are not known.
        folds: how many there are; with 1 everybody is in fold 0.
        seed: the study's seed.
    """
    return seed_for(seed, f"fold/{patient}") % folds


def with_folds(sentences: pd.DataFrame, folds: int, seed: int) -> pd.DataFrame:
    """The sentences with a column ``fold``.

    Args:
        sentences: with the column ``patient``.
        folds: how many.
        seed: the study's seed.
    """
    of = {patient: fold_of(patient, folds, seed) for patient in sentences["patient"].unique()}
    return sentences.assign(fold=sentences["patient"].map(of).astype("int64"))


def training_parts(sentences: pd.DataFrame, fold: int, validation: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the model of a fold may learn from: training and validation sentences, of different patients, none of the fold.

    Args:
        sentences: with the columns ``patient`` and ``fold``.
        fold: whose model.
        validation: share of the patients whose sentences tell when to stop.
        seed: the study's seed.

    Raises:
        ValueError: if either part is empty.
    """
    others = sentences[sentences["fold"] != fold]
    draws = {patient: seed_for(seed, f"{VALIDATION}/{patient}") / 2**63 for patient in others["patient"].unique()}
    held_out = others["patient"].map(draws) < validation
    training, validating = others[~held_out], others[held_out]
    if training.empty or validating.empty:
        raise ValueError(
            f"fold {fold} leaves {len(training):,} sentences to train on and {len(validating):,} to validate with; there must be "
            "some of both. Take fewer folds, another share of validation, or more reports."
        )
    return training, validating
