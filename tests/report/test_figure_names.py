"""Figures and tables are found by their exact names, and each name draws what it says."""

from functools import partial
from types import SimpleNamespace
from typing import get_args

import pandas as pd
import pytest
import synthetic
import yaml
from tests.projects import ROOT
from tests.studies import tiny_study

from trueneg.config.image_study import ImageStudy
from trueneg.config.reading import read_configuration
from trueneg.errors import UserError
from trueneg.report import build, catalogue, figures, image_study
from trueneg.report import curves as curve_figures
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.gathered import Gathered
from trueneg.specs.tasks.images import LabelPool
from trueneg.stats.measurement import Measurement

KNN = Measurement("knn", "accuracy", "all")
FILES = [ROOT / "config/config.yaml", *sorted((ROOT / "config/studies").glob("*.yaml"))]
SIZES = {"batch_size=32": 62, "batch_size=64": 126}  # negatives of an anchor: 2B − 2
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
}
NO_FIGURES = ["embedding_by_seed", "embedding_differences", "class_groups_by_r", "probe_by_fraction_all", "embeddin", "accuracy"]
NO_TABLES = ["accuracy_by_seed", "differences_differences", "published", "embedding"]


def gathered_of(dataset):
    """An image study that sweeps r or the batch size; `dataset` is its primary one."""
    study = ImageStudy.model_validate(tiny_study(**SWEPT[dataset], primary=BASE["primary"] | {"dataset": dataset}))
    rows = synthetic.rows(SIZES if dataset in SIZES else synthetic.FRACTIONS, seeds=3)
    probe = rows[rows["task"] == "linear probe"]
    scarce = probe.assign(labels="imbalanced", value=probe["value"] - 0.1)
    rows, curves = pd.concat([rows, scarce], ignore_index=True), synthetic.curves([dataset], seeds=3, epochs=12)
    return Gathered(study, rows, rows, curves, {"selection": [], "gate": []}, pd.DataFrame())


def expected_of(gathered, dataset, coordinates):
    """What draws each figure that an image study can have."""
    rows, curves = gathered.rows, gathered.curves
    found = {
        "class_groups": partial(figures.class_accuracy, rows, dataset, "CL", KNN),
        "embedding": partial(figures.embedding, coordinates, dataset, ["CL", "DCL-true"]),
        "training_loss": partial(curve_figures.training_curves, curves),
        "share_at_bound": partial(curve_figures.share_at_bound, curves),
        "same_class_ratio": partial(curve_figures.same_class_ratio, curves),
        "true_negative_mean": partial(curve_figures.true_negative_mean, curves, dataset),
    }
    twins = (
        ("", figures.accuracy_by_condition, figures.accuracy_by_label_fraction),
        (
            "_differences",
            partial(figures.accuracy_by_condition, baseline="CL"),
            partial(figures.accuracy_by_label_fraction, baseline="CL"),
        ),
    )
    for end, by_place, by_share in twins:
        found[f"primary_by_fraction{end}"] = partial(by_place, rows, synthetic.FRACTIONS, measured=KNN)
        found[f"primary_by_negatives{end}"] = partial(by_place, rows, SIZES, measured=KNN, axis=figures.NEGATIVES_AXIS)
        for pool in get_args(LabelPool):
            probe = Measurement("linear probe", "accuracy", pool, 1.0)
            found[f"probe_by_fraction_{pool}_labels{end}"] = partial(by_place, rows, synthetic.FRACTIONS, measured=probe)
            found[f"probe_by_label_fraction_{pool}_labels{end}"] = partial(by_share, rows, dataset, measured=probe)
    return found


def shown(figure):
    """What tells figures apart: the labels of the axes, what is measured, and the values."""
    axes = figure.axes[0]
    return axes.get_xlabel(), axes.get_ylabel(), footnote(figure), alternative_text(figure)


@pytest.mark.parametrize("dataset", SWEPT)
def test_every_listed_figure_of_an_image_study_draws_what_its_name_says(dataset, tmp_path):
    gathered, coordinates = gathered_of(dataset), synthetic.coordinates(dataset, ["CL", "DCL-true"])
    coordinates.to_parquet(tmp_path / "coordinates.parquet")
    expected = expected_of(gathered, dataset, coordinates)
    names = catalogue.figures_of(gathered.study)
    found = {name: shown(image_study.FIGURES[name].draw(gathered, [tmp_path / "coordinates.parquet"])) for name in names}
    assert found == {name: shown(expected[name]()) for name in names}
    assert len(set(found.values())) == len(names)


def test_the_two_swept_studies_have_every_figure_of_image_studies():
    listed = {name for dataset in SWEPT for name in catalogue.figures_of(gathered_of(dataset).study)}
    assert listed == image_study.FIGURES.keys()


def test_every_figure_and_table_that_a_shipped_study_lists_has_a_heading_of_its_own():
    for file in FILES:
        for study in read_configuration([file]).studies.values():
            heading = build.KINDS[study.kind].heading
            for names in (catalogue.figures_of(study), catalogue.tables_of(study)):
                assert len({heading(name) for name in names}) == len(names)


@pytest.mark.parametrize(("what", "name"), [*(("figure", name) for name in NO_FIGURES), *(("table", name) for name in NO_TABLES)])
def test_a_name_that_the_study_does_not_list_is_refused_with_those_that_it_does(what, name, tmp_path):
    path = tmp_path / "world" / "artefacts" / "study.yaml"
    path.parent.mkdir(parents=True)
    given = tiny_study(**SWEPT["fraction=0.1"], primary=BASE["primary"] | {"dataset": "fraction=0.1"})
    path.write_text(yaml.safe_dump(given))
    make = build.draw_figure if what == "figure" else build.write_table
    with pytest.raises(UserError) as refused:
        make(name, SimpleNamespace(study=path, artefacts=[]), SimpleNamespace())
    study = ImageStudy.model_validate(given)
    known = catalogue.figures_of(study) if what == "figure" else catalogue.tables_of(study)
    assert all(part in str(refused.value) for part in ("world", repr(name), *known))
