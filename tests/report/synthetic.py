"""Rows, training curves and other artefacts of a small study with known effects."""

import hashlib
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table
from trueneg.text.assumption import summarise

# Wide letters, a path without spaces, and more lines than the usual footnote.
LONG_NOTE = (
    f"WWWWWWWWW MMMMMMMMM {'results/' * 30}study.yaml "
    + "A note on the data, of usual length and in usual words. " * 14
)
FRACTIONS = {"fraction=0.05": 0.05, "fraction=0.1": 0.1, "fraction=0.25": 0.25, "fraction=0.5": 0.5}
GAINS = {"CL": 0.0, "DCL-low": 0.002, "DCL-high": -0.012, "DCL-true": -0.016, "Oracle": 0.024}
LABEL_FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def rows(fractions=FRACTIONS, gains=GAINS, seeds=8, spread=0.008):
    """Tidy rows of an image study; the gains of an objective are larger on rare classes."""
    generator = np.random.default_rng(0)
    table = []
    for split in ("validation", "test"):
        for dataset, fraction in fractions.items():
            for seed in range(seeds):
                shared = generator.normal(0, 0.012)
                for objective, gain in gains.items():
                    effect = gain * (1.2 - fraction) + generator.normal(0, spread)
                    run = {
                        "dataset": dataset,
                        "objective": objective,
                        "seed": seed,
                        "run": run_id(dataset, objective, seed),
                    }
                    for task, label_fraction in (
                        *(("linear probe", share) for share in LABEL_FRACTIONS),
                        ("knn", None),
                    ):
                        level = (
                            0.74
                            + 0.18 * fraction**0.4
                            + 0.05 * np.log10(label_fraction or 1.0)
                            + shared
                        )
                        for group, lift, part in (
                            (None, 0, 1.0),
                            ("rare", -0.06, 1.6),
                            ("common", 0.06, 0.4),
                        ):
                            value = level + lift + part * effect + generator.normal(0, spread / 3)
                            measured = Measurement(
                                task, "accuracy", "all", label_fraction, group=group
                            )
                            table.append(
                                {
                                    **run,
                                    "split": split,
                                    **measured._asdict(),
                                    "value": np.clip(value, 0, 1),
                                }
                            )
    return to_table(pd.DataFrame(table).assign(study="small", condition="{}", variant="{}"))


def study_with_baseline(oracles=(), headroom=None, names=None):
    """The parts of a gathered study that a table of means and differences from CL reads."""
    if headroom is None:
        headroom = pd.DataFrame({"dataset": [], "label": [], "sentence": []})
    return SimpleNamespace(
        baseline="CL",
        label_notes=list(oracles),
        headroom=headroom,
        names=names or {},
        table_notes=[],
    )


def tidy(measured, values, **columns):
    """Tidy rows of one measurement on the test split from {objective: values by seed}."""
    constant = {
        "study": "small",
        "dataset": "d",
        "split": "test",
        "variant": "{}",
        **measured._asdict(),
    } | columns
    return to_table(
        {
            **constant,
            "objective": objective,
            "seed": seed,
            "run": f"{objective}-{seed}",
            "value": value,
        }
        for objective, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    )


def numbers(text):
    """The numbers in a text, except the level of its intervals."""
    return [
        float(number)
        for number in re.findall(r"[+-]?\d+(?:\.\d+)?", text.replace("95 %", "").replace("−", "-"))
    ]


def assert_footnote_inside(figure):
    """The footnote is inside the figure, at the resolutions of PNG and PDF, and below all axes."""
    note = next(text for text in figure.findobj(Text) if text.get_text() == figure.get_supxlabel())
    figure.draw_without_rendering()
    box = note.get_window_extent()
    assert all(plot.get_position().height > 0 for plot in figure.axes)
    assert all(plot.get_tightbbox().y0 >= box.y1 - 1 for plot in figure.axes if plot.axison)
    assert box.y0 >= 0
    for dpi in (72, 200):
        figure.set_dpi(dpi)
        box = note.get_window_extent(FigureCanvasAgg(figure).get_renderer())
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def run_id(dataset, objective, seed):
    """A run id in the format of the store."""
    return hashlib.sha256(f"{dataset} {objective} {seed}".encode()).hexdigest()[:12]


def curves(datasets=("fraction=0.1", "fraction=0.5"), gains=GAINS, seeds=8, epochs=60):
    """Training curves; only the debiased objectives have a bound and an estimate."""
    generator = np.random.default_rng(1)
    epoch = np.arange(1, epochs + 1)
    tables = []
    for dataset in datasets:
        for place, objective in enumerate(gains):
            for seed in range(seeds):
                noise = generator.normal(0, 0.02)
                table = {
                    "study": "small",
                    "dataset": dataset,
                    "objective": objective,
                    "condition": "{}",
                    "variant": "{}",
                    "seed": seed,
                    "run": run_id(dataset, objective, seed),
                    "epoch": epoch,
                    "loss": 4.2 + 0.9 * np.exp(-epoch / 9) - 0.12 * place + noise,
                    "same-class to positive ratio common": 1
                    - 0.25 * (1 - np.exp(-epoch / 15))
                    + noise / 3,
                    "same-class to positive ratio rare": 1
                    - 0.1 * (1 - np.exp(-epoch / 15))
                    + noise / 3,
                    "true mean common": 0.98 + noise / 5,
                    "true mean rare": 0.99 + noise / 5,
                }
                if objective.startswith("DCL"):
                    for group, top in (("common", 0.05 * place), ("rare", 0.02 * place)):
                        table[f"share at bound {group}"] = (
                            top * (1 - np.exp(-epoch / 20)) * (1 + noise)
                        )
                        table[f"estimated mean {group}"] = (
                            1 - 0.12 * place * (1 - np.exp(-epoch / 20)) + noise / 2
                        )
                tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def coordinates(dataset="fraction=0.1", objectives=("CL", "DCL-high", "DCL-true"), images=600):
    """Two-dimensional points in ten clusters per objective."""
    generator = np.random.default_rng(2)
    tables = []
    for objective in objectives:
        label = generator.integers(0, 10, images)
        centre = generator.normal(0, 30, (10, 2))[label]
        points = centre + generator.normal(0, 6, (images, 2))
        table = {"dataset": dataset, "objective": objective, "x": points[:, 0], "y": points[:, 1]}
        table["silhouette"] = np.linspace(-0.5, 0.9, images)
        tables.append(pd.DataFrame({**table, "label": label, "rare": label >= 5}))
    return pd.concat(tables, ignore_index=True)


def likelihoods():
    """Points, summary and calibration of two scorers: one for which the assumption holds, one that
    is noise.
    """
    generator = np.random.default_rng(0)
    group = generator.integers(0, 12, 300)
    log_rho = np.log((group + 1) / 80)
    frames = []
    for scorer in ("masked LM", "length"):
        likelihood = (
            (log_rho - np.log(0.2)) / 0.35
            if scorer == "masked LM"
            else -generator.integers(2, 30, 300).astype(float)
        )
        columns = {
            "corpus": "phantom",
            "scorer": scorer,
            "class": group.astype(str),
            "finding": group > 3,
            "log_class_probability": log_rho,
            "log_likelihood": likelihood,
            "tokens": 5,
            "count": generator.integers(1, 9, 300),
        }
        frames.append(pd.DataFrame(columns))
    points = pd.concat(frames, ignore_index=True)
    return points, *summarise(points, seed=0, draws=100)
