"""Tables for display, and their CSV and LaTeX output; the page has a template for their HTML."""

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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


class Group(NamedTuple):
    """Lines under a common title, which may be empty; each line is a name and its cells."""

    title: str
    lines: Sequence[tuple[str, Sequence[Cell]]]


Head = tuple[str, str]  # spanning title, which may be empty, and name of a column
Line = tuple[str, str, Sequence[Cell]]  # title of its group, its name, and its cells


@dataclass(frozen=True)
class Table:
    """A table for display, and its underlying numbers.

    Attributes:
        values: tidy numbers for the CSV.
        columns: heads of the columns after the first.
        lines: lines in any order of groups; the name of each line is the first column.
        notes: sentences under the table.
        corner: name of the first column.
    """

    values: DataFrame
    columns: Sequence[Head]
    lines: Sequence[Line]
    notes: Sequence[str] = ()
    corner: str = ""

    @property
    def groups(self) -> list[Group]:
        """The lines by title, in order of first appearance."""
        groups: dict[str, list[tuple[str, Sequence[Cell]]]] = {}
        for title, name, cells in self.lines:
            groups.setdefault(title, []).append((name, cells))
        return [Group(*of_title) for of_title in groups.items()]

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


def pivot(
    cells: Iterable[tuple[str, str, Hashable, Sequence[Cell]]],
    heads: Mapping[Hashable, Sequence[Head]],
) -> tuple[list[Head], list[Line]]:
    """Pivot cells to columns and lines, the latter in order of first appearance.

    Args:
        cells: title of the group, name of the line, key of the columns, and a cell for each.
        heads: heads of the columns by key; a line without cells for a key has a dash there.

    Example:
        >>> heads = {"mean": [("", "mean"), ("", "difference")], "seeds": [("", "seeds")]}
        >>> columns, [line] = pivot([("all", "CL", "seeds", [Cell("8")])], heads)
        >>> columns == [*heads["mean"], *heads["seeds"]], [cell.text for cell in line[-1]]
        (True, ['–', '', '8'])
    """
    missing = {
        key: [Cell("–" if head is of[0] else "") for head in of] for key, of in heads.items()
    }
    lines: dict[Any, dict[Any, Any]] = {}
    for title, name, key, shown in cells:
        lines.setdefault((title, name), {**missing})[key] = shown
    return (
        [*itertools.chain(*heads.values())],
        [(*line, [*itertools.chain(*shown.values())]) for line, shown in lines.items()],
    )


def from_frame(frame: DataFrame) -> Table:
    """Convert a data frame to a table; its first column names the lines, and its index is not
    shown.

    Example:
        >>> table = from_frame(DataFrame({"objective": ["CL"], "seeds": [8], "mean": [0.91842]}))
        >>> [(name, [cell.text for cell in cells]) for _, name, cells in table.lines]
        [('CL', ['8', '0.9184'])]
    """
    corner, *names = map(str, frame.columns)
    lines: list[Line] = [
        ("", name, [Cell(text) for text in texts])
        for name, *texts in frame.map(_plain).itertuples(index=False, name=None)
    ]
    return Table(frame, [("", name) for name in names], lines, corner=corner)


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
