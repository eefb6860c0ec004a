"""Building blocks of all figures: fonts, colours, one style per objective, panels, legends,
footnotes and saving.

matplotlib is imported only when something is drawn, so listing figures does not import it.
"""

import contextlib
import functools
import itertools
import logging
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.legible import escape_control_characters, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any

log = logging.getLogger(__name__)

FONT = "DejaVu Sans"  # as in report.mplstyle
REPORTED: set[str] = set()  # characters without a font that the log mentions
STRONGEST = 0.75  # opacity at the maximum of a heatmap
LONGEST_LINE, MOST_LINES = 200, 40  # maximum characters per line and lines per text that are drawn
# legend lines that fit in a figure, and the height of each further line in inches
USUAL_LINES, LINE = 3, 0.2
MOST_VALUES = 6  # of a line in the alternative text
USUAL_NOTE, NOTE_LINE = 5, 0.15  # the same for the footnote
RIGHT = 0.985  # right end of the footnote as a fraction of the figure's width

# Colour-blind-safe palette (after Okabe and Ito, 2008), dark enough for white paper.
COLOURS = ("#1a1a1a", "#0072b2", "#d55e00", "#009e73", "#b8578f", "#a67c00", "#3a9bd5")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = (
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1.5)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)),
)


class LineStyle(NamedTuple):
    """Line style of one objective; colour, marker and dashes each help to distinguish it, even in
    black and white.
    """

    color: Any
    marker: str
    linestyle: Any


Styles = Mapping[str, LineStyle]  # by name


def in_style():
    """Return a context manager with the report's style on top of matplotlib's defaults, independent
    of a matplotlibrc file.
    """
    import matplotlib.style

    return matplotlib.style.context(["default", Path(__file__).with_name("report.mplstyle")])


def line_styles(objectives: Iterable[str]) -> dict[str, LineStyle]:
    """Assign each objective a style by its position among all objectives of the study, so that it
    looks the same in all figures.

    Duplicates are ignored.
    """
    looks = map(
        LineStyle, itertools.cycle(COLOURS), itertools.cycle(MARKERS), itertools.cycle(DASHES)
    )
    return dict(zip(dict.fromkeys(objectives), looks, strict=False))


def unmarked(styles: Styles) -> dict[str, LineStyle]:
    """Return the styles without their markers."""
    return {name: style._replace(marker="") for name, style in styles.items()}


def dots(styles: Styles) -> dict[str, LineStyle]:
    """Return the styles without lines."""
    return {name: style._replace(linestyle="none") for name, style in styles.items()}


def styles_of(names: Iterable[str], styles: Styles) -> dict[str, LineStyle]:
    """Return the styles of these names, in the order of the styles."""
    shown = set(names)
    return {name: style for name, style in styles.items() if name in shown}


