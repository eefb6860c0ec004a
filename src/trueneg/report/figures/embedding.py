"""t-SNE of the test images, one panel per objective (Sample-Specific Debiasing's Fig. 4)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.report.declared import Drawing, per_objective
from trueneg.report.drawing import Figure, finish
from trueneg.report.gathered import Gathered
from trueneg.report.plots import facets
from trueneg.specs.settings import Study

ORDER = 40


def drawings(study: Study) -> list[Drawing]:
    """Declare the t-SNE figure if an image study requests it."""
    caption = "Sample-Specific Debiasing's Fig. 4: one seed, with rare classes in shades of red and common classes in blue."
    return per_objective(study, "embedding", embedding, "t-SNE of the test images", caption)


def embedding(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Plot images in two dimensions, from one row per image and objective with ``x``, ``y``, ``label`` and ``rare`` (bool)."""
    points = gathered.read(*files)
    classes = points[["label", "rare"]].drop_duplicates().sort_values(["rare", "label"])
    looks = _looks(classes)
    figure, parts = facets(points, "objective", size=(2.8, 2.45), title="{}")
    for plot, _, of_objective in parts:
        for label, look in looks.items():
            of_class = of_objective[of_objective["label"] == label]
            # Rasterised: thousands of markers would make the PDF slow to open.
            plot.scatter(of_class["x"], of_class["y"], s=11, linewidths=0, alpha=0.85, rasterized=True, **look)
        plot.set(xticks=[], yticks=[], box_aspect=1)
        plot.spines[:].set_visible(True)
    names = [f"{label} (rare)" if rare else str(label) for label, rare in zip(classes["label"], classes["rare"], strict=True)]
    figure.legend(figure.axes[0].collections, names, loc="outside right upper", handletextpad=0.2, markerscale=1.8)
    dataset, images = points["dataset"].iloc[0], points.groupby("objective").size()
    about = (
        f"t-SNE of {images.max():,} images of {dataset}, one seed; rare classes in red, common classes in blue. "
        "The axes have no units, and distances between clusters have no meaning."
    )
    shown = f"{len(classes)} classes ({int(classes['rare'].sum())} rare), {', '.join(dict.fromkeys(points['objective']))}"
    return finish(figure, [about, gathered.study_note], f"Scatter plots of {dataset} in two dimensions: {shown}.")


def _looks(classes: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """Return the colour and marker of each class: blue and round or square if common, red and pointed if rare."""
    import matplotlib

    looks: dict[Any, dict[str, Any]] = {}
    for rare, palette, markers in ((False, "Blues", "osDphH8d"), (True, "Reds", "^v<>*PX1")):
        labels = classes.loc[classes["rare"] == rare, "label"].tolist()
        shades = matplotlib.colormaps[palette](np.linspace(0.95, 0.42, len(labels)))
        for place, (label, shade) in enumerate(zip(labels, shades, strict=True)):
            looks[label] = {"color": tuple(shade), "marker": markers[place % len(markers)]}
    return looks
