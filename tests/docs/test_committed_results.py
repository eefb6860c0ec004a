"""The committed comparisons equal those that scipy and statsmodels make of the committed rows."""

import gc
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import tt_solve_power
from statsmodels.stats.weightstats import ttost_paired

from tests.docs.comparisons import outcome, read
from tests.docs.pages import ROOT
from trueneg.config.reading import read_configuration
from trueneg.io.files import file_checksum
from trueneg.report.findings import finding
from trueneg.store.archive import archives, read_archive, read_description, study_of
from trueneg.store.winners import Decision

KEYS = ["dataset", "task", "metric", "labels", "fraction", "direction", "k", "group"]
NONE = {"labels": "none", "fraction": 0.0, "direction": "none", "k": 0, "group": "all"}
# a column without text is read as float
TEXT = dict.fromkeys(["labels", "direction", "group"], object)
SUFFIX = "_contrasts.csv"
EXPORTED = {
    **{
        name: name
        for name in (
            "digits",
            "digits_untuned",
            "phantom_replication",
            "flickr8k_soft_targets",
            "learned_targets",
            "digits_replication",
            "eta_quality",
        )
    },
    "banking77": "banking77_tuned",
    "banking77_finetune": "banking77_finetune",
    "clinc150": "clinc150_tuned",
    "few_labels": "few_labels",
    "few_labels_48": "few_labels_48",
    "few_labels_dropout": "few_labels_dropout",
    "few_labels_tail": "few_labels_tail",
    "few_labels_8": "few_labels_8",
    "fine_tuning": "fine_tuned_clinc150",
    "fine_tuning_head": "frozen_clinc150",
    "flickr8k_tuned": "flickr8k_tuned",
    "guided_placebos": "guided_placebos",
    "hard_negatives": "hard_negatives",
    "hard_negatives_bm25": "hard_negatives_bm25",
    "hard_negatives_clinc150": "hard_negatives_clinc150",
    "hard_negatives_medquad": "hard_negatives_medquad",
    "open_i_frozen": "open_i_frozen",
    "tuned_baseline": "tuned_baseline_small",
    "tuned_baseline_probe": "tuned_baseline_probe",
}
NAMES = sorted(
    path.name.removesuffix(SUFFIX) for path in (ROOT / "docs/results").glob(f"*{SUFFIX}")
)


def committed(name):
    """The values by seed of each measurement and objective, and the comparisons."""
    rows, contrasts = (pd.read_csv(ROOT / f"docs/results/{name}{end}") for end in (".csv", SUFFIX))
    rows = (
        rows[rows["split"] == "test"]
        .reindex(columns=[*KEYS, "objective", "seed", "value"])
        .astype(TEXT)
        .fillna(NONE)
    )
    values = {
        key: part.set_index("seed")["value"].sort_index()
        for key, part in rows.groupby([*KEYS, "objective"])
    }
    return values, contrasts.astype(TEXT).fillna(NONE)


CLEANED = [f"cleaned_banking77_{file}" for file in ("raw", "filtered", "labelled")]
CLEANED += [f"cleaned_medquad_{file}" for file in ("raw", "filtered")]


@pytest.mark.parametrize(
    ("name", "study"), [*EXPORTED.items(), *(("cleaned_files", study) for study in CLEANED)]
)
def test_committed_numbers_are_those_of_the_exported_rows(name, study):
    rows = read_archive(ROOT / f"evidence/{study}.tar.xz").rows()
    place = ["dataset", "objective", "seed", "split", *KEYS[1:]]
    # float parses every digit
    table = pd.read_csv(ROOT / f"docs/results/{name}.csv", converters={"value": float})
    sides = [table[table["study"] == study] if study in CLEANED else table, rows]
    shown, rows = (
        side.reindex(columns=[*place, "value"]).astype(TEXT).fillna(NONE) for side in sides
    )
    is_mean = shown["metric"].isin(["R", "MedR"]) & (
        (shown["direction"] == "none") | ((shown["metric"] == "R") & (shown["k"] == 0))
    )
    # the means of recalls are not in the rows
    both = shown[~is_mean].merge(rows, on=place, how="left", suffixes=(" shown", ""))
    np.testing.assert_array_equal(both["value shown"], both["value"])
    assert len(both) == len(shown[~is_mean]) > 100