def panels(
    rows: int = 1,
    columns: int = 1,
    width: float = 6.4,
    height: float = 4.0,
    share: bool | Literal["col"] = False,
):
    """Create a figure, sized in inches, with a (rows, columns) array of axes.

    `share` gives all axes, or those of each column, the same limits.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", h_pad=0.06, w_pad=0.06)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)


def add_legend(figure: Figure, entries: Mapping[str, Any]) -> None:
    """Add a legend above the axes in as many columns as fit; the figure grows if the legend needs
    many lines.

    Args:
        figure: figure to which the legend is added.
        entries: :class:`LineStyle` or matplotlib artist of each name.
    """
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **entry._asdict()) if isinstance(entry, LineStyle) else entry
        for entry in entries.values()
    ]
    names = list(entries)
    columns = max(len(names), 1)
    while columns > 1 and _legend_width(names, columns) >= figure.get_figwidth():
        columns -= 1
    lines = -(-len(names) // columns)
    if lines > USUAL_LINES:  # otherwise the legend would take space from the axes
        figure.set_figheight(figure.get_figheight() + LINE * (lines - USUAL_LINES))
    figure.legend(handles, names, loc="outside upper left", ncols=columns, columnspacing=1.6)


def _legend_width(names: Sequence[str], columns: int) -> float:
    """Estimate the width of a legend in inches; names are split evenly, and the first columns may
    hold one more.
    """
    longest = [
        max(map(len, column)) for column in np.array_split(np.array(names, dtype=object), columns)
    ]
    return sum(0.085 * length + 0.62 for length in longest)


def finish(figure: Figure, *sentences: str) -> Figure:
    """Add the non-empty sentences as a footnote and a description of what is drawn as alternative
    text.
    """
    from matplotlib.text import Text

    for axes in figure.axes:  # categories get their text only here
        axes.get_xticklabels()
        axes.get_yticklabels()
    text = legible(" ".join(sentence.strip() for sentence in sentences if sentence.strip()))
    # The layout engine reserves space below the axes only for the figure-wide x label.
    note = figure.supxlabel(
        "", x=0.012, ha="left", fontsize=8, color="0.3", linespacing=1.35, parse_math=False
    )
    families = _font_families(text + "".join(part.get_text() for part in figure.findobj(Text)))
    note.set_fontfamily(families)
    for columns in range(min(int(figure.get_figwidth() * 17.5), LONGEST_LINE), 0, -1):
        note.set_text(textwrap.fill(text, columns))
        if note.get_window_extent().x1 <= RIGHT * figure.bbox.x1:
            break
    lines = min(note.get_text().count("\n") + 1, MOST_LINES)
    figure.set_figheight(figure.get_figheight() + NOTE_LINE * max(0, lines - USUAL_NOTE))
    figure.set_label(legible(" ".join(map(_described, figure.axes))))
    for part in figure.findobj(Text):
        # Only tick labels such as powers of ten are formulas; a dollar sign in a note, sentence or
        # name does not start one.
        if "\\mathdefault" not in part.get_text():
            part.set_text(_fitting(legible(part.get_text())))
            part.set_parse_math("$" not in part.get_text())
            part.set_fontfamily(families)
    return figure


def _described(axes: Axes) -> str:
    """Describe a panel by its texts and by the values and intervals of its labelled lines; only the
    ends of long lines.
    """
    containers: Any = axes.containers
    # an error bar has exactly one of the two
    bars = {
        bar.lines[0]: bar
        for bar in containers
        if getattr(bar, "has_xerr", False) != getattr(bar, "has_yerr", False)
    }
    texts = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
    texts += [text.get_text() for text in axes.texts]
    for line in axes.lines:
        points = np.column_stack(line.get_data(orig=False)).astype(float)
        names: dict[float, str] = {}
        if is_forest := line in bars and bars[line].has_xerr:
            labels = [label.get_text() for label in axes.get_yticklabels()]
            names = dict(zip(axes.get_yticks(), labels, strict=True))
            points = points[:, ::-1]
        # empty without an interval
        ends: Any = bars[line].lines[2][0].get_segments() if line in bars else [()] * len(points)
        shown = []
        for (place, value), end in zip(points, ends, strict=True):
            interval = " [{:.4g}, {:.4g}]".format(*end[:, 1 - is_forest]) if len(end) else ""
            shown.append(f"{value:.4g}{interval} at {names.get(place, f'{place:.4g}')}")
        if shown and not str(line.get_label()).startswith("_"):
            kept = shown if is_forest or len(shown) <= MOST_VALUES else [shown[0], shown[-1]]
            texts.append(f"{line.get_label()}: {', '.join(kept)}")
    return " ".join(f"{' '.join(text.split()).rstrip('.')}." for text in texts if text.strip())


def _font_families(text: str) -> list[str]:
    """Return DejaVu Sans and the installed fonts with characters that it lacks; list in the log
    what none of them has.
    """
    from matplotlib import font_manager

    families = [FONT]
    missing = set("".join(legible(text).split())) - _characters(font_manager.findfont(FONT))
    files = font_manager.findSystemFonts() if missing else []
    for file in sorted(files, key=lambda file: ("Sans" not in file, file)):
        if missing & _characters(file):
            font_manager.fontManager.addfont(file)
            families.append(font_manager.get_font(file).family_name)
            missing -= _characters(file)
    if new := sorted(missing - REPORTED):
        scripts = {unicodedata.name(character, "UNNAMED").split()[0] for character in new}
        log.warning(
            f"no installed font has the characters {' '.join(new[:20])}"
            f" ({', '.join(sorted(scripts))}), so figures show boxes in their place. Install a"
            " font that has them, such as Google's Noto fonts, then draw the figures again.",
        )
        REPORTED.update(new)
        # has just been said
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
    return families


@functools.cache
def _characters(file: str) -> frozenset[str]:
    """Return the characters of a font; none if matplotlib cannot read it, such as one with colour
    images.
    """
    from matplotlib.font_manager import get_font

    with contextlib.suppress(OSError, RuntimeError):
        return frozenset(map(chr, get_font(file).get_charmap()))
    return frozenset()


def _fitting(text: str) -> str:
    """Truncate text that is too long for any figure; drawing it would take minutes."""
    lines = text.split("\n")
    shown = [
        line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
        for line in lines[:MOST_LINES]
    ]
    return "\n".join(shown + ["…"] * (len(lines) > MOST_LINES))


def footnote(figure: Figure) -> str:
    """Return a figure's footnote as one line, for use in its caption."""
    return " ".join(figure.get_supxlabel().split())


def alternative_text(figure: Figure) -> str:
    """Return the description of the figure with its values."""
    return str(figure.get_label())


def heat_colours(heatmap: ndarray) -> ndarray:
    """Map a heatmap, rescaled to its own range, to RGBA colours for an image overlay; shape (…, 4),
    values in [0, 1].
    """
    import matplotlib.colors

    height = matplotlib.colors.Normalize()(heatmap)
    colours = matplotlib.colormaps["inferno"](height)
    colours[..., 3] = STRONGEST * height
    return colours


def draw_message(axes: Axes, sentence: str) -> None:
    """Show a sentence in place of an empty plot, so that every figure of the study exists."""
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


def save(figure: Figure, path: str | Path, title: str) -> list[Path]:
    """Write a figure as PNG (200 dpi), PDF and SVG; the same figure gives identical bytes.

    Args:
        figure: figure to write.
        path: output path without the suffix (an existing suffix is replaced); missing folders are
            created.
        title: title in the files' metadata; :func:`alternative_text` is the description.

    Returns:
        The three paths, in that order.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    title = escape_control_characters(title)
    description = escape_control_characters(alternative_text(figure))
    # Leave out dates and library versions, which would make the files differ.
    undated = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    metadata = {
        ".png": {"Title": title, "Description": description, "Software": None},
        ".pdf": {"Title": title, "Subject": description, **undated},
        ".svg": {"Title": title, "Description": description, "Creator": None, "Date": None},
    }
    with in_style():
        for ending, entries in metadata.items():
            file = path.with_suffix(ending)
            figure.savefig(file, dpi=200, metadata=entries, facecolor="white")
    return [path.with_suffix(ending) for ending in metadata]
