"""Grounding of phrases by each objective: radiograph, heatmap, boxes and contrast-to-noise
ratio.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import Series

from trueneg.report.declared import Drawing, per_objective
from trueneg.report.drawing import Axes, Figure, finish, heat_colours, panels
from trueneg.report.gathered import Gathered
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 60
KIND = TrainedStudy
PANEL = 1.3  # inches
LETTER = 0.073  # inches, approximate width of a character in a phrase


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the grounding overlays if an image–text study requests them."""
    return per_objective(
        study,
        "overlays",
        grounding_overlays,
        "Grounding of phrases",
        "Heatmaps of the same phrases for every objective; boxes mark the finding.",
    )


def grounding_overlays(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Draw one row for each of the first phrases and one column per objective; each row starts with
    the plain radiograph.

    Each heatmap is rescaled to its own range, which does not change the contrast-to-noise ratio.
    """
    overlays = gathered.read(*files)
    wanted = gathered.study.figures.overlays
    phrases = list(dict.fromkeys(zip(overlays["report"], overlays["sentence"], strict=True)))[
        : wanted.phrases
    ]
    by_phrase: Any = overlays.set_index(["objective", "report", "sentence"])
    columns = len(wanted.objectives) + 1
    figure, axes = panels(
        len(phrases),
        columns,
        width=max(4.6, PANEL * columns + 0.3),
        height=0.9 + (PANEL + 0.22) * len(phrases),
    )
    figure.set_layout_engine("constrained", h_pad=0.02, w_pad=0.02, hspace=0.0, wspace=0.0)
    for line, phrase in zip(axes, phrases, strict=True):
        entries = [by_phrase.loc[(objective, *phrase)] for objective in wanted.objectives]
        for plot, entry in zip(line, [entries[0], *entries], strict=True):
            _draw_radiograph(plot, entry)
        for plot, entry in zip(line[1:], entries, strict=True):
            _draw_heatmap(plot, entry)
        # The blank title reserves space for the phrase, which may be wider than the panel.
        line[0].set_title(" ", fontsize=8.5, pad=3)
        said = textwrap.shorten(
            f"{entries[0]['finding']}: “{phrase[1]}”",
            int(PANEL * columns / LETTER),
            placeholder=" …",
        )
        line[0].annotate(
            said,
            (0, 1),
            xytext=(0, 4),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8.5,
            annotation_clip=False,
        ).set_in_layout(False)
    for plot, name in zip(axes[0], ("radiograph", *wanted.objectives), strict=True):
        plot.annotate(
            textwrap.fill(name.replace(",", ", "), 21),
            (0.5, 1.0),
            xytext=(0, 16),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
        )
    return finish(
        figure,
        f"Test split, seed {overlays['seed'].iloc[0]}. Boxes mark the finding. Colour:"
        " similarity between region and phrase, from the lowest (transparent) to the highest"
        " value (bright) of each heatmap. Numbers: contrast-to-noise ratio between the inside"
        " and the outside of the boxes.",
        gathered.study_note,
    )


def _draw_radiograph(plot: Axes, entry: Series) -> None:
    from matplotlib.patches import Rectangle

    size = int(entry["size"])
    pixels = np.frombuffer(entry["pixels"], np.uint8).reshape(size, size)
    plot.imshow(pixels, cmap="gray", vmin=0, vmax=255, extent=(0, size, size, 0))
    for x0, y0, x1, y1 in zip(*entry[["x0", "y0", "x1", "y1"]], strict=True):
        # A light line on a dark one makes boxes visible on both lung and bone.
        for width, colour in ((2.2, "0.05"), (1.1, "1.0")):
            box = Rectangle(
                (x0, y0), x1 - x0, y1 - y0, fill=False, linewidth=width, edgecolor=colour, zorder=3
            )
            plot.add_patch(box)
    plot.set(xlim=(0, size), ylim=(size, 0))
    plot.set_axis_off()


def _draw_heatmap(plot: Axes, entry: Series) -> None:
    size = int(entry["size"])
    heatmap = np.frombuffer(entry["heatmap"], np.float32).reshape(size, size).astype(float)
    plot.imshow(heat_colours(heatmap), extent=(0, size, size, 0), zorder=2)
    label = "–" if np.isnan(entry["CNR"]) else f"{entry['CNR']:.2f}"
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.2}
    plot.text(
        0.03, 0.03, label, transform=plot.transAxes, fontsize=7.5, va="bottom", bbox=box, zorder=4
    )
