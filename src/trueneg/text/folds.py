"""Cross-fitting: which language model may score which report."""

import pandas as pd

from trueneg.errors import UserError
from trueneg.randomness import seed_for

VALIDATION = "validation"


def with_folds(sentences: pd.DataFrame, folds: int, seed: int) -> pd.DataFrame:
    """The sentences with a column ``fold``: the patient's, from the id alone, so adding reports moves nobody.

    The model of fold f is trained on the patients of all other folds, and scores those of fold f.
    """
    fold_of = {patient: seed_for(seed, f"fold/{patient}") % folds for patient in sentences["patient"].unique()}
    return sentences.assign(fold=sentences["patient"].map(fold_of).astype("int64"))


def training_parts(sentences: pd.DataFrame, fold: int, validation: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The training and validation sentences of a fold's model: of different patients, none of the fold.

    Args:
        sentences: with the columns ``patient`` and ``fold``.
        fold: whose model.
        validation: share of the patients whose sentences tell when to stop.
        seed: the study's seed.

    Raises:
        UserError: if either part is empty.
    """
    others = sentences[sentences["fold"] != fold]
    draws = {patient: seed_for(seed, f"{VALIDATION}/{patient}") / 2**63 for patient in others["patient"].unique()}
    held_out = others["patient"].map(draws) < validation
    training, validating = others[~held_out], others[held_out]
    if training.empty or validating.empty:
        raise UserError(
            f"language_models: fold {fold} leaves {len(training):,} sentences to train on and {len(validating):,} to validate "
            "with, expected some of both. Take fewer folds, another share of validation, or more reports."
        )
    return training, validating
