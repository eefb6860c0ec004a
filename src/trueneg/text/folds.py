"""Cross-fitting: assign each report to the language model that scores it."""

from pandas import DataFrame

from trueneg.errors import UserError
from trueneg.randomness import seed_for


def with_folds(sentences: DataFrame, folds: int, seed: int) -> DataFrame:
    """Add a column ``fold`` derived from the patient id alone, so adding reports never moves a
    patient to another fold.

    The model of fold f is trained on the patients of all other folds and scores those of fold f.
    """
    fold_of = {
        patient: seed_for(seed, f"fold/{patient}") % folds
        for patient in sentences["patient"].unique()
    }
    return sentences.assign(fold=sentences["patient"].map(fold_of).astype("int64"))


def training_parts(
    sentences: DataFrame, fold: int, validation: float, seed: int
) -> tuple[DataFrame, DataFrame]:
    """Select training and validation sentences for the model of one fold, from disjoint sets of
    patients outside the fold.

    Args:
        sentences: table with the columns ``patient`` and ``fold``.
        fold: fold that the model will score.
        validation: fraction of patients held out for early stopping.
        seed: the study's seed.

    Raises:
        UserError: if either set is empty.
    """
    others = sentences[sentences["fold"] != fold]
    draws = {
        patient: seed_for(seed, f"validation/{patient}") / 2**63
        for patient in others["patient"].unique()
    }
    held_out = others["patient"].map(draws) < validation
    training = others[~held_out]
    validating = others[held_out]
    if training.empty or validating.empty:
        raise UserError(
            f"language_models: without fold {fold}, there are {len(training):,} training sentences"
            f" and {len(validating):,} validation sentences; expected at least one of each. Use"
            " fewer folds, change `validation`, or add reports."
        )
    return training, validating
