"""Every published number is in a table of a shipped study, next to the corresponding
measurement.
"""

import csv

import pytest
from tests.declared import declared_means
from tests.projects import ROOT, SHIPPED

from trueneg.config.reading import read_configuration
from trueneg.errors import UserError
from trueneg.report.published import PLACE, published_numbers
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.tasks import comparable
from trueneg.stats.measurement import Measurement

PUBLISHED = ROOT / "config/published.csv"
SSD = "sample-specific-debiasing"


@pytest.fixture(scope="module")
def shipped():
    """Shipped studies that name published tables, with their numbers, by name."""
    studies = {}
    for path in SHIPPED:
        for name, study in read_configuration([path]).studies.items():
            if isinstance(study, TrainedStudy) and study.published:
                studies[name] = study, published_numbers(study, PUBLISHED)
    return studies


def test_every_published_number_is_in_a_table_of_a_shipped_study(shipped):
    columns = ["paper", "table", "method", *PLACE, "printed"]
    shown = {
        tuple(row)
        for _, numbers in shipped.values()
        for row in numbers[columns].itertuples(index=False)
    }
    with PUBLISHED.open() as file:
        for row in csv.DictReader(file):
            assert (
                tuple(
                    row[column]
                    for column in ("paper", "table", "method", "task", "setting", "metric", "value")
                )
                in shown
            )


def test_published_numbers_of_an_objective_are_measured_by_their_study(shipped):
    for study, numbers in shipped.values():
        measured = declared_means(comparable(study))
        for row in numbers.dropna(subset=["objective", "dataset"]).to_dict("records"):
            assert Measurement.of(row)._replace(group=None) in measured, row


def test_table_1_of_ssd_has_six_numbers_for_each_of_nine_methods(shipped):
    _, numbers = shipped["mimic_cxr"]
    table = numbers[(numbers["paper"] == SSD) & (numbers["table"] == "Table 1")]
    assert table["method"].value_counts().to_dict() == dict.fromkeys(table["method"], 6)
    assert table["method"].nunique() == 9
    ours = dict(zip(table["method"], table["objective"], strict=True))
    assert (ours["LSE+NL"], ours["DCL eta_LM"], ours["DCL eta=0.05"]) == (
        "LSE+NL",
        "DCL-LM",
        "DCL,class_probability=0.05",
    )
    recalls = table[(table["metric"] == "R") & (table["method"] == "DCL eta_LM")]
    assert recalls[["task", "labels", "value"]].values.tolist() == [
        ["region retrieval", "pair", 0.3]
    ]


def test_percentages_become_fractions_and_numbers_are_assigned_to_conditions(shipped):
    _, numbers = shipped["bcl_cifar10"]
    (row,) = numbers[
        (numbers["objective"] == "BCL-paper") & (numbers["setting"] == "N=254")
    ].to_dict("records")
    assert row["value"] == pytest.approx(0.9187)
    assert (row["dataset"], row["method"], row["fraction"]) == ("batch_size=128", "BCL", 1)
    _, small = shipped["bcl_cifar10_small"]  # two of the five conditions
    assert small["dataset"].notna().mean() == pytest.approx(2 / 5)


def test_a_number_is_assigned_to_every_objective_of_its_method(shipped):
    study, _ = shipped["bcl_cifar10"]
    changed = study.published[0].model_copy(
        update={"methods": {"BCL-paper": "BCL", "BCL-released": "BCL"}}
    )
    numbers = published_numbers(study.model_copy(update={"published": [changed]}), PUBLISHED)
    beside = {method: set(rows["objective"].dropna()) for method, rows in numbers.groupby("method")}
    # DCL and HCL have the names of their methods; CL has another, which is not listed here.
    assert beside == {
        "BCL": {"BCL-paper", "BCL-released"},
        "DCL": {"DCL"},
        "HCL": {"HCL"},
        "SimCLR": set(),
    }
    _, small = shipped["bcl_cifar10_small"]
    # a condition that is not trained has no objectives
    assert small["objective"].isna().eq(small["dataset"].isna()).all()
    assert len(small) == 4 * 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"paper": "a paper"},
        {"tables": ["Table 9"]},
        {"task": "a task"},
        {"methods": {"LSE+NL": "a method"}},
        {"settings": {"mimic_cxr": "a setting"}},
    ],
)
def test_an_unknown_name_is_reported_with_the_known_ones(shipped, wrong):
    study, _ = shipped["mimic_cxr"]
    changed = study.published[0].model_copy(update=wrong)
    with pytest.raises(UserError) as refused:
        published_numbers(study.model_copy(update={"published": [changed]}), PUBLISHED)
    ((key, value),) = wrong.items()
    named = (
        value
        if isinstance(value, str)
        else next(iter(value))
        if isinstance(value, list)
        else value.popitem()[1]
    )
    expected = {
        "paper": SSD,
        "tables": "Table 3",
        "task": "grounding",
        "methods": "BioViL",
        "settings": "Edema",
    }[key]
    assert all(part in str(refused.value) for part in ("published.csv", repr(named), expected))
