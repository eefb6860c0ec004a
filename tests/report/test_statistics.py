"""Every statistic that a study shows equals that of scipy or statsmodels, computed anew from its rows."""

import functools
import gc
import json

import numpy as np
import pandas as pd
import pytest
import synthetic_pairs
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import tt_solve_power
from statsmodels.stats.weightstats import ttost_paired

from trueneg.report import catalogue, formats
from trueneg.report.gathered import Gathered

MARGIN = 0.03
KEYS = ["task", "metric", "labels", "fraction", "direction", "k", "group"]
AUC = ("zero-shot", "AUC", None, None, None, None, None)  # the primary measurement
CONTRASTS = [{"treatment": "DCL-LM", "baseline": "DCL"}, {"treatment": "same", "baseline": "ReCo"}]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "small" / "artefacts"
    primary = synthetic_pairs.settings()["primary"] | {"margin": MARGIN}
    synthetic_pairs.write(folder, synthetic_pairs.settings(primary=primary, contrasts=CONTRASTS, published=[]))
    return folder


@pytest.fixture(scope="module")
def values(study):
    """Values by seed of each objective, by the key columns of its measurement; means over directions and k are made here."""
    rows = pd.read_parquet(study / "rows.parquet")
    chosen = pd.DataFrame(json.loads((study / "comparison.json").read_text())["selection"])[["objective", "variant"]]
    rows = rows[rows["split"] == "test"].merge(chosen)
    recalls = rows[(rows["metric"] == "R") & rows["k"].notna()]
    parts = [rows, recalls.assign(direction=None), recalls.assign(k=None)]
    found = {}
    for part in parts:
        pooled = part.groupby([*KEYS, "objective", "seed"], dropna=False)["value"].mean().reset_index()
        for *key, objective, of_seeds in ((*names, group) for names, group in pooled.groupby([*KEYS, "objective"], dropna=False)):
            found[_plain(key), objective] = of_seeds.sort_values("seed")["value"].to_numpy()
    return found


def _plain(key):
    return tuple(None if pd.isna(value) else value for value in key)


@functools.cache
def multiplier(seeds):
    return tt_solve_power(nobs=seeds, alpha=0.05, power=0.8)


def expected_of(own, baseline, has_margin):
    differences, test = own - baseline, stats.ttest_rel(own, baseline)
    low, high = test.confidence_interval(0.95)
    spread = differences.std(ddof=1)
    return {
        "difference": differences.mean(),
        "difference low": low,
        "difference high": high,
        "standard deviation": spread,
        "correlation": stats.pearsonr(own, baseline).statistic,
        "minimum detectable": multiplier(len(own)) * spread,
        "p": test.pvalue,
        "p signed-rank": stats.wilcoxon(differences, method="exact").pvalue,
        "p equivalence": ttost_paired(own, baseline, -MARGIN, MARGIN)[0] if has_margin else np.nan,
    }


def outcome_of(row):
    """The three outcomes, said once more."""
    if row["p Holm"] < 0.05:
        gain = -row["difference"] if row["metric"] == "MedR" else row["difference"]
        return ("better" if gain > 0 else "worse") + (" by less than the margin" if row["p equivalence"] < 0.05 else "")
    return "equivalent" if row["p equivalence"] < 0.05 else "undecided"


def test_the_tables_hold_the_statistics_of_scipy_and_statsmodels(study, values, tmp_path, monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: 0)  # multipletests calls it each time
    gathered, expected, outcomes = Gathered(study), {}, set()
    compared = {name: one for name, one in catalogue.tables_by_name(gathered.study).items() if name != "candidates"}
    for name, drawing in compared.items():
        formats.save(drawing.made(gathered), tmp_path / name, "")
        table = pd.read_csv(tmp_path / f"{name}.csv")
        if "baseline" not in table:  # only the table of contrasts has more than one
            table["baseline"] = "CL"
        for row in table.to_dict("records"):
            key = _plain(row[column] for column in KEYS)
            own = values[key, row["objective"]]
            half = stats.t.ppf(0.975, len(own) - 1) * stats.sem(own)
            np.testing.assert_allclose(
                [row["mean"], row["low"], row["high"]], own.mean() + half * np.array([0, -1, 1]), rtol=1e-9
            )
            if row["objective"] == row["baseline"]:
                continue
            place = key, row["objective"], row["baseline"]
            if place not in expected:  # most comparisons are in two tables
                expected[place] = expected_of(own, values[key, row["baseline"]], key == AUC)
            found = [row[statistic] for statistic in expected[place]]
            np.testing.assert_allclose(found, list(expected[place].values()), rtol=1e-5, atol=1e-9, err_msg=f"{name} {key}")
            assert row["outcome"] == outcome_of(row)
            outcomes.add(row["outcome"])
        tested = table[table["objective"] != table["baseline"]]
        for key, family in tested.groupby(KEYS, dropna=False):
            alone = (family["objective"] == "DCL-LM") & (family["baseline"] == "CL") & (_plain(key) == AUC)
            others = family[~alone]
            np.testing.assert_allclose(others["p Holm"], multipletests(others["p"], method="holm")[1])
            np.testing.assert_allclose(family.loc[alone, "p Holm"], family.loc[alone, "p"])
    assert len(expected) > 400
    assert {"better", "worse", "undecided", "equivalent"} <= outcomes


def test_the_record_of_a_comparison_holds_the_statistics_of_scipy_and_statsmodels(study, values):
    comparison = json.loads((study / "comparison.json").read_text())
    cl, treatment, oracle = (values[AUC, name] for name in ("CL", "DCL-LM", "Oracle"))
    expected = expected_of(treatment, cl, True)
    primary = comparison["primary"] | {f"difference {end}": comparison["primary"][end] for end in ("low", "high")}
    np.testing.assert_allclose([primary[name] for name in expected], list(expected.values()), rtol=1e-5)
    assert primary["outcome"] == outcome_of(primary | {"p Holm": primary["p"]})
    (labelled,) = comparison["headroom"]
    gain = stats.ttest_rel(oracle, cl)
    found = [labelled[name] for name in ("difference", "low", "high", "baseline mean")]
    np.testing.assert_allclose(found, [(oracle - cl).mean(), *gain.confidence_interval(0.95), cl.mean()], rtol=1e-9)
    assert labelled["label"] == "clear headroom"
