"""The user's table for ``trueneg init``: what its columns are, by their names and contents, and
which of its rows are used.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import regex
from pandas import Series

from trueneg.data.cells import (
    OF_SPLITS,
    identifier,
    is_missing,
    listed_texts,
    several_labels,
    split_name,
    split_names,
    truth,
)
from trueneg.data.images.sources.image_folder import IMAGES
from trueneg.data.table_formats import plain
from trueneg.data.tables import read_table, required_splits
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.text.words import UNSPACED

# Names that columns often have, likely ones first.
TEXTS = (
    "text",
    "question",
    "sentence",
    "sentence1",
    "query",
    "utterance",
    "anchor",
    "message",
    "caption",
    "report",
)
POSITIVES = (
    "positive",
    "positives",
    "pos",
    "answer",
    "response",
    "reply",
    "passage",
    "document",
    "duplicate",
    "paraphrase",
    "sentence2",
    "text2",
)
NEGATIVE = r"(hard[\W_]?)?neg(ative)?s?([\W_]?(image|file|path)s?)?[\W_]?\d*"
LABELS = ("label", "class", "category", "intent", "topic", "target")
NO_LABELS = ("fold", "language", "lang", "annotator")
SCORES = ("score", "similarity", "rating", "relevance", "gold", "goldlabel", "label")
# What must not be split, the widest first: a patient has studies, and a study has reports.
GROUPS = (
    "patients?|pat|pt",
    "subjects?|subj|participants?|persons?|people",
    "stud(?:y|ies)|cases?|visits?|encounters?",
    "reports?|(?:source|src|original|parent)?(?:documents?|docs?|articles?|videos?)|sources?",
    "authors?|users?|speakers?|writers?|customers?|clients?",
    "conversations?|threads?|sessions?|dialog(?:ue)?s?|sites?",
)
OF_GROUPS = r"(?:anon(?:ymi[sz]ed)?|pseudo|hashed)?(?:{})(?:instance)?(?:ids?|nos?|nr|num(?:ber)?s?"
OF_GROUPS += r"|u?uids?|guids?|keys?|codes?|names?|idx|index|hash|identifiers?|pseudonyms?)?\d*"
FEWEST_GROUPS = 3  # one per split
FEWEST_OF_LABEL = 5
LOOKED_AT = 500  # texts that are looked at more closely
# of two letters or more; characters of scripts without spaces
WORDS = regex.compile(rf"\p{{L}}{{2,}}|[{UNSPACED}]")
EXAMPLE = 60  # characters
SHOWN = 20  # classes
SHOWN_RARE = 200  # of those that are left out


class Kind(NamedTuple):
    """What a column looks like: a word for the program, and a phrase for the user."""

    name: str
    phrase: str


def counts(values: Series, shown: int = SHOWN) -> str:
    """Return how often each value occurs, the most frequent first."""
    sizes = values[values != ""].value_counts()
    more = f" and {len(sizes) - shown:,} more" if len(sizes) > shown else ""
    return ", ".join(f"{name} {size:,}" for name, size in sizes.head(shown).items()) + more


def kind_of(name: str, cells: Series) -> Kind:
    """Guess what a column is."""
    present = cells[~cells.map(is_missing)]
    listed = present.head(LOOKED_AT).map(plain).map(listed_texts)
    if (listed.str.len() > 0).mean() > 0.5 and present.nunique() > 1:
        each = _kind_of_words(listed.explode().dropna())
        return Kind("texts", f"lists of {each.phrase}") if each.name == "text" else LISTS
    values = present.map(plain)
    different = values.nunique()
    if different < 2:
        return Kind("constant", f"always {values.iloc[0][:EXAMPLE]}" if different else "empty")
    splits = split_names(name, cells) if different <= SHOWN else None
    if splits is not None:
        return Kind("split", f"a split: {counts(splits)}")
    if all(truth(value) in {"0", "1"} for value in values.unique()):
        return Kind("truth", f"true or false: {counts(values.map(truth))}")
    if _all(values, lambda some: pd.to_numeric(some, errors="coerce").notna()):
        numbers = pd.to_numeric(values)
        if different == len(values) and (numbers == numbers.round()).all():
            return Kind("id", "an id, or the number of the row")
        return Kind("number", f"a score or another number, {numbers.min():g} to {numbers.max():g}")
    if _all(values, lambda some: some.str.fullmatch(r"[\d\s.,:/+TZ-]*")):
        return Kind("date", f"dates, times or codes, {values.min()} to {values.max()}")
    if values.str.lower().str.endswith(IMAGES).mean() > 0.9:
        return Kind("image", "names of images")
    # hard negatives are often the same few texts
    return _kind_of_words(values, is_text=is_of_negatives(name))


def _all(values: Series, holds: Callable[[Series], Series]) -> bool:
    """Return whether something holds for all values; the first ones mostly suffice to deny it."""
    return bool(holds(values.head(LOOKED_AT)).all() and holds(values).all())


def _kind_of_words(values: Series, is_text: bool = False) -> Kind:
    """Guess what a column of words is; ``is_text``: if its name says so, few different texts are no
    labels.
    """
    distinct = values.drop_duplicates()
    words = distinct.head(LOOKED_AT).map(lambda text: len(WORDS.findall(text))).mean()
    if len(distinct) <= max(2, len(values) / FEWEST_OF_LABEL) and not (is_text and words >= 2):
        several = several_labels(distinct)
        looks = f"several labels in a cell, such as {several[0]}" if several else "labels"
        return Kind("label", f"{looks}: {counts(values)}")
    if words >= 2:
        return Kind("text", f"texts of about {words:.0f} words")
    if len(distinct) == len(values):
        return Kind("id", "an id")
    return Kind("other", f"{len(distinct):,} different values")


def known(names: Iterable[str], likely: Sequence[str]) -> list[str]:
    """Return the names that are known, likely ones first."""
    plain_names = {name: re.sub(r"[\W_]", "", name.lower()) for name in names}
    found = [name for name, letters in plain_names.items() if letters in likely]
    return sorted(found, key=lambda name: likely.index(plain_names[name]))


def is_of_negatives(name: str) -> bool:
    """Return whether a name means hard negatives."""
    return re.fullmatch(NEGATIVE, name.lower()) is not None


def is_group(name: str, words: str = "|".join(GROUPS)) -> bool:
    """Return whether a name means a group, in any spelling."""
    return re.fullmatch(OF_GROUPS.format(words), re.sub(r"[\W_]", "", name.lower())) is not None


LISTS = Kind("list", "lists")


class UserTable:
    """A user's table, each line and column of which is accounted for.

    Args:
        path: the table.
        chosen: columns that the user chose, by their role; ``none``: none; and other options.
        texts: kinds of columns of which the study can read texts.

    Attributes:
        rows: the text of all cells.
        kinds: what each column looks like.
        roles: the role of each column that is used.
        usable: whether each row can be used.
        splits: the user's split of each row; empty if there is none.
        found: sentences about the table, for the user.
    """

    def __init__(self, path: Path, chosen: Mapping[str, Any], texts: Sequence[str] = ("text",)):
        self.of_texts = texts
        read = read_table(path, None)
        self.path = path
        self.chosen = chosen
        self.rows = read.cells
        self.kinds = {name: kind_of(name, self.rows[name]) for name in map(str, self.rows)}
        self.kinds |= {name: Kind("object", kind) for name, kind in read.types.items()}
        self.roles: dict[str, str] = {}
        self.usable = Series(True, self.rows.index)
        self.splits = Series("", self.rows.index)
        others = ", ".join(f"{count:,} {what}" for what, count in read.lines.items() if count)
        lines = f" of {len(self.rows) + read.lines.total():,} lines ({others})" if others else ""
        self.found = [f"read {counted(len(self.rows), 'row')}{lines}"]

    def free(self, *kinds: str) -> list[str]:
        """Return the columns that have no role, and are not chosen for one, and look like one of
        the kinds; none: all but those that cannot be read.
        """
        taken = {*self.roles, *map(str, self.chosen.values())}
        return [
            name
            for name, kind in self.kinds.items()
            if name not in taken and (kind.name in kinds if kinds else name in self.rows)
        ]

    def choose(self, role: str, candidates: Sequence[str]) -> str | None:
        """Give a role to the column that the user chose, or else to the first candidate; None if
        there is none.
        """
        column = self.chosen.get(role) or next(iter(candidates), None)
        if column is None or (column == "none" and role in ("group", "split")):
            return None
        if column not in self.rows:
            unread = self.kinds.get(column)
            problem = (
                f" has no column {column}"
                if unread is None
                else f": {column} has values of type {unread.phrase}, not text"
            )
            raise UserError(
                f"{self.path}{problem}; expected one of: {', '.join(map(str, self.rows))}."
            )
        if column in self.roles:
            raise UserError(
                f"{self.path}: {column} is chosen twice, as {self.roles[column]} and as {role};"
                " expected two columns."
            )
        self.roles[column] = role
        others = ", ".join(name for name in candidates if name != column)
        choice = f" (also possible: {others}; choose with --{role})"
        cells = self.rows[column]
        cell = next(iter(cells[cells != ""]), "")
        example = plain(next(iter(listed_texts(cell)), cell))[:EXAMPLE]
        self.found.append(
            f"{role}s: {column}, such as {json.dumps(example, ensure_ascii=False)}"
            + (choice if others and not self.chosen.get(role) else "")
        )
        return column

    def texts(self) -> list[str]:
        """Return the columns of texts: those with well-known names, then those with more words."""
        found = self.free(*self.of_texts)
        length = {name: self.rows[name].str.len().mean() for name in found}
        return list(dict.fromkeys([*known(found, TEXTS), *sorted(found, key=lambda n: -length[n])]))

    def negatives(self, *further: str) -> list[str]:
        """Give a role to the columns of hard negatives, texts or of further kinds, and return
        them.
        """
        free = self.free("text", "texts", "list", *further)
        found = [name for name in free if is_of_negatives(name)]
        self.roles |= dict.fromkeys(found, "negative")
        if found:
            self.found.append(f"hard negatives: {', '.join(found)}")
        return found

    def group(self, unit: str) -> str | None:
        """Choose the column of what must not be split, if it has several groups of several rows."""
        no_groups = {*self.free("list", "texts"), *known(self.free("text"), POSITIVES)}
        free = [name for name in self.free() if name not in no_groups]
        found = [name for words in GROUPS for name in free if is_group(name, words)]
        problems = {name: self._no_group(name) for name in found}
        column = self.choose("group", [name for name in found if not problems[name]])
        if column is None:
            because = "".join(f"; {name} {problem}" for name, problem in problems.items())
            self.found.append(f"each {unit} is its own group{because}")
            return None
        self.rows[column] = self.rows[column].map(identifier)
        self.leave_out(self.rows[column] == "", f"without a {column}")
        count = self.rows.loc[self.usable, column].nunique()
        crossing = int((self.splits[self.usable].groupby(self.rows[column]).nunique() > 1).sum())
        in_two = f"{crossing:,} of them" if crossing else "none of which is"
        self.found.append(f"{count:,} groups in {column}, {in_two} in two splits")
        return column

    def _no_group(self, column: str) -> str:
        """Return why a column has no groups; empty if it has."""
        cells = self.rows.loc[self.usable, column].map(identifier)
        present = cells[cells != ""]
        if len(present) < 0.9 * len(cells):
            return f"is empty in {len(cells) - len(present):,} rows"
        if present.nunique() == len(present):
            return "has one row per value"
        few = f"has fewer than {FEWEST_GROUPS} groups"
        return few if present.nunique() < FEWEST_GROUPS else ""

    def split(self) -> str | None:
        """Choose the column with the user's own splits."""
        found = self.free("split")
        if not found and not self.chosen.get("split"):
            self._refuse_other_splits()
        column = self.choose("split", found)
        if column is not None:
            self.splits = required_splits(self.path, column, self.rows[column])
            self.found.append(f"splits of your own: {counts(self.splits)}")
            self.leave_out(self.splits == "", f"without a {column}")
        return column

    def _refuse_other_splits(self) -> None:
        """Refuse a column that seems to have splits and has other values, too, instead of drawing
        splits unasked.
        """
        for name in self.free("label"):
            named = {split_name(plain(cell)) for cell in self.rows[name].unique()} - {""}
            words = re.findall("[a-z]+", plain(name).lower())
            if OF_SPLITS.intersection(words) and {"train"} < named:
                raise UserError(
                    f"{self.path}: {name} seems to have splits, but not only train, validation and"
                    f" test: {counts(self.rows[name])}. Rename or remove the other rows, or draw"
                    " splits with --split none."
                )

    def leave_out(self, wrong: Series, what: str) -> None:
        """Leave out rows, and say how many and why; rows that are not in `wrong` are kept."""
        wrong = wrong.reindex(self.rows.index, fill_value=False) & self.usable
        if wrong.any():
            self.found.append(f"left out: {counted(int(wrong.sum()), 'row')} {what}")
            self.usable &= ~wrong

    @property
    def has_lists(self) -> bool:
        """Whether a column has lists."""
        return any("list" in kind.phrase for kind in self.kinds.values())

    def columns(self, names: Iterable[str]) -> str:
        """Return columns with what they look like."""
        return "; ".join(f"{name or 'unnamed'} ({self.kinds[name].phrase})" for name in names)

    def unused(self, used: Collection[str]) -> str:
        """Return the columns that are not used, with what they look like."""
        names = [name for name in self.kinds if name not in used]
        return f"not used: {self.columns(names) or 'none'}"
