"""What a cell of the user's table means: the same in every table, format and column."""

import ast
import contextlib
import json
import re
from collections.abc import Collection, Iterable

from pandas import Series

from trueneg.data.table_formats import plain
from trueneg.text.cleaning import is_blank

# in any case; pandas writes and reads most of them for missing values
MISSING = {"", "-", "na", "n/a", "nan", "nat", "none", "null", "<na>", "#n/a"}
TRUTH = {"0": "0", "false": "0", "no": "0", "1": "1", "true": "1", "yes": "1"}
SPLITS = {
    r"tr|trn|train(ing)?([ _-]?(set|split|data))?": "train",
    r"(val(id|idation)?|dev(elopment)?)([ _-]?(set|split|data))?": "validation",
    r"te|tst|(test(ing)?|eval(uation)?|hold[ _-]?out)([ _-]?(set|split|data))?": "test",
}
OF_SPLITS = {"split", "splits", "partition", "subset", "set"}
NUMBERED = {"0": "train", "1": "validation", "2": "test"}  # as Ludwig numbers splits
# a list of texts, as Python, NumPy and JSON write it, even if its first or last item is none
BARE = r"(?:nan|NaN|None|null|-?\d[\d.]*)"
LISTED = re.compile(
    rf"""\s*\[\s*(?:['"].*['"]|['"].*['"]\s*,?\s*{BARE}|{BARE}\s*,?\s*['"].*['"])\s*,?\s*]\s*""",
    re.DOTALL,
)
QUOTED = r"""(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
SEPARATORS = "|;,"


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty, has invisible characters only, or is written as a missing
    value is.

    Example:
        >>> [is_missing(cell) for cell in (" ", "NA", "nan", "None", "null", "-", "no", "0")]
        [True, True, True, True, True, True, False, False]
    """
    # as plain(cell), but fast
    written = cell.strip() if cell.isascii() else plain(cell)
    return written.lower() in MISSING or is_blank(cell)


def identifier(cell: str) -> str:
    """Return an id or a label as plain text, empty if it is missing, and without the ".0" that
    software adds to whole numbers if other values are missing.

    Example:
        >>> [identifier(cell) for cell in ("7.0", " 7", "07", "7.10", "True", "NaN")]
        ['7', '7', '07', '7.10', 'True', '']
    """
    written = plain(cell)
    if written.lower() in MISSING:
        return ""
    return re.sub(r"\A(-?(?:0|[1-9]\d{0,14}))\.0+\Z", r"\1", written)


def truth(cell: str) -> str:
    """Return 1 or 0 for true and false in any spelling, empty for a missing value, and anything
    else as :func:`identifier` does.

    Example:
        >>> [truth(cell) for cell in ("TRUE", "yes", "1.0", "False", "no", "0", "None", "maybe")]
        ['1', '1', '1', '0', '0', '0', '', 'maybe']
    """
    written = identifier(cell)
    return TRUTH.get(written.lower(), written)


def class_names(cells: Series, known: Collection[str] | None = None) -> Series:
    """Return the class of each cell of a column, empty if it is missing.

    Where all classes are true or false, in any spelling, these are 1 and 0. Among other classes,
    only their case does not matter.

    Args:
        cells: the column.
        known: all classes; None: those of the column.

    Example:
        >>> class_names(Series(["TRUE", "true", "1", "1.0", "no", "NA"])).tolist()
        ['1', '1', '1', '1', '0', '']
        >>> class_names(Series(["Yes", "yes", "no", "Maybe"])).tolist()
        ['yes', 'yes', 'no', 'Maybe']
    """
    truths = cells.map({cell: truth(cell) for cell in cells.unique()})
    if set(truths if known is None else known) <= {"", "0", "1"}:
        return truths
    written = cells.map({cell: identifier(cell) for cell in cells.unique()})
    return written.mask(written.str.lower().isin(TRUTH), written.str.lower())


def split_name(word: str) -> str:
    """Return the split that a word names in any usual way; empty if it names none.

    Example:
        >>> [split_name(word) for word in ("Training", "DEV", "test", "cat")]
        ['train', 'validation', 'test', '']
    """
    named = (split for words, split in SPLITS.items() if re.fullmatch(words, word.lower()))
    return next(named, "")


