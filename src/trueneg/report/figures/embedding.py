"""t-SNE of the test images, one panel per objective (the first paper's Fig. 4)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, LineStyle, finish, legend_handle
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets, rows_where
from trueneg.specs.settings import Study

ORDER = 40


def drawings(study: Study) -> list[Drawing]:
    """Declare the t-SNE figure if an image study requests it."""
    if not isinstance(study, ImageStudy) or study.figures.embedding is None:
        return []
    wanted = study.figures.embedding
    dataset = wanted.dataset or study.primary.dataset or next(iter(runs.datasets(study)))
    files = tuple(f"embedding/{dataset}/{objective}.parquet" for objective in wanted.objectives)
    caption = "The first paper's Fig. 4: rare classes in reds, common ones in blues, one seed."
    options = {"dataset": dataset, "files": files}
    return [Drawing("embedding", draw, "t-SNE of the test images", caption, ("study.yaml", *files), options)]


def draw(gathered: Gathered, dataset: str, files: Sequence[str]) -> Figure:
    """Draw the figure for the objectives that the study names."""
    return embedding(gathered.read(*files), dataset, gathered.study.figures.embedding.objectives, gathered.study.note)


def embedding(coordinates: pd.DataFrame, dataset: str, objectives: Sequence[str], note: str = "") -> Figure:
    """Plot images in two dimensions, from one row per image and objective with ``x``, ``y``, ``label`` and ``rare`` (bool)."""
    chosen = rows_where(coordinates, dataset=[dataset], objective=list(objectives))
    classes = chosen[["label", "rare"]].drop_duplicates().sort_values(["rare", "label"])
    styles = _class_styles(classes)
    chosen = chosen.sort_values("objective", key=lambda names: names.map(list(objectives).index), kind="stable")
    figure, found = facets(chosen, "objective", size=(2.8, 2.45), title="{}")
    for plot, _, of_objective in found:
        for label, style in styles.items():
            points = of_objective[of_objective["label"] == label]
            # Rasterised: thousands of markers would make the PDF slow to open.
            look: dict[str, Any] = {"s": 11, "color": style.color, "marker": style.marker, "linewidths": 0, "alpha": 0.85}
            plot.scatter(points["x"], points["y"], rasterized=True, **look)
        plot.set(xticks=[], yticks=[], box_aspect=1)
        plot.spines[:].set_visible(True)
    handles = [legend_handle(style, line=False) for style in styles.values()]
    texts = [f"{row['label']}{' (rare)' if row['rare'] else ''}" for _, row in classes.iterrows()]
    figure.legend(handles, texts, loc="outside right upper", handletextpad=0.2)
    images = chosen.groupby("objective").size().max()
    about = (
        f"t-SNE of {images:,} images of {dataset}, one seed; reds are rare classes, blues common ones. "
        "The axes have no unit, and distances between clusters no meaning."
    )
    shown = f"{len(classes)} classes, of which {int(classes['rare'].sum())} rare, {', '.join(objectives)}"
    return finish(figure, [about, note], f"Scatter plots of {dataset} in two dimensions: {shown}.")


def _class_styles(classes: pd.DataFrame) -> dict[int | str, LineStyle]:
    """Return the style of each class: blue with round or square markers if common, red with pointed markers if rare."""
    import matplotlib

    styles = {}
    for rare, palette, markers in ((False, "Blues", "osDphH8d"), (True, "Reds", "^v<>*PX1")):
        labels = classes.loc[classes["rare"] == rare, "label"].tolist()
        shades = matplotlib.colormaps[palette](np.linspace(0.95, 0.42, len(labels)))
        for place, (label, shade) in enumerate(zip(labels, shades, strict=True)):
            styles[label] = LineStyle(tuple(shade), markers[place % len(markers)], "")
    return styles
