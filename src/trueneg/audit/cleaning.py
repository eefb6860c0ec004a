"""Remove what is false from a file of texts, in the same format and order."""

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series
from pandas.util import hash_array

from trueneg.audit.hard_negatives import FrozenTexts, given, kept
from trueneg.audit.row_files import AT_ONCE, Row, reading_rows, row_file, without
from trueneg.data.cells import class_names, texts_of, truth
from trueneg.data.tables import cell_text, refuse_several_labels
from trueneg.data.texts.text_rows import (
    ANCHOR,
    NEGATIVE,
    POSITIVE,
    anchor_forms,
    certain,
    fits_role,
    known_pairs,
    pair_codes,
    row_codes,
    text_cells,
)
from trueneg.io.files import atomic_write

JUDGED = "judged false"
SAME_LABEL = "has the label of its anchor"
REPEATED_ROW = "repeats an earlier row"
COLUMNS = ["place", "column", "text", "reason", "similarity"]
KEPT_VECTORS = 200_000  # 300 MB with 384 dimensions


class Cleaned(NamedTuple):
    """What was removed from a file, and what is left.

    Attributes:
        removed: one line per text or row, in the order of the file: ``place``, ``column`` (empty:
            the row), ``text``, ``reason`` and ``similarity`` (NaN: not computed).
        negatives: number of hard negatives before.
        left: number of those that are left.
        rows: number of rows that are left, without those that were only copied.
        emptied: number of these that have lost all their hard negatives.
    """

    removed: DataFrame
    negatives: int
    left: int
    rows: int
    emptied: int


# Adds reasons of its own to those that are certain, and similarities.
Marks = Callable[[DataFrame, Series], tuple[Series, Series]]


def judged_false(codes: ndarray) -> Marks:
    """Return a function that marks pairs by their codes."""

    def mark(cells: DataFrame, reasons: Series) -> tuple[Series, Series]:
        pairs = pair_codes(anchor_forms(cells).to_numpy(), cells["form"].to_numpy())
        is_judged = (cells["role"] == NEGATIVE) & np.isin(pairs, codes) & (reasons == "")
        return reasons.mask(is_judged, JUDGED), Series(np.nan, cells.index)

    return mark


def same_label(known: DataFrame) -> Marks:
    """Return a function that marks hard negatives that have a label of their anchor in common.

    Args:
        known: of :func:`labelled`, for all rows of the file.
    """

    def mark(cells: DataFrame, reasons: Series) -> tuple[Series, Series]:
        negatives = cells["role"] == NEGATIVE
        ends = DataFrame({"anchor": anchor_forms(cells), "negative": cells["form"]})[negatives]
        both = ends.reset_index().merge(known, left_on="negative", right_on="form")
        shared = both.merge(known, left_on=["anchor", "label"], right_on=["form", "label"])
        is_false = reasons.index.isin(shared["index"])
        return reasons.mask(is_false & (reasons == ""), SAME_LABEL), Series(np.nan, cells.index)

    return mark


def labelled(cells: DataFrame) -> DataFrame:
    """Return each ``form`` of an anchor or a positive with each of its labels, as a number."""
    is_labelled = (cells["role"] != NEGATIVE) & (cells["label"] != "")
    found = cells.loc[is_labelled, ["form", "label"]].drop_duplicates()
    return found.assign(label=hash_array(found["label"].to_numpy(object), categorize=False))


def filtered(settings: Mapping[str, float], encoder: FrozenTexts) -> Marks:
    """Return a function that marks hard negatives that a filter does not keep."""
    name = ", ".join(f"{name}={value}" for name, value in settings.items())
    embedded: dict[int, ndarray] = {}  # hard negatives repeat the texts of other rows

    def mark(cells: DataFrame, reasons: Series) -> tuple[Series, Series]:
        cells = cells.assign(number=pd.factorize(cells["form"])[0], label="")
        texts = cells.drop_duplicates("number")
        if texts.empty:  # none of the rows is usable
            return reasons, Series(np.nan, cells.index)
        if len(embedded) > KEPT_VECTORS:
            embedded.clear()
        new = texts[~texts["form"].isin(embedded)]
        if len(new):
            embedded.update(zip(new["form"], encoder.vectors(new), strict=True))
        vectors = np.stack([embedded[form] for form in texts["form"]])
        negatives = given(cells, vectors, reasons)
        pairs = negatives.pairs.set_index("cell")
        removed = pairs[kept(negatives, settings) == 0]
        return (
            reasons.mask(reasons.index.isin(removed.index), f"filter {name}"),
            pairs["similarity"].reindex(cells.index),
        )

    return mark


def different_forms(path: Path, roles: Mapping[str, str]) -> ndarray:
    """Return the forms of the different texts of a file, anchors first."""
    forms: dict[str, list[ndarray]] = {column: [] for column in roles}
    with reading_rows(path):
        for _, cells in _blocks(row_file(path), roles, None, ()):
            for column, parts in forms.items():
                parts.append(cells.loc[cells["column"] == column, "form"].unique())
    return pd.unique(np.concatenate([*itertools.chain(*forms.values())]))


