"""Tables for display, and their CSV and LaTeX output; the page has a template for their HTML."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from pandas import DataFrame

from trueneg.legible import escape_control_characters

# Characters that are special in LaTeX or missing from its fonts.
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "\u00a0": "~",
}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$", "±": r"$\pm$", "≈": r"$\approx$"}
LATEX |= {"α": r"$\alpha$", "β": r"$\beta$", "η": r"$\eta$"}
LATEX |= {character: "\\" + character for character in "&%$#_{}"}


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and its provenance.

    Attributes:
        runs: ids of the runs, separated by spaces; if empty, all runs of the study.
        printed: publication that reports the number, if it was not measured here.
    """

    text: str
    runs: str = ""
    printed: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under a common title, which may be empty; each line is a name and its cells."""

    title: str
    lines: Sequence[tuple[str, Sequence[Cell]]]


@dataclass(frozen=True)
class Table:
    """A table for display, and its underlying numbers.

    Attributes:
        values: tidy numbers for the CSV.
        columns: spanning title (may be empty) and name of each column after the first.
        groups: groups of lines; the name of each line is the first column.
        notes: sentences under the table.
        corner: name of the first column.
    """

    values: DataFrame
    columns: Sequence[tuple[str, str]]
    groups: Sequence[Group]
    notes: Sequence[str] = ()
    corner: str = ""

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The upper header row: each spanning title with the number of columns below it; empty if
        there are no titles.
        """
        if not any(top for top, _ in self.columns):
            return []
        return [
            (top, len(list(below)))
            for top, below in itertools.groupby(self.columns, key=lambda pair: pair[0])
        ]


def grouped(lines: Iterable[tuple[str, str, Sequence[Cell]]]) -> list[Group]:
    """Group (title, name, cells) lines by title, in order of first appearance."""
    groups: dict[str, list[tuple[str, Sequence[Cell]]]] = {}
    for title, name, cells in lines:
        groups.setdefault(title, []).append((name, cells))
    return [Group(title, of_title) for title, of_title in groups.items()]


def from_frame(frame: DataFrame) -> Table:
    """Convert a data frame to a table; its first column names the lines, and its index is not
    shown.

    Example:
        >>> from_frame(DataFrame({"objective": ["CL"], "seeds": [8], "mean": [0.91842]})).groups[
        ...     0
        ... ].lines
        [('CL', [Cell(text='8', runs='', printed=''), Cell(text='0.9184', runs='', printed='')])]
    """
    corner, *names = map(str, frame.columns)
    lines = (
        ("", name, [Cell(text) for text in texts])
        for name, *texts in frame.map(_plain).itertuples(index=False, name=None)
    )
    return Table(frame, [("", name) for name in names], grouped(lines), corner=corner)


def save(table: Table, path: str | Path, caption: str) -> None:
    """Write a table as CSV and LaTeX.

    Args:
        table: table to write.
        path: output path without the suffix (an existing suffix is replaced); missing folders are
            created.
        caption: caption of the LaTeX table.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.values.to_csv(path.with_suffix(".csv"), index=False)
    path.with_suffix(".tex").write_text(to_latex(table, caption), encoding="utf-8")


def to_latex(table: Table, caption: str = "") -> str:
    r"""Format the table as LaTeX for a paper; it requires ``\usepackage{booktabs}``."""
    environment = jinja2.Environment(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=_latex,
    )
    template = Path(__file__).with_name("table.tex").read_text(encoding="utf-8")
    return environment.from_string(template).render(table=table, caption=caption)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return "–" if pd.isna(value) else f"{value:.4g}"
    return str(value)


def _latex(text: object) -> str:
    """Escape text for LaTeX, which would read a leading bracket as an argument of a line break."""
    escaped = [
        LATEX.get(character, character) for character in escape_control_characters(str(text))
    ]
    return "{}" * (escaped[:1] == ["["]) + "".join(escaped)
