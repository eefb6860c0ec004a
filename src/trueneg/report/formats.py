"""A table as it is shown, and its CSV, Markdown and LaTeX; the page has a template of its own for HTML."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trueneg.legible import escape_control_characters

# Characters that LaTeX reads as commands, and those that its fonts lack.
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "±": r"$\pm$",
    "η": r"$\eta$",
    "–": "--",
    "\u00a0": "~",
} | {character: "\\" + character for character in "&%$#_{}"}


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and what it was made from.

    Attributes:
        runs: ids of the runs, separated by spaces; empty: of the whole study.
        printed: where the number is printed, if it was not measured here.
    """

    text: str
    bold: bool = False
    runs: str = ""
    printed: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under a common title (none if empty); each is a name and its cells."""

    title: str
    lines: Sequence[tuple[str, Sequence[Cell]]]


@dataclass(frozen=True)
class Table:
    """A table as it is shown, and the numbers behind it.

    Attributes:
        values: tidy numbers, for the CSV.
        columns: what spans the column (may be empty) and its own name, for each column after the first.
        groups: the lines; each has a name, which is the first column.
        notes: sentences under the table.
        corner: the name of the first column.
    """

    values: pd.DataFrame
    columns: Sequence[tuple[str, str]]
    groups: Sequence[Group]
    notes: Sequence[str] = ()
    corner: str = ""

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The upper line of the head: each title with the number of columns below it; empty if there is none."""
        if not any(top for top, _ in self.columns):
            return []
        return [(top, len(list(below))) for top, below in itertools.groupby(self.columns, key=lambda pair: pair[0])]


def from_frame(frame: pd.DataFrame) -> Table:
    """Any frame as a table: its first column names the lines, its index is not shown.

    Example:
        >>> from_frame(pd.DataFrame({"objective": ["CL"], "seeds": [8], "mean": [0.91842]})).groups[0].lines
        [('CL', [Cell(text='8', bold=False, runs='', printed=''), Cell(text='0.9184', bold=False, runs='', printed='')])]
    """
    first, *others = map(str, frame.columns)
    texts = [[_plain(value) for value in row] for row in frame.itertuples(index=False)]
    lines = [(name, [Cell(text) for text in row]) for name, *row in texts]
    return Table(frame, [("", name) for name in others], [Group("", lines)], corner=first)


def save(table: Table, path: str | Path, caption: str) -> list[Path]:
    """Write a table as CSV, Markdown and LaTeX.

    Args:
        table: the table.
        path: where to, without the ending (one is replaced); folders are made.
        caption: of the Markdown and LaTeX table.

    Returns:
        The three paths, in that order.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    csv, markdown, latex = (path.with_suffix(ending) for ending in (".csv", ".md", ".tex"))
    table.values.to_csv(csv, index=False)
    markdown.write_text(to_markdown(table, caption), encoding="utf-8")
    latex.write_text(to_latex(table, caption), encoding="utf-8")
    return [csv, markdown, latex]


def to_markdown(table: Table, caption: str = "") -> str:
    """The table in GitHub's Markdown; a group of lines begins with its title."""
    names = [": ".join(part for part in column if part) for column in table.columns]
    lines = [[_markdown(text) for text in (table.corner, *names)], [":--", *("--:" for _ in names)]]
    for group in table.groups:
        if group.title:
            lines.append([f"*{_markdown(group.title)}*", *("" for _ in names)])
        for name, cells in group.lines:
            texts = (f"**{_markdown(cell.text)}**" if cell.bold else _markdown(cell.text) for cell in cells)
            lines.append([_markdown(name), *texts])
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join(part for part in (_markdown(caption), body, *map(_markdown, table.notes)) if part) + "\n"


def to_latex(table: Table, caption: str = "") -> str:
    r"""The table for a paper, which needs ``\usepackage{booktabs}``."""
    lines = [r"\begin{table}", r"\centering", r"\small", rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}"]
    lines.append(r"\toprule")
    if table.spans:
        titles = (rf"\multicolumn{{{count}}}{{c}}{{{_latex(top)}}}" for top, count in table.spans)
        lines.append(_latex_line(["", *titles]))
        ends = itertools.accumulate((count for _, count in table.spans), initial=1)
        lines.append(" ".join(rf"\cmidrule(lr){{{a + 1}-{b}}}" for a, b in itertools.pairwise(ends)))
    lines.append(_latex_line(_latex(text) for text in (table.corner, *(name for _, name in table.columns))))
    for group in table.groups:
        lines.append(r"\midrule")
        if group.title:
            span = len(table.columns) + 1
            lines.append(_latex_line([rf"\multicolumn{{{span}}}{{l}}{{\emph{{{_latex(group.title)}}}}}"]))
        for name, cells in group.lines:
            texts = (rf"\textbf{{{_latex(cell.text)}}}" if cell.bold else _latex(cell.text) for cell in cells)
            lines.append(_latex_line([_latex(name), *texts]))
    legend = " ".join(_latex(text) for text in (caption, *table.notes) if text)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{legend}}}", r"\end{table}", ""])


def _plain(value: object) -> str:
    if isinstance(value, float):
        return "–" if pd.isna(value) else f"{value:.4g}"
    return str(value)


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_<>&`\[\]])", r"\\\1", escape_control_characters(text))


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in escape_control_characters(text))


def _latex_line(texts: Iterable[str]) -> str:
    # A line that begins with a bracket would be read as an argument of the line break before it.
    return " & ".join("{}" + text if text.startswith("[") else text for text in texts) + r" \\"
