"""t-SNE of the test images, one panel per objective (Sample-Specific Debiasing's Fig. 4)."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import DataFrame

from trueneg.report.declared import Drawing, per_objective
from trueneg.report.drawing import Figure, finish
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus
from trueneg.report.plots import facets
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 40
KIND = TrainedStudy
SILHOUETTE = (
    "Silhouette: mean over images of rare or all classes, from cosine distances between encoder"
    " features, not in the plane (1: classes are far apart, 0: they touch); 95\u00a0% bootstrap"
    " intervals over images."
)


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the t-SNE figure if an image study requests it."""
    return per_objective(
        study,
        "embedding",
        embedding,
        "t-SNE of the test images",
        "Sample-Specific Debiasing's Fig. 4: one seed, with rare classes in shades of red and"
        " common classes in blue.",
    )


def embedding(gathered: Gathered, files: Sequence[str]) -> Figure:
    """Plot images in two dimensions, with the mean silhouette of each objective's features below
    its panel.

    Args:
        gathered: artefacts of the study.
        files: one row per image and objective with ``x``, ``y``, ``label``, ``rare`` (bool) and
            ``silhouette``.
    """
    import seaborn

    points = gathered.read(*files)
    points["class"] = points["label"].astype(str) + np.where(points["rare"], " (rare)", "")
    classes = points[["label", "rare", "class"]].drop_duplicates().sort_values(["rare", "label"])
    palette: dict[str, Any] = {}
    markers: dict[str, str] = {}
    for is_rare, shades, shapes in ((False, "Blues_r", "osDphH8d"), (True, "Reds_r", "^v<>*PXp")):
        names = classes.loc[classes["rare"] == is_rare, "class"]
        # not the palest
        palette |= dict(zip(names, seaborn.color_palette(shades, len(names) + 2), strict=False))
        markers |= dict(zip(names, itertools.cycle(shapes), strict=False))
    figure, parts = facets(points, "objective", size=(2.8, 2.7), title="{}")
    for plot, _, of_objective in parts:
        seaborn.scatterplot(
            of_objective,
            x="x",
            y="y",
            hue="class",
            style="class",
            palette=palette,
            markers=markers,
            hue_order=list(palette),
            style_order=list(palette),
            s=13,
            linewidth=0,
            alpha=0.85,
            rasterized=True,  # thousands of markers would make the PDF slow to open
            ax=plot,
        )
        handles = plot.get_legend_handles_labels()
        plot.legend().remove()
        plot.set(xticks=[], yticks=[], box_aspect=1, ylabel="")
        plot.set_xlabel("\n".join(_silhouettes(of_objective)), fontsize=8.5)
        plot.spines[:].set_visible(True)
    figure.legend(*handles, loc="outside right upper", handletextpad=0.2, markerscale=1.4)
    dataset = points["dataset"].iloc[0]
    images = points.groupby("objective").size().max()
    return finish(
        figure,
        f"t-SNE of {images:,} images of {dataset}, one seed; rare classes in red, common"
        " classes in blue. The axes have no units, and distances between clusters have no"
        " meaning.",
        SILHOUETTE if points["silhouette"].notna().any() else "",
        gathered.study_note,
    )


def _silhouettes(points: DataFrame) -> list[str]:
    """Return the mean silhouette of rare and of all classes, with bootstrap intervals over images;
    empty if there are none.
    """
    from seaborn.algorithms import bootstrap

    if len(points[["x", "y"]].drop_duplicates()) == 1:
        return ["all features are equal"]
    lines = []
    for name, part in (("rare", points[points["rare"]]), ("all", points)):
        values = part["silhouette"].dropna()
        if len(values):
            low, high = np.quantile(bootstrap(values, n_boot=2000, seed=0), [0.025, 0.975])
            lines.append(minus(f"silhouette, {name}: {values.mean():.2f} [{low:.2f}, {high:.2f}]"))
    return lines