def clean(
    path: Path, out: Path, roles: Mapping[str, str], label: str | None, marks: Sequence[Marks]
) -> Cleaned:
    """Write a file without what is certainly false or marked, and return what was removed.

    A negative leaves its cell or its list; a row is left out if it has no positive left, or repeats
    an earlier one. Rows without an anchor or a positive, with several anchors, or with a list that
    cannot be read, are copied.

    Args:
        path: the file.
        out: file to write.
        roles: anchor, positive or negative, by column.
        label: column of labels; None: there are none.
        marks: what else to remove.

    Raises:
        UserError: if the file cannot be read, or has several labels in a cell.
    """
    file = row_file(path)
    removed: list[DataFrame] = []
    blocks = functools.partial(_blocks, file, roles, label, _classes(path, label))
    pairs: list[ndarray] = []
    labels: list[DataFrame] = []
    with reading_rows(path):
        for _, cells in blocks():
            pairs.append(known_pairs(cells))
            labels.append(labelled(cells))
    known = np.unique(np.concatenate(pairs))
    marks = [same_label(pd.concat(labels).drop_duplicates()), *marks]
    seen: set[int] = set()
    counts: list[tuple[int, int, int, int]] = []

    def cleaned() -> Iterator[list[Any]]:
        for rows, cells in blocks():
            reasons = certain(cells, known)
            similarity = Series(np.nan, cells.index)
            for mark in marks:
                reasons, computed = mark(cells, reasons)
                similarity = similarity.fillna(computed)
            cells = cells.assign(reason=reasons, similarity=similarity)
            left_out = _rows_left_out(cells, POSITIVE in roles.values(), seen)
            lines = pd.concat([cells[reasons != ""], left_out])
            lines = lines.sort_values("row", kind="stable")
            lines["place"] = [rows[row].place for row in lines["row"]]
            removed.append(lines[COLUMNS])
            counts.append(_negatives_left(cells, left_out))
            yield list(_edited(file, rows, cells[reasons != ""], set(left_out["row"])))

    with atomic_write(out) as temporary:
        file.write(temporary, cleaned())
    return Cleaned(pd.concat(removed, ignore_index=True), *np.sum(counts, axis=0).tolist())


def _classes(path: Path, label: str | None) -> set[str]:
    """Return the classes in a column of labels, for :func:`trueneg.data.cells.class_names`."""
    if label is None:
        return set()
    with reading_rows(path):
        names = {cell_text(row.values.get(label)) for row in row_file(path).rows()}
    refuse_several_labels(path, label, names)
    return set(map(truth, names))


def _blocks(
    file: Any, roles: Mapping[str, str], label: str | None, classes: Collection[str]
) -> Iterator[tuple[list[Row], DataFrame]]:
    """Yield some rows at a time, and the cells of those with an anchor and a positive, whose labels
    are some of the classes.
    """
    rows = file.rows()
    while block := list(itertools.islice(rows, AT_ONCE)):
        texts = {
            column: Series([cell_text(row.values.get(column)) for row in block], dtype=object)
            for column in roles
        }
        table = DataFrame(texts)
        fits = {column: fits_role(table[column].map(texts_of), roles[column]) for column in roles}
        is_usable = DataFrame(fits).all(axis=1)
        labels = None
        if label is not None:
            named = Series([cell_text(row.values.get(label)) for row in block], dtype=object)
            labels = class_names(named[is_usable], classes)
        cells = text_cells(table[is_usable], roles, labels)
        cells["row"] = np.flatnonzero(is_usable)[cells["row"]]
        yield block, cells


def _rows_left_out(cells: DataFrame, is_paired: bool, seen: set[int]) -> DataFrame:
    """Return a line per row to leave out, and remember the contents of the others."""
    left = cells[cells["reason"] == ""]
    anchors = cells[cells["role"] == ANCHOR].set_index("row")["text"]
    has_positive = left.loc[left["role"] == POSITIVE, "row"].unique()
    reasons = {}
    for row, code in row_codes(left).items():
        if is_paired and row not in has_positive:
            reasons[row] = "no positive is left"
        elif code in seen:
            reasons[row] = REPEATED_ROW
        seen.add(code)
    lines = Series(reasons, dtype=object).rename_axis("row").reset_index(name="reason")
    lines = lines.astype({"row": int}).assign(column="")
    return lines.assign(text=lines["row"].map(anchors), similarity=np.nan)


def _negatives_left(cells: DataFrame, left_out: DataFrame) -> tuple[int, int, int, int]:
    """Return the counts of :class:`Cleaned`."""
    is_kept = ~cells["row"].isin(left_out["row"])
    negatives = cells[cells["role"] == NEGATIVE]
    is_left = (negatives["reason"] == "") & is_kept[negatives.index]
    by_row = is_left[is_kept[negatives.index]].groupby(negatives["row"]).any()
    rows = cells.loc[is_kept, "row"].nunique()
    return len(negatives), int(is_left.sum()), rows, int((~by_row).sum())


def _edited(
    file: Any, rows: Sequence[Row], removed: DataFrame, left_out: set[int]
) -> Iterator[Any]:
    """Yield the rows as they are to be written."""
    places = removed.groupby(["row", "column"])["place"].agg(set)
    changes: dict[int, dict[str, set[int]]] = {}
    for row, column, of_cell in places.reset_index().itertuples(index=False):
        changes.setdefault(row, {})[column] = of_cell
    for number, row in enumerate(rows):
        if number in left_out:
            continue
        if number not in changes:
            yield row.raw
            continue
        values = {
            column: without(row.values[column], of_cell)
            for column, of_cell in changes[number].items()
        }
        yield file.edited(row, values)
