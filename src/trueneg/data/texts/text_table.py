"""The user's own texts: a table with one row per text or per pair, and optionally a second one with
test texts.

The tables have one of the formats of :func:`trueneg.data.tables.read_columns`. A row has a text,
and optionally its positives, its hard negatives and its label. A cell has one text, or a JSON list
of positives or hard negatives.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pandas import DataFrame, Series

from trueneg.data.cells import class_names, identifier, is_missing, lists_texts, texts_of
from trueneg.data.tables import (
    ONE_TEXT,
    Rows,
    about_missing,
    first_places,
    read_columns,
    refuse_several_labels,
    require_distinct,
    required_splits,
    single_spaced,
)
from trueneg.data.texts.text_files import TextFiles, source_of_rows
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.specs.sections import Section
from trueneg.specs.settings import values_of
from trueneg.specs.texts.text_table import column_names
from trueneg.text.cleaning import normalised

ABOUT = ("label", "split", "group")  # what a row may have beside its texts


def read_source(settings: Section) -> TextSource:
    """Read and check the tables.

    Args:
        settings: ``path``, ``text_column``, ``positive_column``, ``negative_columns``,
            ``label_column``, ``restricted``, ``skip_incomplete``, and optionally ``split_column``,
            ``group_column``, ``test_path`` and ``rated``.

    Raises:
        UserError: names the file and line of up to two mistakes of each kind: an empty text,
            positive, negative or label, a positive that is its text, or a test text with an unknown
            label; also if there are fewer than two texts or labels, or if no two rows share a
            label.
    """
    path = settings["path"]
    label = _title(settings["label_column"])
    table, skipped = read_rows(settings, path)
    if table["text"].map(normalised).nunique() < 2:
        raise UserError(
            f"{path}: all texts in {settings['text_column']} are the same; expected at least two"
            " different ones."
        )
    names = set(table["label"])
    if label and len(names) in (1, len(table)):
        raise UserError(
            f"{path}: {label} has {len(names):,} different labels in {len(table):,} rows; expected"
            " at least two, and several rows of each; set dataset.label_column."
        )
    known = None  # groups of right answers, any of which a test text may have
    if isinstance(settings["label_column"], str):
        refuse_several_labels(path, label, names, settings["restricted"])
        known = names
    if settings.get("test_path"):
        test, skipped_test = read_rows(settings, settings["test_path"], known)
        table = pd.concat([table, test.assign(split="test")], ignore_index=True)
        skipped = " ".join(
            filter(None, (skipped, skipped_test and f"Of the test texts, {skipped_test}"))
        )
    return source_of_rows(settings, table, skipped)


def read_rows(
    settings: Section, path: str, labels: set[str] | None = None
) -> tuple[DataFrame, str]:
    """Read the usable rows of a table.

    Args:
        settings: as in :func:`read_source`.
        path: the table.
        labels: all labels that a row may have; None: any.

    Returns:
        Rows indexed by their places: ``text``, ``positives`` and ``negatives`` (lists of texts),
            ``split`` and ``label`` (empty: none) and, if there are any, ``group``. Sentences about
            what is left out, and about missing negatives; empty if there is nothing to say.
    """
    text, positive = settings["text_column"], settings["positive_column"]
    negatives = settings["negative_columns"]
    given = column_names(positive)
    texts = [text, *given, *negatives]
    about = {role: title for role in ABOUT if (title := _title(settings.get(f"{role}_column")))}
    rows = Rows(path, _read(settings, path, texts, labels), settings)
    positives = _listed(rows, given)
    listed = _listed(rows, negatives)
    required = {text: "text"} | dict.fromkeys(given, "positive")
    for column, name in (required | {title: role for role, title in about.items()}).items():
        lacks = rows[column].map(is_missing)
        if name == "positive":
            lacks |= positives[lacks.index].str.len() == 0
        rows.check(column, lacks, f"a {name}; fill it in, or remove the row", f"without a {name}")
    rows.check(text, rows[text].map(lists_texts), ONE_TEXT)
    if group := about.get("group"):
        rows.check_rounded(group)
    if given:
        own = zip(rows[text].map(normalised), positives[rows.table.index], strict=True)
        rows.check(
            positive,
            Series([form in map(normalised, each) for form, each in own], rows.table.index),
            "a text that differs from the row's own, also after normalisation; change it, or remove"
            " the row",
            "whose positive is its text",
        )
    if labels is not None and (label := about.get("label")):
        rows.check(label, ~rows[label].isin({"", *labels}), f"a label of {settings['path']}")
    table, skipped = rows.usable()
    usable = DataFrame({"text": table[text], "split": "", "label": ""})
    usable = usable.assign(**{role: table[title] for role, title in about.items()})
    usable["positives"] = positives[table.index].map(lambda texts: list(dict.fromkeys(texts)))
    usable["negatives"] = listed[table.index]
    return usable, " ".join(filter(None, [skipped, *_checked_negatives(usable)]))


def _listed(rows: Rows, columns: Sequence[str]) -> Series:
    """Return the texts that each row has in some columns; report lists that cannot be read."""
    listed: Series = Series([[] for _ in rows.table.index], rows.table.index, dtype=object)
    for column in columns:
        texts = rows[column].map(texts_of)
        rows.check(column, texts.isna(), "a text, or a list of texts as JSON writes it")
        listed += texts.map(lambda each: each or [])
    return listed


def _checked_negatives(rows: DataFrame) -> Iterator[str]:
    """Yield sentences about hard negatives that equal their text or a positive of it in any row,
    and about rows with fewer of them than others (empty if there are none).
    """
    form_of = functools.cache(normalised)  # many rows share a hard negative
    forms = rows["text"].map(form_of)
    known = {form: {form} for form in forms}
    for form, positives in zip(forms, rows["positives"], strict=True):
        known[form].update(map(form_of, positives))
    sizes = rows["negatives"].str.len()
    own = Series(
        [
            sum(form_of(negative) in known[form] for negative in negatives)
            for form, negatives in zip(forms, rows["negatives"], strict=True)
        ],
        rows.index,
    )
    if own.any():
        yield (
            f"Hard negatives that are a positive of their text, or the text itself, are left out of"
            f" its loss: {own.sum():,} ({first_places(own[own > 0])})."
        )
    yield about_missing(sizes)


def _read(settings: Section, path: str, texts: list[str], labels: set[str] | None) -> DataFrame:
    """Return the columns of a table, with labels, splits and groups under their titles."""
    label, split, group = (settings.get(f"{role}_column") for role in ABOUT)
    shared = dict.fromkeys([*column_names(label), *column_names(group)])
    columns = [*texts, *column_names(split), *shared]
    require_distinct("dataset", columns)
    table = read_columns(path, columns, texts=texts, restricted=settings["restricted"])
    table[texts[0]] = single_spaced(table[texts[0]])
    for column in column_names(split):
        table[column] = required_splits(path, column, table[column], settings["restricted"])
    if group is not None:
        table[_title(group)] = _combined(table, group)
    if isinstance(label, str):
        table[label] = class_names(table[label], labels)
    elif label is not None:
        table[_title(label)] = _combined(table, label)
    return table


def _title(columns: Any) -> str:
    """Return what messages call a setting of columns; empty: there are none."""
    return ", ".join(" or ".join(values_of(part)) for part in values_of(columns) if part)


def _combined(table: DataFrame, columns: Any) -> Series:
    """Return the values of a setting of columns, joined; empty where one of them is missing."""
    parts = [
        [next(filter(None, cells), "") for cells in table[names].map(identifier).to_numpy()]
        for names in map(column_names, values_of(columns))
    ]
    joined = [" · ".join(each) if all(each) else "" for each in zip(*parts, strict=True)]
    return Series(joined, table.index)


FILES = TextFiles(read_source)
read_texts = FILES.read_texts
check_table = FILES.check_table
user_files = FILES.user_files
missing_files = FILES.missing_files
