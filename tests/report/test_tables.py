"""Tables show the numbers of the comparison and mark only what it supports."""

import re

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy import stats
from statsmodels.stats.power import tt_solve_power
from synthetic import numbers, tidy
from tests.studies import tiny_study

from trueneg.config.reading import load_configuration
from trueneg.report.formats import Cell, Table, from_frame, save, to_latex
from trueneg.report.layouts import Place
from trueneg.report.metrics import evaluation_name, group_name
from trueneg.report.registry import figures_by_name
from trueneg.report.tables.building import (
    Named,
    compare,
    comparisons,
    difference_table,
    published_table,
    side_by_side,
)
from trueneg.report.tables.comparisons import GROUPS, accuracy
from trueneg.specs.kinds.trained import NamedContrast
from trueneg.stats.comparison import headroom
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import typed

KNN = Measurement("knn", "accuracy", "all")
PROBE = Measurement("linear probe", "accuracy", "all", 1.0)
ROWS = synthetic.rows(fractions={"fraction=0.1": 0.1, "fraction=0.5": 0.5}, seeds=6)
MEASURED = [key._replace(group=group) for key in (PROBE, KNN) for group in GROUPS]
VALUES = compare(ROWS, "CL", MEASURED)


def column(rows, dataset, group, objective):
    chosen = KNN._replace(group=group).rows_of(rows[rows["dataset"] == dataset])
    chosen = chosen[(chosen["split"] == "test") & (chosen["objective"] == objective)]
    return chosen.sort_values("seed")["value"].to_numpy()


def rows_of(values):
    return tidy(KNN, values)


def table_of(rows, measured, oracle=None, labels=None, margins=None):
    """The table of accuracies, with CL as the baseline."""
    layout = [Place(evaluation_name(key), group_name(key), "accuracy", key) for key in measured]
    study = synthetic.study_with_baseline([oracle] if oracle else [], labels)
    return side_by_side(compare(rows, "CL", measured, margins), layout, study)


def test_cells_contain_means_and_paired_differences():
    table = table_of(ROWS, MEASURED, oracle="Oracle")
    group = next(group for group in table.groups if group.title == "fraction=0.1; kNN, labels=all")
    cl, dcl = (column(ROWS, "fraction=0.1", "rare", name) for name in ("CL", "DCL-true"))
    half = stats.t.ppf(0.975, 5) * stats.sem(dcl)
    mean, difference = dict(group.lines)["DCL-true"][2:4]
    assert table.columns[2:4] == [
        ("rare classes", "accuracy (%)"),
        ("rare classes", "− CL (points)"),
    ]
    assert mean.text == f"{100 * dcl.mean():.1f} ± {100 * half:.1f}"
    low, high = stats.ttest_rel(dcl, cl).confidence_interval()
    np.testing.assert_allclose(
        numbers(difference.text), [100 * (dcl - cl).mean(), 100 * low, 100 * high], atol=0.051
    )
    assert dict(group.lines)["CL"][3].text == ""
    runs, baseline = (
        [synthetic.run_id("fraction=0.1", name, seed) for seed in range(6)]
        for name in ("DCL-true", "CL")
    )
    assert mean.runs.split() == runs
    assert difference.runs.split() == runs + baseline


@pytest.mark.parametrize(("fraction", "pools"), [(0.5, {"imbalanced", "all"}), (1, {"all"})])
def test_balanced_data_have_one_label_pool(fraction, pools):
    dataset = {"source": "digits", "rare_classes": [5, 6], "fraction": fraction, "test": 0.25}
    study = load_configuration(
        {"tiny": tiny_study(dataset=dataset, figures={"label_fractions": {}})}, "test"
    ).studies["tiny"]
    assert {place.measured.labels for place in accuracy(study, ROWS)} == pools
    balanced = ROWS[ROWS["group"] == "rare"].assign(group="macro")
    # earlier rows have no balanced accuracy
    for rows, names in ((ROWS, []), (pd.concat([ROWS, balanced]), ["balanced"])):
        assert list(dict.fromkeys(place.top for place in accuracy(study, rows))) == [
            "all classes",
            "rare classes",
            "common classes",
            *names,
        ]
    figures = {
        f"probe_by_label_fraction_{pool}_labels{end}"
        for pool in pools
        for end in ("", "_differences")
    }
    assert {name for name in figures_by_name(study) if "label_fraction" in name} == figures