def test_the_evidence_is_small():
    assert sum(path.stat().st_size for path in (ROOT / "evidence").rglob("*")) <= 14e6


@pytest.mark.parametrize("path", archives(ROOT / "evidence"), ids=study_of)
def test_the_evidence_is_complete_and_its_protocol_is_the_committed_file(path):
    described = read_archive(path).description
    assert len(described.blocks) > 2 or described.files
    assert described.missing == {}
    if (protocol := described.protocol) is not None:
        assert file_checksum(ROOT / protocol.file) == protocol.checksum
        assert protocol.commit
        assert protocol.date


@pytest.mark.parametrize(
    "name",
    [
        "banking77",
        "banking77_finetune",
        *CLEANED,
        "clinc150",
        "few_labels",
        "few_labels_48",
        "few_labels_8",
        "few_labels_dropout",
        "few_labels_tail",
        "fine_tuning",
        "fine_tuning_head",
        "flickr8k_soft_targets",
        "flickr8k_tuned",
        "hard_negatives",
        "hard_negatives_bm25",
        "hard_negatives_clinc150",
        "hard_negatives_medquad",
        "open_i_frozen",
        "tuned_baseline",
    ],
)
def test_the_committed_winners_are_those_of_the_evidence(name):
    winners = json.loads((ROOT / f"docs/results/{name}_winners.json").read_text())
    described = read_description(ROOT / f"evidence/{EXPORTED.get(name, name)}.tar.xz")
    assert described.tuning == Decision.of(winners)


@pytest.mark.parametrize("name", NAMES)
def test_committed_comparisons_follow_from_the_committed_rows(name, monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: 0)  # multipletests calls it each time
    values, contrasts = committed(name)
    families = contrasts[contrasts["p"].notna()].groupby([*KEYS, "family"])
    sizes = families.size().to_dict()
    plain = contrasts[~contrasts["contrast"].str.startswith("(")]
    for row in plain.to_dict("records"):
        key = tuple(row[column] for column in KEYS)
        own, baseline = values[(*key, row["objective"])].align(
            values[(*key, row["baseline"])], join="inner"
        )
        differences, test = own - baseline, stats.ttest_rel(own, baseline)
        low, high = test.confidence_interval(0.95)
        spread = differences.std(ddof=1)
        # equal in all seeds, as two objectives may be in kNN: no interval, and an exact sign test
        if spread == 0:
            assert pd.isna(row["difference low"])
            if row["outcome"] != "interval only":
                assert row["p"] == (2 * 0.5 ** len(differences) if differences.any() else 1)
            continue
        level = 0.05 / sizes.get((*key, row["family"]), 1)  # of the first of Holm's steps
        detectable = tt_solve_power(nobs=len(own), alpha=level, power=0.8) * spread
        expected = [len(own), differences.mean(), low, high, spread, detectable]
        found = [
            row[column] for column in ("pairs", "difference", "difference low", "difference high")
        ]
        found += [row["standard deviation"], row["minimum detectable"]]
        np.testing.assert_allclose(
            found, expected, rtol=1e-4, atol=1e-9, err_msg=f"{key} {row['contrast']}"
        )
        if not pd.isna(row["p"]):
            np.testing.assert_allclose(row["p"], test.pvalue, rtol=1e-6)
        if not pd.isna(row["p equivalence"]):
            np.testing.assert_allclose(
                row["p equivalence"], ttost_paired(own, baseline, -row["margin"], row["margin"])[0]
            )
    tested = contrasts[contrasts["p"].notna()]
    for _, family in tested.groupby([*KEYS, "family"]):
        for test in ("p", "p equivalence"):
            has_test = family[test].notna()
            if has_test.any():
                corrected = multipletests(family.loc[has_test, test], method="holm")[1]
                np.testing.assert_allclose(family.loc[has_test, f"{test} Holm"], corrected)
    assert len(plain) > 10
    assert len(tested) > 5


