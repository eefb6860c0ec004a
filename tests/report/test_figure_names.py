"""Each figure's name, heading and content match."""

import json
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from typing import get_args

import pandas as pd
import pytest
import synthetic
from tests.projects import SHIPPED
from tests.studies import tiny_study

from trueneg.config.reading import read_configuration
from trueneg.report import registry
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures.by_condition import (
    CONDITIONS,
    by_label_fraction,
    draw_by_place,
)
from trueneg.report.figures.embedding import embedding
from trueneg.report.figures.gains import draw as draw_gains
from trueneg.report.figures.monitors import GROUPS, by_objective, true_negative_mean
from trueneg.report.gathered import RESPLIT, Gathered
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.tasks.images import LabelPool
from trueneg.stats.measurement import Measurement

KNN = Measurement("knn", "accuracy", "all")
SIZES = {"batch_size=32": 62, "batch_size=64": 126}  # negatives of an anchor: 2B − 2
TEMPERATURES = {"temperature=0.1": 0.1, "temperature=0.5": 0.5}
PLACES = {
    "fraction=0.1": synthetic.FRACTIONS,
    "batch_size=64": SIZES,
    "temperature=0.5": TEMPERATURES,
}
BASE = tiny_study()
SWEPT = {
    "fraction=0.1": {
        "dataset": BASE["dataset"] | {"fraction": list(synthetic.FRACTIONS.values())},
        "figures": {"embedding": {"objectives": ["CL", "DCL-true"]}, "label_fractions": {}},
    },
    "batch_size=64": {
        "training": BASE["training"] | {"batch_size": [32, 64]},
        "conditions": ["batch_size"],
        "figures": {"embedding": {"objectives": ["CL", "DCL-true"]}, "label_fractions": {}},
    },
    "temperature=0.5": {
        "training": BASE["training"] | {"temperature": list(TEMPERATURES.values())},
        "conditions": ["temperature"],
        "figures": {"embedding": {"objectives": ["CL", "DCL-true"]}, "label_fractions": {}},
    },
}


def study_of(dataset):
    """An image study that sweeps r, the batch size or the temperature, with its primary data
    set.
    """
    return ImageStudy.model_validate(
        tiny_study(**SWEPT[dataset], primary=BASE["primary"] | {"dataset": dataset})
    )


def written(dataset, folder):
    """Write the artefacts of that study; return its rows, curves and coordinates."""
    rows = synthetic.rows(PLACES[dataset], seeds=3)
    probe = rows[rows["task"] == "linear probe"]
    rows = pd.concat(
        [rows, probe.assign(labels="imbalanced", value=probe["value"] - 0.1)], ignore_index=True
    )
    curves, coordinates = (
        synthetic.curves([dataset], seeds=3, epochs=12),
        synthetic.coordinates(dataset, ["CL", "DCL-true"]),
    )
    (folder / "embedding" / dataset).mkdir(parents=True)
    (folder / "study.yaml").write_text(study_of(dataset).model_dump_json())
    selection = rows[["dataset", "objective", "variant"]].drop_duplicates().assign(candidates=1)
    primary = KNN._asdict() | {"answer": "", "outcome": "undecided"}
    comparison = {
        "headroom": [],
        "selection": selection.to_dict("records"),
        "primary": primary,
        "seeds": 3,
        "selected by": {},
    }
    (folder / "comparison.json").write_text(json.dumps(comparison))
    rows.to_parquet(folder / "rows.parquet")
    curves.to_parquet(folder / "curves.parquet")
    for objective, points in coordinates.groupby("objective"):
        points.to_parquet(folder / "embedding" / dataset / f"{objective}.parquet")
    return rows, curves, coordinates