def test_a_star_marks_adjusted_p_below_5_percent():
    texts = {
        (dataset, objective): cells[1].text
        for dataset, group in zip(
            ("fraction=0.1", "fraction=0.5"), table_of(ROWS, MEASURED).groups[1::2], strict=True
        )
        for objective, cells in group.lines
    }
    chosen = KNN.rows_of(VALUES)
    adjusted = chosen.set_index(["dataset", "objective"])["p Holm"]
    assert adjusted.lt(0.05).any()
    for place, text in texts.items():
        assert ("*" in text) == (adjusted[place] < 0.05)


def test_a_comparison_has_the_same_outcome_in_every_table():
    contrasts = [
        NamedContrast(treatment="DCL-low", baseline="CL", family="label-free"),
        NamedContrast(treatment="DCL-true", baseline="DCL-low", family="label-free"),
        NamedContrast(treatment="Oracle", baseline="DCL-low", family=None),
    ]
    named = Named("fraction=0.1", KNN, "Oracle", contrasts)
    everything = comparisons(ROWS, "CL", MEASURED, named=named)
    beside = compare(ROWS, "CL", MEASURED, named=named)
    both = everything.merge(
        beside, on=["dataset", *KNN._fields, "objective", "family"], suffixes=("", " beside")
    )
    both = both[both["baseline"] == "CL"]
    assert len(both) == len(beside.dropna(subset="difference")) > 10
    pd.testing.assert_series_equal(both["p Holm"], both["p Holm beside"], check_names=False)
    assert (both["outcome"] == both["outcome beside"]).all()
    families = (
        everything[everything["dataset"] == "fraction=0.1"]
        .groupby("family", dropna=False)["contrast"]
        .unique()
    )
    assert set(families["label-free"]) == {"DCL-low − CL", "DCL-true − DCL-low"}
    assert families["primary"] == ["Oracle − CL"]
    assert len(everything[everything["family"] == "primary"]) == 1
    untested = everything[everything["family"].isna()]
    assert set(untested["contrast"]) == {"Oracle − DCL-low"}
    assert untested[["p", "p Holm", "p signed-rank", "p equivalence"]].isna().all(axis=None)


FAR = [0.90, 0.91, 0.92, 0.90, 0.91, 0.92]
LOW = [0.50, 0.52, 0.51, 0.51, 0.50, 0.52]
NEAR = [0.51, 0.51, 0.51, 0.51, 0.51, 0.51]  # LOW on average
ABOVE = [0.511, 0.53, 0.519, 0.52, 0.512, 0.53]  # one point above LOW


def test_missing_headroom_is_labelled_and_changes_no_marks():
    values = {"CL": LOW, "a": FAR, "Oracle": NEAR}
    labels = headroom(rows_of(values), "CL", "Oracle", 0.1, KNN).assign(sentence="little to gain")
    table = table_of(rows_of(values), [KNN], oracle="Oracle", labels=labels)
    assert "no clear headroom" in table.groups[0].title
    assert table.notes[-1] == "d: little to gain."
    plain = table_of(rows_of(values), [KNN], oracle="Oracle")
    assert table.groups[0].lines == plain.groups[0].lines
    assert "*" in dict(table.groups[0].lines)["a"][1].text


def test_marks_distinguish_the_outcomes():
    values = {"CL": LOW, "a": FAR, "b": NEAR, "c": ABOVE}
    table = table_of(rows_of(values), [KNN], margins={KNN: 0.03})
    marks = {name: re.sub("[^*≈]", "", cells[1].text) for name, cells in table.groups[0].lines}
    assert marks == {"CL": "", "a": "*", "b": "≈", "c": "*≈"}
    outcomes = table.values.set_index("objective")["outcome"].dropna().to_dict()
    assert outcomes == {"a": "better", "b": "equivalent", "c": "better by less than the margin"}
    assert r"$\approx$" in to_latex(table)
    assert not any("≈" in note for note in table_of(rows_of(values), [KNN]).notes)


