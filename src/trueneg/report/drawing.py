"""What all figures share: type, colours, one style an objective, the footnote, and how they are saved."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from trueneg.legible import legible, one_line

STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a figure is the same on every machine
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.35",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.7,
    "xtick.color": "0.25",
    "ytick.color": "0.25",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
    "errorbar.capsize": 2.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "trueneg",  # without it every SVG has other ids
}

LONGEST_LINE, MOST_LINES = 200, 40  # characters of a line, and lines of a text, that are drawn
USUAL_LINES, LINE = 3, 0.2  # a legend's lines that figures have room for, and the height of a further one, in inches

# Colours that colour-blind people can tell apart (after Okabe and Ito, 2008), dark enough for white paper.
COLOURS = ("#1a1a1a", "#0072b2", "#d55e00", "#009e73", "#b8578f", "#a67c00", "#3a9bd5")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)))


@dataclass(frozen=True)
class LineStyle:
    """How one objective is drawn: each of the three tells it apart, in black and white too."""

    color: str
    marker: str
    linestyle: str | tuple


@dataclass(frozen=True)
class Drawing:
    """A figure or table: the function that makes it, its title, and a sentence on what to see in it."""

    draw: Callable[..., Any]
    title: str
    caption: str


def line_styles(objectives: Iterable[str]) -> dict[str, LineStyle]:
    """One style an objective, by its place, so that an objective looks the same in all figures of a study.

    Args:
        objectives: all objectives of the study, in the order of its rows; repetitions do not count.
    """
    return {
        name: LineStyle(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], DASHES[place % len(DASHES)])
        for place, name in enumerate(dict.fromkeys(objectives))
    }


def panels(rows: int = 1, columns: int = 1, width: float = 6.4, height: float = 4.0, share: bool = False):
    """A figure with its grid of axes.

    Args:
        rows: of axes.
        columns: of axes.
        width: of the whole figure, in inches.
        height: of the whole figure, in inches.
        share: whether all axes have the same limits.

    Returns:
        The figure and a (rows, columns) array of axes.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.06)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)


def add_legend(figure: Figure, handles: Sequence, names: Sequence[str], title: str | None = None) -> None:
    """A legend above the axes, in as many columns as fit.

    Args:
        figure: with a constrained layout; it grows where the legend needs many lines.
        handles: samples, such as from :func:`legend_handle`.
        names: of the same number.
        title: above them.
    """
    width = figure.get_figwidth()
    columns = next((count for count in range(len(names), 1, -1) if _legend_width(names, count) < width), 1)
    lines = -(-len(names) // columns)
    if lines > USUAL_LINES:  # else the legend takes the axes' place
        figure.set_figheight(figure.get_figheight() + LINE * (lines - USUAL_LINES))
    figure.legend(handles, names, title=title, loc="outside upper left", ncols=columns, columnspacing=1.6)


def _legend_width(names: Sequence[str], columns: int) -> float:
    """About how wide a legend becomes, in inches; columns hold as many names, or the first ones one more."""
    longest = [max(map(len, column)) for column in np.array_split(np.array(names, dtype=object), columns)]
    return sum(0.085 * length + 0.62 for length in longest)


def legend_handle(style: LineStyle, line: bool = True) -> Line2D:
    """The sample of a style that a legend shows."""
    return Line2D([], [], color=style.color, marker=style.marker, linestyle=style.linestyle if line else "none")


def finish(figure: Figure, sentences: Sequence[str], description: str) -> Figure:
    """Print the footnote under a figure and attach its description for those who cannot see it.

    Args:
        figure: the figure.
        sentences: what the footnote says; empty ones are left out.
        description: the figure in words, with its values; becomes the image's alternative text.
    """
    text = " ".join(sentence.strip() for sentence in sentences if sentence.strip())
    wrapped = textwrap.fill(text, int(figure.get_figwidth() * 17.5))
    # The figure-wide x label is the one text below the axes that the layout makes room for.
    figure.supxlabel(wrapped, x=0.012, ha="left", fontsize=8, color="0.3", linespacing=1.35)
    figure.set_label(legible(description))
    for part in figure.findobj(Text):
        # A dollar in a note, a sentence or a name begins no formula; only the powers of ten of an axis are some.
        if "\\mathdefault" not in part.get_text():
            part.set_text(_fitting(legible(part.get_text())))
            part.set_parse_math("$" not in part.get_text())
    return figure


def _fitting(text: str) -> str:
    """Text that can be drawn: the end of what no figure has room for is left out, and would take minutes."""
    lines = text.split("\n")
    shown = [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in lines[:MOST_LINES]]
    return "\n".join(shown + ["…"] * (len(lines) > MOST_LINES))


def footnote(figure: Figure) -> str:
    """What is printed under a figure, as one line: its caption elsewhere."""
    return " ".join(figure.get_supxlabel().split())


def alternative_text(figure: Figure) -> str:
    """The figure in words, with its values."""
    return figure.get_label()


def say_empty(axes: Axes, sentence: str) -> None:
    """A sentence where there is nothing to draw, so that a figure that was asked for always exists."""
    axes.set_axis_off()
    axes.text(
        0.5,
        0.5,
        textwrap.fill(sentence, 42),
        ha="center",
        va="center",
        color="0.35",
        transform=axes.transAxes,
    )


@matplotlib.rc_context(STYLE)
def save(figure: Figure, path: str | Path, title: str) -> list[Path]:
    """Write a figure as PNG (200 dots an inch), PDF and SVG; the same figure gives the same bytes.

    Args:
        figure: the figure.
        path: where to, without the ending (one is replaced); folders are made.
        title: goes into the files' metadata, with :func:`alternative_text` as the description.

    Returns:
        The three paths, in that order.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    title, description = one_line(title), one_line(alternative_text(figure))
    # No dates and no versions of libraries: they would make every file differ.
    metadata = {
        ".png": {"Title": title, "Description": description, "Software": None},
        ".pdf": {
            "Title": title,
            "Subject": description,
            "Creator": None,
            "Producer": None,
            "CreationDate": None,
        },
        ".svg": {"Title": title, "Description": description, "Creator": None, "Date": None},
    }
    written = []
    for ending, entries in metadata.items():
        written.append(path.with_suffix(ending))
        figure.savefig(written[-1], dpi=200, metadata=entries, facecolor="white")
    return written
