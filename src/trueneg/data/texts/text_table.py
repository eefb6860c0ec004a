"""The user's own texts: a table with one row per text or per pair, and optionally a second one with
test texts.

The tables have one of the formats of :func:`trueneg.data.tables.read_columns`. A row has a text or,
with a column of positives, a pair and its hard negatives; optionally the label of the row.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from trueneg.data.table_formats import plain
from trueneg.data.tables import Rows, identifier, read_columns
from trueneg.data.texts.text_files import TextFiles, require_distinct, source_of
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.text.cleaning import normalised


def read_source(settings: Mapping[str, Any]) -> TextSource:
    """Read and check the tables.

    Args:
        settings: ``path``, ``text_column``, ``positive_column``, ``negative_columns``,
            ``label_column``, ``restricted``, ``skip_incomplete``, and optionally ``test_path`` and
            ``rated``.

    Raises:
        UserError: names the file and line of up to two mistakes of each kind: an empty text,
            positive, negative or label, a positive that is its text, or a test text with an unknown
            label; also if there are fewer than two texts or labels, or if no two rows share a
            label.
    """
    path, label = settings["path"], settings["label_column"]
    table, skipped = _rows(settings, path)
    if table.iloc[:, 2].map(normalised).nunique() < 2:
        raise UserError(
            f"{path}: all texts in {settings['text_column']} are the same; expected at least two"
            " different ones."
        )
    names = set(table["label"])
    if label is not None and len(names) in (1, len(table)):
        problem = f"{label} has {len(names):,} different labels in {len(table):,} rows"
        raise UserError(
            f"{path}: {problem}; expected at least two, and several rows of each; set"
            " dataset.label_column."
        )
    if settings.get("test_path"):
        test, skipped_test = _rows(settings, settings["test_path"], names)
        table = pd.concat([table, test.assign(split="test")], ignore_index=True)
        skipped = " ".join(
            filter(None, (skipped, skipped_test and f"Of the test texts, {skipped_test}"))
        )
    return source_of(settings, table, skipped)


def _rows(
    settings: Mapping[str, Any], path: str, labels: set[str] | None = None
) -> tuple[pd.DataFrame, str]:
    """Return the usable rows of a table, as :func:`source_of` needs them, and a sentence about
    those left out (empty if none).
    """
    text, positive, label = (settings[f"{name}_column"] for name in ("text", "positive", "label"))
    named = {
        text: "text",
        positive: "positive",
        **dict.fromkeys(settings["negative_columns"], "negative"),
        label: "label",
    }
    columns = [
        name for name in (text, positive, *settings["negative_columns"], label) if name is not None
    ]
    require_distinct(columns)
    texts = [name for name in columns if name != label]
    table = read_columns(path, columns, texts=texts, restricted=settings["restricted"])
    table[texts] = table[texts].apply(lambda cells: cells.str.split().str.join(" "))
    rows = Rows(
        path,
        table if label is None else table.assign(**{label: table[label].map(identifier)}),
        settings,
    )
    for column in columns:
        expected = f"a {named[column]}; fill it in, or remove the row"
        rows.check(
            column, lambda cells: cells.map(plain) == "", expected, f"without a {named[column]}"
        )
    if positive is not None:
        same = table[text].map(normalised) == table[positive].map(normalised)
        expected = (
            "a text that differs from the row's own, also after normalisation; change it, or remove"
            " the row"
        )
        rows.check(
            positive, lambda cells: same[cells.index], expected, "whose positive is its text"
        )
    if label is not None and labels is not None:
        rows.check(
            label, lambda cells: ~cells.isin({"", *labels}), f"a label of {settings['path']}"
        )
    table, skipped = rows.usable()
    # a column may be called split or label
    numbered = {f"text {number}": table[name] for number, name in enumerate(texts)}
    return (
        pd.DataFrame(
            {"split": "", "label": "" if label is None else table[label], **numbered}, table.index
        ),
        skipped,
    )


FILES = TextFiles(read_source)
read_texts, check_table, user_files, missing_files = (
    FILES.read_texts,
    FILES.check_table,
    FILES.user_files,
    FILES.missing_files,
)