def test_equal_differences_in_all_seeds_have_no_interval_but_exact_tests():
    values = comparisons(
        rows_of({"CL": LOW, "a": [low + 0.2 for low in LOW]}), "CL", [KNN], {KNN: 0.01}
    )
    (group,) = difference_table(values).groups
    cells = [cell.text for cell in dict(group.lines)["a − CL"]]
    assert cells[:6] == ["better, exploratory", "+20.0 [–, –]", "6", "0.0", "–", "1.00"]
    p = f"{2 / 2**6:.3f}"  # of six equal signs
    assert cells[6:] == [p, p, p, "1.000"]


def test_the_table_of_differences_lists_spread_tests_and_outcome():
    table = difference_table(comparisons(ROWS, "CL", MEASURED))
    group = next(
        group for group in table.groups if group.title == "fraction=0.1; kNN, labels=all; accuracy"
    )
    difference = column(ROWS, "fraction=0.1", None, "Oracle") - column(
        ROWS, "fraction=0.1", None, "CL"
    )
    outcome, *cells = [cell.text for cell in dict(group.lines)["Oracle − CL"]]
    assert cells[1] == "6"
    assert float(cells[2]) == pytest.approx(100 * difference.std(ddof=1), abs=0.051)
    # that of the first of Holm's steps, of four comparisons
    of_family = 100 * tt_solve_power(nobs=6, alpha=0.05 / 4, power=0.8)
    assert float(cells[3]) == pytest.approx(of_family * difference.std(ddof=1), abs=0.051)
    # none on equivalence, as nothing has a margin
    assert 1 + len(cells) == len(table.columns) == 9
    # named by no study
    assert outcome == ("better, exploratory" if float(cells[6].strip("< ")) < 0.05 else "undecided")
    assert float(cells[7]) == pytest.approx(
        stats.wilcoxon(difference, method="exact").pvalue, abs=0.0005
    )
    assert "CL" not in dict(group.lines)


def test_a_measurement_without_rows_is_shown_as_a_dash():
    table = table_of(
        rows_of({"CL": LOW, "a": FAR}),
        [KNN, KNN._replace(group="rare"), KNN._replace(labels="none")],
    )
    (group,) = table.groups
    assert [cell.text for cell in dict(group.lines)["a"]][2:] == ["–", ""]
    assert set(table.values["group"].isna()) == {True}


def test_the_csv_contains_unrounded_numbers(tmp_path):
    path = tmp_path / "tables" / "accuracy"
    save(table_of(ROWS, MEASURED), path, "Accuracy")
    read = pd.read_csv(path.with_suffix(".csv"))
    np.testing.assert_allclose(
        read["difference"].dropna(), VALUES["difference"].dropna(), rtol=1e-12
    )
    assert len(read) == len(VALUES)
    assert path.with_suffix(".tex").read_text().startswith(r"\begin{table}")


AWKWARD = r"50% & a_b #1 {x} \y ~^ <i> | *"
TABLE = Table(
    pd.DataFrame({"value": [1.0]}),
    [("top", "x"), ("top", "y")],
    [("group_1", AWKWARD, [Cell("1 ± 2"), Cell("[−1, 2]")])],
    ["100 % sure."],
    corner="name",
)


def test_the_csv_contains_the_displayed_line_names(tmp_path):
    shown = {("fraction=0.1", "Oracle"): "Oracle (t = 0.2 of 0.1, 0.2)"}
    for table in (
        difference_table(comparisons(ROWS, "CL", MEASURED), names=shown),
        side_by_side(
            VALUES,
            [Place("", "", "accuracy", KNN)],
            synthetic.study_with_baseline(names=shown),
        ),
    ):
        save(table, tmp_path / "shown", "")
        lines = {name for group in table.groups for name, _ in group.lines}
        assert set(pd.read_csv(tmp_path / "shown.csv")["shown as"]) == lines
        assert any(name.startswith("Oracle (t = 0.2 of 0.1, 0.2)") for name in lines)


