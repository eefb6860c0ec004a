"""The user's own texts: a table with one row per text or per pair, and optionally a second one with
test texts.

The tables have one of the formats of :func:`trueneg.data.tables.read_columns`. A row has a text or,
with a column of positives, a pair and its hard negatives; optionally the label of the row.
"""

import pandas as pd
from pandas import DataFrame

from trueneg.data.cells import class_names, identifier, is_missing, lists_texts
from trueneg.data.tables import (
    ONE_TEXT,
    Rows,
    read_columns,
    refuse_several_labels,
    require_distinct,
    required_splits,
    single_spaced,
)
from trueneg.data.texts.text_files import TextFiles, source_of
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.specs.sections import Section
from trueneg.text.cleaning import normalised


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
    label = settings["label_column"]
    table, skipped = _rows(settings, path)
    if table["text 0"].map(normalised).nunique() < 2:
        raise UserError(
            f"{path}: all texts in {settings['text_column']} are the same; expected at least two"
            " different ones."
        )
    names = set(table["label"])
    if label is not None and len(names) in (1, len(table)):
        raise UserError(
            f"{path}: {label} has {len(names):,} different labels in {len(table):,} rows; expected"
            " at least two, and several rows of each; set dataset.label_column."
        )
    if label is not None:
        refuse_several_labels(path, label, names, settings["restricted"])
    if settings.get("test_path"):
        test, skipped_test = _rows(settings, settings["test_path"], names)
        table = pd.concat([table, test.assign(split="test")], ignore_index=True)
        skipped = " ".join(
            filter(None, (skipped, skipped_test and f"Of the test texts, {skipped_test}"))
        )
    return source_of(settings, table, skipped)


def _rows(settings: Section, path: str, labels: set[str] | None = None) -> tuple[DataFrame, str]:
    """Return the usable rows of a table, as :func:`source_of` needs them, and a sentence about
    those left out (empty if none).
    """
    text, positive, label = (settings[f"{name}_column"] for name in ("text", "positive", "label"))
    split: str | None = settings.get("split_column")
    group: str | None = settings.get("group_column")
    texts = [text, *filter(None, [positive]), *settings["negative_columns"]]
    columns = [*texts, *filter(None, (label, split, group))]
    require_distinct("dataset", columns)
    table = read_columns(path, columns, texts=texts, restricted=settings["restricted"])
    table[texts] = table[texts].apply(single_spaced)
    if label is not None:
        table[label] = class_names(table[label], labels)
    if split is not None:
        table[split] = required_splits(path, split, table[split], settings["restricted"])
    if group is not None:
        table[group] = table[group].map(identifier)
    rows = Rows(path, table, settings)
    named = {text: "text", positive: "positive", label: "label", split: "split", group: "group"}
    for column in columns:
        name = named.get(column, "negative")
        lacks = rows[column].map(is_missing)
        rows.check(column, lacks, f"a {name}; fill it in, or remove the row", f"without a {name}")
    for column in texts:
        rows.check(column, rows[column].map(lists_texts), ONE_TEXT)
    if positive is not None:
        rows.check(
            positive,
            rows[text].map(normalised) == rows[positive].map(normalised),
            "a text that differs from the row's own, also after normalisation; change it, or remove"
            " the row",
            "whose positive is its text",
        )
    if label is not None and labels is not None:
        rows.check(label, ~rows[label].isin({"", *labels}), f"a label of {settings['path']}")
    table, skipped = rows.usable()
    # a column may be called split or label
    named_texts = [f"text {number}" for number in range(len(texts))]
    usable = table[texts].set_axis(named_texts, axis=1).assign(split="", label="")
    for name, column in (("split", split), ("label", label), ("group", group)):
        if column is not None:
            usable[name] = table[column]
    return usable, skipped


FILES = TextFiles(read_source)
read_texts = FILES.read_texts
check_table = FILES.check_table
user_files = FILES.user_files
missing_files = FILES.missing_files
