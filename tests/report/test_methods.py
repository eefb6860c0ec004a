"""What is said of each method: at equal temperature, untested, asked for at another temperature, or
measured for one class.
"""

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy import stats
from test_summary import summarised
from tests.evaluation.texts.test_text_rows import LABELLED, text_study

from trueneg.config.reading import load_configuration
from trueneg.report import registry
from trueneg.report.advice import advice
from trueneg.report.claims import over_untrained
from trueneg.report.findings import against_no_training, sentence
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.methods import gains, of_methods
from trueneg.stats.measurement import Measurement

KNN = Measurement("knn", "accuracy", "seen")
NOISE = np.array([0.001, -0.002, 0.0, 0.001, 0.002, -0.001, 0.0, -0.001])
COLD = {"name": "cl", "logit_scale": 50}
HCL = {"name": "hcl", "class_probability": 0.1, "beta": 1.0}


def gathered(folder, values, objectives=(), primary=(), measured=(KNN,), **changes):
    """A summarised text study: in each seed, an objective's value is CL's plus its gain."""
    settings = text_study(LABELLED, seeds=len(NOISE), **changes)
    settings["objectives"] |= dict(objectives)
    settings["primary"] |= dict(primary)
    base = 0.5 + 0.01 * np.arange(len(NOISE))
    of_seeds = {
        name: base + gain + np.roll(NOISE, number)
        for number, (name, gain) in enumerate(values.items())
    }
    rows = pd.concat([synthetic.tidy(each, of_seeds, dataset="text_table") for each in measured])
    chance = rows[rows["group"].isna()].assign(metric="chance", value=0)
    rows = pd.concat([rows, rows.assign(split="validation"), chance])
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"].model_dump()
    curves = pd.DataFrame({"objective": ["CL"], "seed": [0], "epoch": [1], "loss": [1.0]})
    summarised(folder / "artefacts", study, rows, curves)
    (folder / "artefacts" / "runs.json").write_text("[]")
    return Gathered(folder / "artefacts")


def made(of, name):
    return registry.tables_by_name(of.study)[name].made(of)


def test_a_treatment_at_another_temperature_is_compared_with_the_baseline(tmp_path):
    """Its baseline at equal temperature would be itself."""
    values = {"untrained": 0.0, "CL": 0.1, "CL-cold": 0.12, "DCL": 0.1}
    of = gathered(tmp_path, values, {"CL-cold": COLD}, {"treatment": "CL-cold"})
    assert "CL-cold gains 2.0 points over CL in" in sentence(of)
    assert advice(of).name == "CL-cold"
    assert gains(of)["CL-cold"]["difference"] == pytest.approx(0.02, abs=1e-3)
    registry.figures_by_name(of.study)["gains"].made(of)


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [
        (0.0, "worse at equal temperature"),
        (0.01, "worse at equal temperature"),
        (0.02, "better at another temperature"),
        (0.03, "better"),
    ],
)
def test_the_outcome_agrees_with_the_gain_beside_it(tmp_path, gain, outcome):
    """CL gains 2 points at the temperature of DCL."""
    dcl = {"name": "dcl", "class_probability": 0.1, "logit_scale": 50}
    values = {"untrained": 0.0, "CL": 0.1, "CL-cold": 0.12, "DCL": 0.1 + gain, "HCL": 0.1}
    objectives = {"CL-cold": COLD, "DCL": dcl, "HCL": HCL}
    primary = {"treatment": "HCL", "margin": 0.005}
    of = gathered(tmp_path, values, objectives, primary)
    found = gains(of)["DCL"]
    assert (found["baseline"], found["outcome"]) == ("CL-cold", outcome)
    (said, *_) = of_methods(of)
    assert "DCL" in said
    line = next(cells for _, name, cells in made(of, "methods").lines if name == "DCL")
    assert line[0].text == outcome


def test_a_method_without_a_test_is_listed(tmp_path):
    values = {"untrained": 0.0, "CL": 0.1, "DCL": 0.12, "HCL": 0.15}
    untested = [{"treatment": "HCL", "baseline": "CL", "family": None}]
    of = gathered(tmp_path, values, {"HCL": HCL}, contrasts=untested)
    (said, *_) = of_methods(of)
    assert said == "Of 1 other method, after Holm's correction: not tested: HCL."


def test_the_tables_have_the_primary_measurement_of_a_group(tmp_path):
    group = "macro"
    primary = KNN._replace(group=group)
    values = {"untrained": 0.0, "CL": 0.1, "DCL": 0.12}
    of = gathered(tmp_path, values, primary={"group": group}, measured=(KNN, primary))
    shown = made(of, "differences").values
    assert group in {*shown["group"]}
    assert not shown.loc[shown["group"] == group, "exploratory"].all()
    assert group in {*made(of, "texts").values["group"]}


def test_comparisons_with_no_training_are_corrected_as_a_family(tmp_path):
    of = gathered(tmp_path, {"untrained": 0.0, "CL": 0.0019, "DCL": 0.0016})
    rows = compared_rows(of)
    alone = of.primary.rows_of(rows).set_index("seed").query("objective != 'DCL'")
    values = [alone.query("objective == @name")["value"] for name in ("CL", "untrained")]
    p = stats.ttest_rel(*(each.sort_index() for each in values)).pvalue
    found = over_untrained(of.study, rows, of.dataset)
    assert 0.025 < p < 0.05
    assert [row["p"] for row in found.values()] == pytest.approx([2 * p, 2 * p])
    assert {row["outcome"] for row in found.values()} == {"undecided"}
    said = against_no_training(of.study, rows, of.dataset)
    assert len(said) == 2
    assert all(each.endswith(", after Holm's correction over 2 objectives.") for each in said)