def split_names(name: str, cells: Series, is_chosen: bool = False) -> Series | None:
    """Return the split of each row: train, validation or test, empty if it is missing; None if a
    column has no splits, or nothing to train on or to hold out.

    Splits are named in any usual way (``dev``, ``Training``), or numbered as by Ludwig (0, 1, 2, in
    a column whose name says that it has splits); a column ``is_valid``, ``is_test`` or ``is_train``
    is true or false. What is held out is for testing unless there are test rows, too.

    Args:
        name: name of the column.
        cells: the column.
        is_chosen: whether the user names the column, so that ``valid``, too, may be true or false
            in it; unasked, this may say which rows are valid.

    Example:
        >>> split_names("fold", Series(["train", "DEV", "Test", ""])).tolist()
        ['train', 'validation', 'test', '']
        >>> split_names("is_valid", Series(["True", "False"])).tolist()
        ['test', 'train']
        >>> split_names("fold", Series(["1", "2", "3"])) is None
        True
    """
    values = cells.map({cell: truth(cell) for cell in cells.unique()})
    words = re.findall("[a-z]+", plain(name).lower())
    joined = "".join(words)
    is_of_splits = not OF_SPLITS.isdisjoint(words)
    named = split_name(joined.removeprefix("is"))
    numbered = NUMBERED if is_of_splits else {}
    if named and (is_chosen or joined.startswith("is")) and set(values) <= {"", "0", "1"}:
        numbered = {"1": named, "0": "test" if named == "train" else "train"}
    splits = values.map({value: numbered.get(value) or split_name(value) for value in set(values)})
    present = set(splits) - {""}
    if "train" not in present or len(present) < 2 or (splits[values != ""] == "").any():
        return None
    return splits if "test" in present else splits.replace("validation", "test")


def lists_texts(cell: str) -> bool:
    """Return whether a cell has a list of texts.

    Example:
        >>> lists_texts("['a dog', 'two dogs']"), lists_texts("a [sic] dog")
        (True, False)
    """
    return LISTED.fullmatch(cell) is not None


def listed_texts(cell: str) -> list[str]:
    """Return the texts of a list; empty if a cell has no list, or one that cannot be read.

    Example:
        >>> [listed_texts(cell) for cell in ('["a", "b"]', "['a', 'b',]", "['a' 'b']", "[a]")]
        [['a', 'b'], ['a', 'b'], ['a', 'b'], []]
    """
    if not lists_texts(cell):
        return []
    with contextlib.suppress(ValueError):  # no JSON
        texts = json.loads(cell)
        return texts if all(isinstance(text, str) for text in texts) else []
    if not re.fullmatch(rf"\s*\[\s*{QUOTED}(?:\s*(?:,\s*)?{QUOTED})*\s*(?:,\s*)?]\s*", cell):
        return []
    with contextlib.suppress(SyntaxError):  # a damaged escape sequence
        return [ast.literal_eval(text) for text in re.findall(QUOTED, cell)]
    return []


def texts_of(cell: str) -> list[str] | None:
    """Return the texts of a cell with one text or a list of texts, with single spaces, without
    missing ones; None if it has a list that cannot be read.

    Example:
        >>> [texts_of(cell) for cell in ('["a", " ", "b  c"]', " a\\nb ", "[]", "['a', b, 'c']")]
        [['a', 'b c'], ['a b'], [], None]
    """
    items = items_of(cell)
    return None if items is None else [" ".join(text.split()) for text in items]


def items_of(cell: str) -> list[str] | None:
    """Return what a cell with one value or a list has, as :func:`texts_of`, but as it is written.

    Example:
        >>> items_of('["a  b.png", ""]')
        ['a  b.png']
    """
    items = listed_texts(cell) if lists_texts(cell) else [cell]
    if not items:
        return None
    return [item for item in items if not is_missing(item) and item != "[]"]


def several_labels(labels: Iterable[str]) -> list[str]:
    """Return those of different labels that look like several ones, such as ``a|b``: lists, and
    what consists of other labels.

    Example:
        >>> several_labels(["billing", "refund", "billing;refund", "food, drinks"])
        ['billing;refund']
    """
    parts = {
        label: {plain(part) for part in re.split(f"[{re.escape(SEPARATORS)}]", label)} - {""}
        for label in labels
    }
    places: dict[str, int] = {}
    for some in parts.values():
        for part in some:
            places[part] = places.get(part, 0) + 1
    return [
        label
        for label, some in parts.items()
        if lists_texts(label) or (len(some) > 1 and all(places[part] > 1 for part in some))
    ]
