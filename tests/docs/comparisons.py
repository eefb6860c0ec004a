"""Comparisons by the committed rows of docs/results and evidence, and their outcomes."""

import gc
import json
import math
import re
from functools import cache
from unittest.mock import patch

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tests.curves import curves_of
from tests.projects import ROOT
from trueneg.store.archive import read_archive

NUMBER = r"[+−]?\d+(?:\.\d+)?"
INTERVAL = ["difference", "low", "high"]


def settings(name):
    """How far the Oracle led in each setting of a pilot, each objective at its best scale."""
    tables = [
        read_archive(path).rows()
        for path in sorted((ROOT / "evidence").glob(f"{name}_setting_*.tar.xz"))
    ]
    rows = pd.concat(tables, ignore_index=True)
    rows = rows[(rows["split"] == "validation") & (rows["task"] == "knn") & rows["group"].isna()]
    rows = rows[(rows["metric"] == "accuracy") & (rows["labels"] == "seen")]
    setting = ["study", "condition"]
    means = rows.groupby([*setting, "objective", "variant"])["value"].mean()
    best = means.groupby([*setting, "objective"]).max().unstack()
    leads = (best["Oracle"] - best["CL"]).rename("difference").reset_index()
    assert len(leads) == 12
    leads.loc[12] = ["mean", "", leads["difference"].mean()]
    return leads.assign(contrast="Oracle − CL")


def candidates(path):
    """The means of the pilot seeds that chose the winners."""
    ((_, families),) = json.loads(path.read_text())["winners"].items()
    return pd.DataFrame(
        {"contrast": name, "mean": candidate["mean"], **candidate["variant"]}
        for name, family in families.items()
        for candidate in family["candidates"]
    )


def corrected(table):
    """The comparisons of BANKING77's ten label-free methods in every study, task and with every
    baseline, after Holm's correction over the ten.
    """
    contrasts = read("banking77_contrasts.csv")
    methods = contrasts["objective"][contrasts["family"] == "label-free"].unique()
    assert len(methods) == 10
    table[["objective", "baseline"]] = table["contrast"].str.split(" − ", expand=True)
    of_methods = table[table["objective"].isin(methods)].copy()
    families = of_methods.groupby(["study", "measured", "baseline"])["p"]
    with patch.object(gc, "collect"):  # multipletests calls it each time
        of_methods["p Holm"] = families.transform(lambda p: multipletests(p, method="holm")[1])
    return of_methods.drop(columns="objective")


@cache
def read(source):
    name, _, kind = source.partition(" ")
    if kind == "corrected":
        return corrected(read(name).copy())
    if kind == "settings":
        return settings(name)
    if kind == "curves":
        curves = curves_of(ROOT / f"evidence/{name}.tar.xz")
        return curves.sort_values("epoch").groupby("run").tail(1)
    path = ROOT / f"docs/results/{name}"
    if path.suffix == ".json":
        return candidates(path)
    return pd.read_csv(path).rename(columns={"difference low": "low", "difference high": "high"})


def selected(source, where):
    """The rows of a source; without a group, those of all groups."""
    table = read(source)
    conditions = [re.split("([=>])", part, maxsplit=1) for part in where.split("; ") if part]
    if "group" in table and not any(key == "group" for key, _, _ in conditions):
        conditions.append(["group", "=", ""])
    for key, relation, value in conditions:
        column = table[key]
        if not value:
            table = table[column.isna()]
        elif relation == ">":
            table = table[column > float(value)]
        elif pd.api.types.is_numeric_dtype(column):
            table = table[column == float(value)]
        else:
            table = table[column == value]
    return table


def by_seed(source, where, contrast):
    """The values of an objective, the differences of two, or differences of these, by seed."""
    sources = source.split(" − ")
    if contrast.startswith("("):
        first, second = contrast.strip("()").split(") − (")
        return by_seed(source, where, first) - by_seed(source, where, second)
    if len(sources) == 2:
        return by_seed(sources[0], where, contrast) - by_seed(sources[1], where, contrast)
    places = where.split(" − ")
    sides = []
    for number, name in enumerate(contrast.split(" − ")):
        table = selected(source, places[min(number, len(places) - 1)])
        side = table[table["objective"] == name].set_index("seed").select_dtypes("number")
        assert len(side) > 1, (source, where, name)
        assert side.index.is_unique, (source, where, name)
        sides.append(side)
    return sides[0] if len(sides) == 1 else (sides[0] - sides[1]).dropna(subset="value")


def negated(row):
    return row | {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}


@cache
def comparison(source, where, contrast):
    """The row of a contrast, negated if the source has the reverse; of other sources, means."""
    if "contrast" in read(source.split(" − ")[0]):
        table = selected(source, where)
        reverse = " − ".join(reversed(contrast.split(" − ")))
        is_reversed = contrast not in set(table["contrast"])
        found = table[table["contrast"] == (reverse if is_reversed else contrast)]
        assert len(found) == 1, (source, where, contrast, len(found))
        (row,) = found.to_dict("records")
        return negated(row) if is_reversed else row
    values = by_seed(source, where, contrast)
    means = values.mean().to_dict()
    if "value" not in values:
        return means
    low, high = stats.ttest_1samp(values["value"], 0).confidence_interval(0.95)
    return means | {"difference": means["value"], "low": low, "high": high}


def outcome(row):
    """What a comparison shows, after Holm's correction where it has one."""
    sign = -1 if row.get("metric") == "MedR" else 1
    is_above = sign * row["difference"] > 0
    corrected = row.get("p Holm", math.nan)
    if math.isnan(corrected):
        if row["low"] <= 0 <= row["high"]:
            return "around 0"
        return "above 0" if is_above else "below 0"
    is_within = row.get("p equivalence Holm", row.get("p equivalence", math.nan)) < 0.05
    assert not is_within or abs(row["difference"]) < row["margin"]
    if corrected >= 0.05:
        return "equivalent" if is_within else "undecided"
    assert not row["low"] <= 0 <= row["high"]
    word = "better" if is_above else "worse"
    return f"{word} by less than the margin" if is_within else word


def is_rounded(number, value):
    """Whether a printed number is a value, rounded, with the right sign if it has one."""
    printed = float(number.replace("−", "-"))
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    if number[0] in "+−" and abs(value) > 1e-9 and (number[0] == "+") != (value > 0):
        return False
    return abs(printed - value) <= half + 1e-9