@pytest.mark.parametrize("name", NAMES)
def test_committed_differences_of_differences_follow_from_the_committed_rows(name):
    values, contrasts = committed(name)
    for row in contrasts[contrasts["contrast"].str.startswith("(")].to_dict("records"):
        key = tuple(row[column] for column in KEYS)
        names = re.fullmatch(r"\((.+) − (.+)\) − \((.+) − (.+)\)", row["contrast"]).groups()
        first, second, third, fourth = (values[(*key, one)] for one in names)
        differences = ((first - second) - (third - fourth)).dropna()
        interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        found = [
            row[column] for column in ("pairs", "difference", "difference low", "difference high")
        ]
        np.testing.assert_allclose(
            found,
            [len(differences), differences.mean(), *interval],
            rtol=1e-4,
            atol=1e-9,
            err_msg=str(key),
        )


@pytest.mark.parametrize("name", NAMES)
def test_each_outcome_follows_from_its_test(name):
    table = read(f"{name}_contrasts.csv")
    for row in table[table["low"].notna()].to_dict("records"):
        expected = "interval only" if pd.isna(row["p Holm"]) else outcome(row)
        assert row["outcome"] == expected, row["contrast"]


@pytest.mark.parametrize("name", NAMES)
def test_equivalence_is_tested_only_below_what_the_oracle_gains_at_equal_temperature(name):
    table = read(f"{name}_contrasts.csv").astype(TEXT).fillna(NONE)
    (baseline,) = table["baseline"][table["family"] == "primary"].unique()
    for _, part in table[table["p equivalence"].notna()].groupby(KEYS):
        key = part[KEYS].iloc[0]
        measured = table[(table[KEYS] == key).all(axis=1)]
        gains = measured[
            measured["contrast"].isin(
                [f"Oracle − {baseline}" for baseline in ("CL", "CL-same-scale", "CL-as-Oracle")]
            )
        ]
        others = part[~part["contrast"].isin(["Oracle − CL", f"Oracle − {baseline}"])]
        assert (others["margin"] < gains["low"].min()).all() or gains.empty, key.to_dict()


def test_the_comparisons_of_the_default_study_are_committed():
    assert "digits" in NAMES


@pytest.mark.parametrize("name", ["digits", "tuned_baseline"])
def test_the_findings_give_the_smaller_of_the_gains_over_the_baseline_and_random_removal(name):
    contrasts = read(f"{name}_contrasts.csv")
    (primary,) = contrasts[contrasts["family"] == "primary"].to_dict("records")
    is_measured = (contrasts[KEYS].isin(pd.Series(primary)[KEYS].tolist())).all(axis=1)
    gains = contrasts[is_measured & (contrasts["objective"] == "Oracle")]
    gains = gains[gains["baseline"].isin(["CL", "Random-removal"])]
    assert len(gains) == 2
    row = gains.rename(columns={"pairs": "seeds"}).nsmallest(1, "difference").iloc[0]
    # without no-break spaces
    found = " ".join(finding(row, row["objective"], row["baseline"]).split())
    assert found in " ".join((ROOT / "docs/findings.md").read_text().split()), found


def test_the_temperatures_of_the_default_study_are_the_best_ones_of_its_pilot():
    pilot = pd.read_csv(ROOT / "docs/results/digits_pilot.csv")
    is_primary = (pilot["task"] == "linear probe") & (pilot["fraction"] == 0.1)
    rows = pilot[is_primary & (pilot["split"] == "validation")]
    assert rows.groupby(["objective", "dataset"])["seed"].nunique().eq(8).all()
    means = rows.groupby(["objective", "dataset"])["value"].mean().unstack()
    best = means.idxmax(axis=1).str.removeprefix("temperature=").astype(float)
    best["Random-removal"] = best["Oracle"]  # its control
    digits = read_configuration([ROOT / "config/config.yaml"]).studies["digits"]
    assert {name: objective.temperature for name, objective in digits.objectives.items()} == {
        name: best[name] for name in digits.objectives
    }
    path = ROOT / "config/studies/tuned_baseline_replication.yaml"
    replication = read_configuration([path]).studies["digits_replication"]
    for name in ("CL", "Oracle", "Random-removal"):
        assert replication.objectives[name].temperature == best[name]
    assert not {*rows["seed"]} & {*digits.seed_list, *replication.seed_list}