def test_latex_is_escaped():
    text = to_latex(TABLE, "A_caption")
    body = text.splitlines()[next(i for i, line in enumerate(text.splitlines()) if "50" in line)]
    for command in (
        r"50\% \& a\_b \#1 \{x\}",
        r"\textbackslash{}y",
        r"\textasciitilde{}\textasciicircum{}",
    ):
        assert command in body
    assert r"1 $\pm$ 2 & {}[$-$1, 2] \\" in body
    assert r"\caption{A\_caption 100 \% sure.}" in text
    assert r"\multicolumn{2}{c}{top}" in text
    assert not re.search(r"(?<!\\)[%#]", text)


def test_a_data_frame_becomes_a_table():
    frame = pd.DataFrame({"run": ["a", "a"], "value": [0.123456, np.nan], "count": [3, 4]})
    table = from_frame(frame)
    assert table.corner == "run"
    assert [cell.text for _, cells in table.groups[0].lines for cell in cells] == [
        "0.1235",
        "3",
        "–",
        "4",
    ]


PRINTED = {
    "paper": "A paper",
    "table": "Table 1",
    "printed task": "probe",
    "printed metric": "Acc",
    "unit": "%",
    "differs": None,
}


def test_a_printed_table_has_our_mean_beside_each_number():
    rows = rows_of({"CL": [0.80, 0.82, 0.84], "DCL": [0.85, 0.85, 0.88]})
    lines = [
        ("SimCLR", "CL", "10", "90.00", 0.90),
        ("Theirs", None, "10", "7.50", 0.075),
        ("SimCLR", None, "20", "95.0", 0.95),
    ]
    printed = pd.DataFrame(lines, columns=["method", "objective", "setting", "printed", "value"])
    printed = printed.assign(
        **PRINTED, **KNN._asdict(), dataset=["d", "d", None], standard_error=[0.004, None, None]
    )
    table = published_table(rows, typed(printed))
    half = 100 * stats.t.ppf(0.975, 2) * stats.sem([0.80, 0.82, 0.84])
    assert list(table.columns) == [("", "10"), ("", "20")]
    ((title, lines), (rest, others)) = ((group.title, group.lines) for group in table.groups)
    assert title == "probe, Acc (%)"
    assert [(name, [cell.text for cell in cells]) for name, cells in lines] == [
        ("SimCLR; ours: CL", [f"82.00 ± {half:.2f} (90.00 ± 0.40)", "– (95.0)"]),
        ("Theirs", ["– (7.50)", "–"]),
    ]
    assert rest == "not printed in Table 1 (%)"
    assert [
        (name, cells[0].text[:5], cells[0].text[-4:], cells[1].text) for name, cells in others
    ] == [("DCL", "86.00", " (–)", "–")]
    assert [(cell.runs, cell.printed) for _, cells in (*lines, *others) for cell in cells] == [
        ("CL-0 CL-1 CL-2", "A paper, Table 1"),
        ("", "A paper, Table 1"),
        ("", "A paper, Table 1"),
        ("", ""),
        ("DCL-0 DCL-1 DCL-2", ""),
        ("", ""),
    ]
    ours = table.values.set_index(["method", "setting"]).loc[("SimCLR", "10")]
    by_hand = [-0.08, -0.08 - half / 100, -0.08 + half / 100]
    np.testing.assert_allclose(
        [ours[f"{end} − published"] for end in ("mean", "low", "high")], by_hand
    )


def test_a_protocol_that_differs_marks_our_numbers():
    rows = rows_of({"CL": [0.80, 0.82, 0.84]})
    printed = pd.DataFrame(
        {
            "method": ["CL", "CL"],
            "setting": ["10", "20"],
            "printed": "90",
            "value": 0.9,
            "objective": "CL",
        }
    )
    printed = printed.assign(
        **PRINTED | {"differs": [None, "Half of the images."]},
        **KNN._asdict(),
        dataset="d",
        standard_error=None,
    )
    table = published_table(rows, typed(printed))
    assert [cell.text.count("†") for cell in table.groups[0].lines[0][1]] == [0, 1]
    assert "† Half of the images." in table.notes
