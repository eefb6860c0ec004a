"""The texts of a table's rows by their role, and what is wrong with them without any model."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series
from pandas.util import hash_array, hash_pandas_object

from trueneg.data.cells import is_missing, listed_texts, texts_of
from trueneg.data.tables import single_spaced
from trueneg.data.texts.text_source import TextSource
from trueneg.legible import counted
from trueneg.text.cleaning import normalised

ANCHOR, POSITIVE, NEGATIVE = "anchor", "positive", "negative"
REPEATED = "repeats another one of its row"
MIXED = np.uint64(0x9E3779B97F4A7C15)


def text_cells(rows: DataFrame, roles: Mapping[str, str], labels: Series | None) -> DataFrame:
    """Return one line per text of a table's rows, from anchors to negatives.

    Args:
        rows: the cells of the table; one with a list has several texts.
        roles: anchor, positive or negative, by column; anchors first.
        labels: label of each row; None: there are none.

    Returns:
        ``row`` (from 0), ``column``, ``role``, ``place`` in the cell's list, ``text``, ``form``
            (uint64, equal for texts that are equal when normalised) and the row's ``label``.

    Example:
        >>> rows = DataFrame({"query": ["Top up?"], "neg": ['["top up", "Lost card"]']})
        >>> cells = text_cells(rows, {"query": ANCHOR, "neg": NEGATIVE}, None)
        >>> cells["text"].tolist(), cells["form"].nunique()
        (['Top up?', 'top up', 'Lost card'], 2)
    """
    parts = []
    for column, role in roles.items():
        listed = [
            (row, place, text)
            for row, cell in enumerate(rows[column])
            for place, text in enumerate(_texts(cell))
            if not is_missing(text)
        ]
        part = DataFrame(listed, columns=["row", "place", "text"]).astype({"row": int})
        parts.append(part.assign(column=column, role=role))
    cells = pd.concat(parts, ignore_index=True)
    cells["text"] = single_spaced(cells["text"])
    numbers, texts = pd.factorize(cells["text"])
    forms = [normalised(text) for text in texts]
    cells["form"] = hash_array(np.array(forms, object), categorize=False)[numbers]
    cells["label"] = "" if labels is None else labels.to_numpy()[cells["row"]]
    return cells


def fits_role(texts: Series, role: str) -> Series:
    """Return whether cells have as many texts as their role needs: one anchor, any positives.

    Args:
        texts: of :func:`~trueneg.data.cells.texts_of`; None: a list that cannot be read.
        role: anchor, positive or negative.
    """
    counts = texts.str.len().fillna(-1)
    if role == ANCHOR:
        return counts == 1
    return counts >= (0 if role == NEGATIVE else 1)


def cells_of_source(source: TextSource, samples: ndarray) -> DataFrame:
    """Return one line per text of some samples of a source, as :func:`text_cells` does; those that
    stand for missing ones are left out.
    """
    rows = source.rows[samples]
    columns = np.arange(rows.shape[1])
    positives = source.matching.shape[1] - 1
    stands_for = np.where(columns <= positives, min(positives, 1), 0)
    is_text = (columns == stands_for) | (rows != rows[:, stands_for])
    row, column = is_text.nonzero()
    negatives = len(columns) - 1 - positives
    roles = np.array([ANCHOR, *[POSITIVE] * positives, *[NEGATIVE] * negatives])
    of_cells = rows[row, column]
    names = np.array(["", *source.label_names], object)
    return DataFrame(
        {
            "row": row,
            "role": roles[column],
            "text": source.sentences["sentence"].to_numpy(object)[of_cells],
            "form": source.numbers[of_cells].astype(np.uint64),
            "label": names[source.labels[samples] + 1][row],
        }
    )


def known_pairs(cells: DataFrame) -> ndarray:
    """Return the codes of all pairs of a text and a positive of it, in both directions."""
    is_positive = cells["role"] == POSITIVE
    anchor = anchor_forms(cells)[is_positive].to_numpy()
    positive = cells["form"][is_positive].to_numpy()
    return np.unique([pair_codes(anchor, positive), pair_codes(positive, anchor)])


def certain(cells: DataFrame, known: ndarray | None = None) -> Series:
    """Return why each text is no positive or negative of its row, whatever it means; empty if
    nothing is certain.

    Args:
        cells: of :func:`text_cells`.
        known: of :func:`known_pairs`, for all rows of the file; None: these are all.
    """
    known = known_pairs(cells) if known is None else known
    anchor = anchor_forms(cells)
    negative = cells["role"] == NEGATIVE
    positives = cells.loc[cells["role"] == POSITIVE, ["row", "form"]].drop_duplicates()
    own = cells[["row", "form"]].merge(positives, how="left", indicator=True)["_merge"] == "both"
    is_known = np.isin(pair_codes(anchor.to_numpy(), cells["form"].to_numpy()), known)
    reasons = {
        REPEATED: cells.duplicated(["row", "role", "form"]),
        "a positive of its anchor, or the reverse, in another row": negative & is_known,
        "a positive of its row": negative & own.to_numpy(),
        "equals its anchor": (cells["role"] != ANCHOR) & (cells["form"] == anchor),
    }
    reason = Series("", cells.index)
    for text, holds in reasons.items():
        reason[holds] = text
    return reason


def row_codes(cells: DataFrame) -> Series:
    """Return a code for the contents of each row, by its number; whatever the order of texts of
    one role.
    """
    codes = hash_pandas_object(cells[["role", "form", "label"]], index=False)
    return codes.groupby(cells["row"]).sum()


def false_in_batch(cells: DataFrame) -> float:
    """Return the share of an anchor's in-batch negatives that are false, if batches of rows are
    drawn at random.

    A negative is the positive of another row or, without positives, its text. It is false if it
    equals the anchor or a known positive of it, or if both rows have one label. Of several
    positives of a row, one is drawn.
    """
    anchors = cells.loc[cells["role"] == ANCHOR, ["row", "form", "label"]]
    columns = cells.loc[cells["role"] == POSITIVE, ["row", "form", "label"]].drop_duplicates()
    columns = columns if len(columns) else anchors
    columns = columns.assign(weight=1 / columns.groupby("row")["row"].transform("size"))
    both = anchors.merge(columns, on="row")[["form_x", "form_y"]].to_numpy()
    itself = anchors[["form", "form"]].to_numpy()
    known = np.unique(np.concatenate([both, both[:, ::-1], itself]), axis=0)
    counts = anchors.value_counts(["form", "label"]).reset_index(name="count")
    weights = columns.groupby(["form", "label"])["weight"].sum().reset_index()
    pairs = counts.merge(DataFrame(known, columns=["form", "other"]))
    pairs = pairs.merge(weights, left_on="other", right_on="form", suffixes=("", "_other"))
    is_apart = (pairs["label"] != pairs["label_other"]) | (pairs["label"] == "")
    apart = (pairs["count"] * pairs["weight"])[is_apart].sum()
    of_label = [part.groupby("label")[part.columns[-1]].sum() for part in (counts, weights)]
    of_one_label = (of_label[0] * of_label[1]).drop("", errors="ignore").sum()
    rows = len(anchors)
    share = float((apart + of_one_label - rows) / (rows * (rows - 1)))
    return round(share, 12) + 0.0  # neither a rounding error nor −0, if nothing is known


def about_certain(cells: DataFrame) -> str:
    """Return a sentence about what is false or repeated whatever a model says."""
    reasons = certain(cells)
    found = DataFrame({"role": cells["role"], "reason": reasons})[reasons != ""].value_counts()
    repeated = int(row_codes(cells[reasons == ""]).duplicated().sum())
    listed = found.reset_index().itertuples(index=False)
    sure = [f"{counted(count, role)}: {reason}" for role, reason, count in listed]
    sure += [f"{counted(repeated, 'row')} repeating another one"] if repeated else []
    return f"certain without a model: {'; '.join(sure) or 'nothing'}"


def about_batches(cells: DataFrame, batch_size: int) -> str:
    """Return a sentence about the false negatives that are known in a random batch of rows."""
    share = false_in_batch(cells)
    size = min(batch_size, cells["row"].nunique())
    # a row without a label names some of its right answers
    is_known = (cells.loc[cells["role"] == ANCHOR, "label"] != "").all()
    least = "" if is_known else "at least "
    return (
        f"in a random batch of {size}, {least}{100 * share:.3g} % of an anchor's {size - 1}"
        f" negatives are false, {(size - 1) * share:.2g} on average"
    )


def _texts(cell: str) -> list[str]:
    return listed_texts(cell) or ([cell] if texts_of(cell) else [])


def anchor_forms(cells: DataFrame) -> Series:
    """Return the form of the anchor of each text's row."""
    anchors = cells[cells["role"] == ANCHOR].set_index("row")["form"]
    return anchors.reindex(cells["row"]).set_axis(cells.index).astype(np.uint64)


def pair_codes(first: ndarray, second: ndarray) -> ndarray:
    """Return a code of each pair of forms."""
    return first * MIXED + second