def expected_of(dataset, rows, curves, coordinates, folder=None):
    """The function that draws each figure of image studies, by the figure's name."""
    bound, ratio = "share at bound", "same-class to positive ratio"
    gathered = SimpleNamespace(
        rows=rows, curves=curves, dataset=dataset, baseline="CL", primary=KNN, study_note=""
    )
    gathered.note_on, gathered.read = lambda *drawn: "", lambda *files: coordinates
    drawers = {
        "gains": lambda: draw_gains(Gathered(folder)),
        "embedding": partial(embedding, gathered, []),
        "training_loss": partial(by_objective, gathered, "loss", "Loss (nats)"),
        "share_at_bound": partial(
            by_objective, gathered, bound, "Anchors at the bound (%)", groups=GROUPS, factor=100
        ),
        "same_class_ratio": partial(
            by_objective, gathered, ratio, "Same-class / positive", groups=GROUPS
        ),
        "true_negative_mean": partial(true_negative_mean, gathered),
    }
    for end, baseline in (("", None), ("_differences", "CL")):
        by_place = partial(draw_by_place, rows, baseline=baseline)
        drawers[f"primary_by_fraction{end}"] = partial(
            by_place, places=synthetic.FRACTIONS, measured=[KNN]
        )
        drawers[f"primary_by_negatives{end}"] = partial(
            by_place, places=SIZES, measured=[KNN], axis=CONDITIONS["batch_size"][1]
        )
        drawers[f"primary_by_temperature{end}"] = partial(
            by_place, places=TEMPERATURES, measured=[KNN], axis=CONDITIONS["temperature"][1]
        )
        for pool in get_args(LabelPool):
            probe = Measurement("linear probe", "accuracy", pool, 1.0)
            drawers[f"probe_by_fraction_{pool}_labels{end}"] = partial(
                by_place, places=synthetic.FRACTIONS, measured=[probe]
            )
            of_labels = partial(by_label_fraction, gathered, baseline, dataset, probe)
            drawers[f"probe_by_label_fraction_{pool}_labels{end}"] = of_labels
    return drawers


def shown(figure):
    """The parts of a figure that distinguish it: axis labels, footnote and values."""
    axes = figure.axes[0]
    note = footnote(figure).removesuffix(RESPLIT).rstrip()  # the note on seeds belongs to the study
    return axes.get_xlabel(), axes.get_ylabel(), note, alternative_text(figure)


@pytest.mark.parametrize("dataset", SWEPT)
def test_each_figure_of_an_image_study_shows_what_its_name_states(dataset, tmp_path):
    expected, drawings = (
        expected_of(dataset, *written(dataset, tmp_path), tmp_path),
        registry.figures_by_name(study_of(dataset)),
    )
    figures = {name: shown(drawing.made(Gathered(tmp_path))) for name, drawing in drawings.items()}
    for name, figure in figures.items():
        assert figure == shown(expected[name]())
    assert len(set(figures.values())) == len(drawings)


@pytest.mark.long
@pytest.mark.parametrize("dataset", SWEPT)
def test_long_footnotes_stay_inside_every_figure_of_an_image_study(dataset, tmp_path):
    written(dataset, tmp_path)
    gathered = Gathered(tmp_path)
    gathered.study = gathered.study.model_copy(update={"note": synthetic.LONG_NOTE})
    for drawing in registry.figures_by_name(gathered.study).values():
        synthetic.assert_footnote_inside(drawing.made(gathered))


def test_the_studies_above_have_all_figures_of_image_studies():
    listed = {name for dataset in SWEPT for name in registry.figures_by_name(study_of(dataset))}
    assert listed == expected_of("", pd.DataFrame(), pd.DataFrame(), pd.DataFrame()).keys()


@pytest.mark.parametrize("file", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_drawings_of_shipped_studies_have_distinct_headings_and_one_headline_figure(file):
    for study in read_configuration([file]).studies.values():
        figures, tables = registry.figures_by_name(study), registry.tables_by_name(study)
        for drawings in (figures, tables):
            assert len({(drawing.title, drawing.caption) for drawing in drawings.values()}) == len(
                drawings
            )
            assert all(
                drawing.title and drawing.caption.endswith((".", "?"))
                for drawing in drawings.values()
            )
        assert sum(drawing.headline for drawing in figures.values()) == bool(figures)


def test_listing_names_imports_no_plotting_or_training_library():
    code = (
        "import sys, trueneg.report.registry; sys.exit(bool({'matplotlib', 'seaborn', 'torch'} &"
        " set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
