"""Every statistic that a study shows equals the one that scipy or statsmodels computes from its
rows.
"""

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

from trueneg.report import formats, registry
from trueneg.report.gathered import Gathered

MARGIN = 0.03
KEYS = ["task", "metric", "labels", "fraction", "direction", "k", "group"]
AUC = ("zero-shot", "AUC", None, None, None, None, None)  # the primary measurement
CONTRASTS = [
    {"treatment": "DCL-LM", "baseline": "DCL", "family": "controls"},
    {"treatment": "same", "baseline": "ReCo", "family": "controls"},
    {"treatment": "Oracle", "baseline": "CL", "family": "oracle"},
    {"treatment": "same", "baseline": "CL", "family": None},
]
MINUS = {
    "treatment": "Oracle",
    "baseline": "CL",
    "family": "oracle",
    "minus": {"treatment": "same", "baseline": "DCL"},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "small" / "artefacts"
    primary = synthetic_pairs.settings()["primary"] | {"margin": MARGIN}
    synthetic_pairs.write(
        folder,
        synthetic_pairs.settings(primary=primary, contrasts=[*CONTRASTS, MINUS], published=[]),
        gains=synthetic_pairs.GAINS | {"ReCo": -0.03},
    )
    return folder


@pytest.fixture(scope="module")
def values(study):
    """Values by seed for each measurement and objective, with independently computed means over
    directions and k.
    """
    rows = pd.read_parquet(study / "rows.parquet")
    chosen = pd.DataFrame(json.loads((study / "comparison.json").read_text())["selection"])[
        ["objective", "variant"]
    ]
    rows = rows[rows["split"] == "test"].merge(chosen)
    recalls = rows[(rows["metric"] == "R") & rows["k"].notna()]
    by_key = {}
    for part in (rows, recalls.assign(direction=None), recalls.assign(k=None)):
        pooled = (
            part.groupby([*KEYS, "objective", "seed"], dropna=False)["value"].mean().reset_index()
        )
        for *key, objective, of_seeds in (
            (*names, group) for names, group in pooled.groupby([*KEYS, "objective"], dropna=False)
        ):
            by_key[_plain(key), objective] = of_seeds.sort_values("seed")["value"].to_numpy()
    return by_key


def _plain(key):
    return tuple(None if pd.isna(value) else value for value in key)


@functools.cache
def multiplier(seeds, comparisons=1):
    return tt_solve_power(nobs=seeds, alpha=0.05 / comparisons, power=0.8)


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


# tables without one paired difference per row
SUMMARIES = ("candidates", "eta_quality", "methods")


def outcome_of(row):
    """An independent definition of the outcome."""
    if pd.isna(row["family"]):
        return "interval only"
    p_equivalence = row.get("p equivalence Holm", row["p equivalence"])
    if row["p Holm"] < 0.05:
        gain = -row["difference"] if row["metric"] == "MedR" else row["difference"]
        return ("better" if gain > 0 else "worse") + (
            " by less than the margin" if p_equivalence < 0.05 else ""
        )
    return "equivalent" if p_equivalence < 0.05 else "undecided"


def test_tables_contain_the_statistics_of_scipy_and_statsmodels(
    study, values, tmp_path, monkeypatch
):
    monkeypatch.setattr(gc, "collect", lambda: 0)  # multipletests calls it each time
    gathered, expected, outcomes = Gathered(study), {}, set()
    families = {(one["treatment"], one["baseline"]): one["family"] for one in CONTRASTS}
    named = registry.tables_by_name(gathered.study).items()
    compared = {name: one for name, one in named if name not in SUMMARIES}
    whole = compared["differences"].made(gathered).values  # it holds whole families
    members = whole[whole["family"].notna()].groupby([*KEYS, "family"], dropna=False).size()
    sizes = {(_plain(key), family): size for (*key, family), size in members.items()}
    for name, drawing in compared.items():
        formats.save(drawing.made(gathered), tmp_path / name, "")
        table = pd.read_csv(tmp_path / f"{name}.csv")
        if "baseline" not in table:  # tables of means beside the differences from one baseline
            table["baseline"], table["contrast"] = "CL", table["objective"] + " − CL"
        for row in table.to_dict("records"):
            key = _plain(row[column] for column in KEYS)
            own, baseline = values[key, row["objective"]], values[key, row["baseline"]]
            if "low" in row:
                half = stats.t.ppf(0.975, len(own) - 1) * stats.sem(own)
                level = own.mean() + half * np.array([0, -1, 1])
                np.testing.assert_allclose([row["mean"], row["low"], row["high"]], level, rtol=1e-9)
            if row["objective"] == row["baseline"]:
                continue
            is_double = row["contrast"].startswith("(")
            if is_double:
                own, baseline = own - values[key, "same"], baseline - values[key, "DCL"]
            is_primary = not is_double and (row["objective"], row["baseline"], key) == (
                "DCL-LM",
                "CL",
                AUC,
            )
            own_family = families.get((row["objective"], row["baseline"]), "others")
            assert _plain([row["family"]]) == ("primary" if is_primary else own_family,)
            place = key, row["contrast"]
            if place not in expected:  # most comparisons are in two tables
                expected[place] = expected_of(own, baseline, key == AUC)
            wanted = {
                column: value
                for column, value in expected[place].items()
                if own_family is not None or column[0] != "p"
            }
            # of a family's first Holm step
            wanted["minimum detectable"] *= multiplier(
                len(own), sizes.get((key, row["family"]), 1)
            ) / multiplier(len(own))
            np.testing.assert_allclose(
                [row[column] for column in wanted],
                list(wanted.values()),
                rtol=1e-5,
                atol=1e-9,
                err_msg=f"{name} {place}",
            )
            assert row["outcome"] == outcome_of(row)
            assert row["exploratory"] == (
                own_family is not None
                and (key != AUC or (own_family == "others" and not is_primary))
            )
            outcomes.add(row["outcome"])
        if name == "differences":  # it holds whole families
            for _, members in table[table["family"].notna()].groupby(
                [*KEYS, "family"], dropna=False
            ):
                for test in ("p", "p equivalence"):
                    if members[test].notna().all():
                        np.testing.assert_allclose(
                            members[f"{test} Holm"], multipletests(members[test], method="holm")[1]
                        )
    assert len(expected) > 400
    assert {"better", "worse", "undecided", "equivalent", "interval only"} <= outcomes


def test_the_comparison_record_contains_the_statistics_of_scipy_and_statsmodels(study, values):
    comparison = json.loads((study / "comparison.json").read_text())
    cl, treatment, oracle = (values[AUC, name] for name in ("CL", "DCL-LM", "Oracle"))
    expected = expected_of(treatment, cl, True)
    primary = comparison["primary"] | {
        f"difference {end}": comparison["primary"][end] for end in ("low", "high")
    }
    np.testing.assert_allclose(
        [primary[name] for name in expected], list(expected.values()), rtol=1e-5
    )
    assert primary["outcome"] == outcome_of(primary | {"p Holm": primary["p"], "family": "primary"})
    (labelled,) = comparison["headroom"]
    gain = stats.ttest_rel(oracle, cl)
    shown = [labelled[name] for name in ("difference", "low", "high", "baseline mean")]
    np.testing.assert_allclose(
        shown, [(oracle - cl).mean(), *gain.confidence_interval(0.95), cl.mean()], rtol=1e-9
    )
    assert labelled["label"] == "clear headroom"
