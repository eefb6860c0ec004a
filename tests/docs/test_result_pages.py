"""The numbers in the pages of results are those of their csv files, which
tests/docs/test_committed_results.py recomputes.
"""

import math
import re

import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tests.curves import curves_of
from tests.docs.comparisons import INTERVAL, NUMBER, comparison, is_rounded, outcome, read
from tests.docs.pages import ROOT
from trueneg.store.archive import read_archive

SEEN = "task=knn; labels=seen"
UNSEEN = "task=knn; labels=unseen"
RECALL = "task=retrieval sentence; metric=R; k="
DIRECTIONS = [f"{RECALL}; direction={name}" for name in ("", "text to image", "image to text")]
PROBE = "task=linear probe; fraction=0.1"
ALL_LABELS = "task=linear probe; fraction=1"
KNN = "task=knn"
FAMILIES = ["task=retrieval; metric=nDCG", "task=clustering", "task=linear probe"]
ONE_ANSWER = ["task=retrieval; metric=R; k=1", "task=retrieval; metric=MRR"]
AUC = [f"{ALL_LABELS}; metric=AUC", "outcome", "task=zero-shot; metric=AUC"]
MAPS = ["task=retrieval; metric=MAP", "outcome", "task=retrieval; metric=nDCG", KNN]
BY_LABEL = [f"{MAPS[0]}; labels=seen by label", "outcome", f"{MAPS[0]}; labels=seen"]
BY_LABEL += [f"{MAPS[2]}; labels=seen by label"]
RADIOGRAPHS = ["task=zero-shot; metric=AUC", "outcome", "task=zero-shot; metric=ACC"]
RADIOGRAPHS += [
    f"task=retrieval sentence; labels={labels}; direction=" for labels in ("report", "truth")
]
# of the table's source, over another baseline than CL
SAME_SCALE = ("", SEEN, "CL-same-scale")
LONGER = ("tuned_baseline_probe_contrasts.csv", PROBE)
CLEANED = "cleaned_files"
# labels per run, and the cell's study
CELLS = {"8": "few_labels_8", "24": "few_labels", "48": "few_labels_48"}
CELLS |= {f"{name}:": f"few_labels_{name}" for name in ("tail", "dropout")}
# page, first cells, source, and for each further column a selection, or "outcome" of the one before
TRAINED = [SEEN, "outcome", *FAMILIES, ONE_ANSWER[0]]
TABLES = [
    ("banking77", "comparison", "banking77", [SEEN, "outcome", UNSEEN]),
    ("banking77", "comparison | training labels | |", "banking77", [SEEN, "outcome", UNSEEN]),
    ("banking77", "| precision", "banking77", ["", "", SEEN, SAME_SCALE]),
    ("banking77_finetune", "comparison", "banking77_finetune", [SEEN, "outcome", UNSEEN]),
    ("clinc150", "comparison", "clinc150", [SEEN, "outcome", UNSEEN]),
    ("clinc150", "| precision", "clinc150", ["", "", SEEN, SAME_SCALE]),
    ("few_labels", "comparison", "few_labels", [SEEN, "outcome", *FAMILIES, *ONE_ANSWER]),
    ("fine_tuning", "comparison", "fine_tuning", TRAINED),
    ("fine_tuning", "comparison with a head", "fine_tuning_head", TRAINED),
    ("guided_placebos", "comparison", "guided_placebos", [*TRAINED, UNSEEN]),
    ("digits", "contrast", "digits", [PROBE, ALL_LABELS, KNN, "task=mean classifier"]),
    ("flickr8k_tuned", "comparison", "flickr8k_tuned", [DIRECTIONS[0], "outcome", *DIRECTIONS[1:]]),
    ("hard_negatives", "comparison", "hard_negatives", MAPS),
    ("hard_negatives", "comparison on CLINC150", "hard_negatives_clinc150", MAPS),
    ("hard_negatives", "comparison with BM25", "hard_negatives_bm25", MAPS),
    ("hard_negatives", "comparison on MedQuAD", "hard_negatives_medquad", BY_LABEL),
    ("open_i_frozen", "comparison", "open_i_frozen", RADIOGRAPHS),
    ("tuned_baseline", "comparison", "tuned_baseline", [PROBE, "outcome", LONGER, "outcome", KNN]),
    ("tuned_baseline", "| precision", "tuned_baseline", ["", "", PROBE, KNN]),
    ("tuned_baseline", "| linear probe | outcome", "digits_replication", [PROBE, "outcome", KNN]),
    ("tuned_baseline", "| linear probe, all labels", "phantom_replication", AUC),
]
OBJECTIVES = {"CL": "Oracle − CL", "untrained encoder": "CL − untrained"}
CONTRASTS = {
    "HCL − HCL with η = 0": "HCL − HCL-undebiased",
    "BCL − BCL with η = 0": "BCL − BCL-undebiased",
    "Oracle − CL, both at t = 0.5": "Oracle-untuned − CL-untuned",
    "that gain minus (a)": "(Oracle-untuned − CL-untuned) − (Oracle − CL)",
}


def points(value):
    """A difference in points with one decimal, or up to three if fewer would show 0."""
    texts = [f"{100 * value:+.{decimals}f}" for decimals in (1, 2, 3)]
    return next((text for text in texts if float(text)), texts[-1]).replace("-", "−")


def shown(row):
    return (
        f"{points(row['difference'])} [{points(row['difference low'])},"
        f" {points(row['difference high'])}]"
    )


def other_tasks(page):
    """The rows of a page's study in the table of all families of tasks."""
    table = pd.read_csv(ROOT / "docs/results/other_tasks.csv")
    table = table[table["study"].str.removesuffix("_tuned") == page]
    renamed = {"low": "difference low", "high": "difference high"}
    return table.rename(columns=renamed).to_dict("records")


@pytest.mark.parametrize("page", ["banking77", "banking77_finetune", "clinc150"])
def test_the_table_of_other_tasks_is_that_of_the_csv(page):
    rows = {(row["measured"], row["contrast"]): shown(row) for row in other_tasks(page)}
    text = (ROOT / f"docs/results/{page}.md").read_text(encoding="utf-8")
    section = text.split("## Other families of tasks")[1].split("\n## ")[0]
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    head, _, *body = table
    assert [cells[0] for cells in body] == list(dict.fromkeys(measured for measured, _ in rows))
    for name, *cells in body:
        assert cells == [rows[name, contrast] for contrast in head[1:]]


def test_the_other_tasks_are_those_of_the_evidence():
    archive = read_archive(ROOT / "evidence/banking77_finetune.tar.xz").rows()
    archive = archive[(archive["split"] == "test") & (archive["labels"] == "seen")]
    chosen = archive[(archive["metric"] == "nDCG") & (archive["k"] == 10)]
    values = chosen.pivot_table(index="seed", columns="objective", values="value").dropna()
    rows = {
        row["contrast"]: row
        for row in other_tasks("banking77_finetune")
        if row["measured"] == "nDCG@10"
    }
    for name, row in rows.items():
        treatment, baseline = name.split(" − ")
        differences = values[treatment] - values[baseline]
        low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        found = [row["seeds"], row["difference"], row["difference low"], row["difference high"]]
        assert found == pytest.approx([len(differences), differences.mean(), low, high], rel=1e-4)


def table_of(page, start):
    """The cells of a table's rows."""
    text = (ROOT / f"docs/results/{page}.md").read_text(encoding="utf-8")
    _, table = text.split(f"\n| {start}", 1)
    for line in table.split("\n\n")[0].splitlines()[2:]:
        yield [cell.strip() for cell in line.replace(r"\*", "★").strip("|").split("|")]


def shown_row(label, source, where, baseline="CL"):
    """The row of a table's label, and the values that it shows; if no comparison of the study,
    from the values by seed.
    """
    if label in OBJECTIVES:
        # with an interval in one table only
        if source == "digits_contrasts.csv":
            return comparison("digits.csv", where, label), INTERVAL
        return comparison(source, where, OBJECTIVES[label]), ["baseline mean"]
    contrast = CONTRASTS.get(label, label if " − " in label else f"{label} − {baseline}")
    compared = set(read(source)["contrast"])
    if contrast not in compared:
        contrast = contrast.replace("HCL-undebiased", "Hardness")  # the same runs
    if contrast not in compared:
        source = source.replace("_contrasts", "")
    return comparison(source, where, contrast), INTERVAL


def check_cell(cell, row, names, is_starred):
    cell = cell.replace(" %", "")
    assert ("★" in cell) == is_starred
    scale = 1 if row.get("metric") == "AUC" else 100
    for number, name in zip(re.findall(NUMBER, cell), names, strict=True):
        assert is_rounded(number, scale * row[name]), (cell, name, row[name])


def check_table(page, start, source, columns):
    """Compare a table with its rows; return its contrasts."""
    for name, *cells in table_of(page, start):
        label = re.sub(r"^\(\w\) |\*|,(?: accuracy)? in %| \(logit scale \d+\)", "", name)
        for place, (where, cell) in enumerate(zip(columns, cells, strict=True)):
            if not where or where == "outcome":
                continue
            file, *selection = where if isinstance(where, tuple) else ("", where)
            row, names = shown_row(label, file or f"{source}_contrasts.csv", *selection)
            corrected = row.get("p Holm", math.nan)
            is_compared = columns[place + 1 : place + 2] == ["outcome"]
            if is_compared and len(names) == 3:
                expected = "interval only" if math.isnan(corrected) else outcome(row)
                assert cells[place + 1] == expected, name
            has_stars = "" not in columns and not is_compared and len(names) == 3
            check_cell(cell, row, names, has_stars and corrected < 0.05)
            yield row.get("contrast", label)


@pytest.mark.parametrize("page", dict.fromkeys(page for page, *_ in TABLES))
def test_each_cell_of_a_table_is_that_of_its_row(page):
    compared = {
        contrast for table in TABLES if table[0] == page for contrast in check_table(*table)
    }
    contrasts = read(f"{page}_contrasts.csv")
    assert compared >= set(contrasts["contrast"][contrasts["family"] != "others"])


def of_all_cells(row):
    """A primary comparison of the second protocol, corrected over its four cells."""
    tests = [
        comparison(f"{study}_contrasts.csv", SEEN, "Oracle − CL")["p"]
        for study in CELLS.values()
        if study != "few_labels"
    ]
    corrected = multipletests(tests, method="holm")[1]
    return row | {"p Holm": corrected[tests.index(row["p"])]}


def test_the_table_of_cells_is_that_of_their_comparisons():
    start = "labels per run"
    text = (ROOT / "docs/results/few_labels.md").read_text(encoding="utf-8")
    _, *contrasts = text.split(f"\n| {start}")[1].splitlines()[0].strip(" |").split(" | ")
    table = list(table_of("few_labels", start))
    assert [name.split()[0] for name, *_ in table] == [*CELLS]
    for name, *cells in table:
        study = CELLS[name.split()[0]]
        for contrast, cell in zip(contrasts, cells, strict=True):
            row = comparison(f"{study}_contrasts.csv", SEEN, contrast)
            if contrast == "Oracle − CL" and study != "few_labels":
                row = of_all_cells(row)
            value, word = cell.rsplit(", ", 1)
            assert word == outcome(row), (name, contrast)
            if value == "0 in all seeds":
                assert (row["difference"], row["standard deviation"]) == (0, 0)
            else:
                check_cell(value, row, INTERVAL, is_starred=False)


def test_the_table_of_all_layers_and_a_head_is_that_of_the_csv():
    table = pd.read_csv(ROOT / "docs/results/fine_tuning_compared.csv")
    renamed = table.rename(columns={"low": "difference low", "high": "difference high"})
    expected = {}
    for row in renamed.to_dict("records"):
        cells = expected.setdefault(f"{row['collection']}: {row['method']}", [])
        if not cells:
            cells += [points(row["gain with all layers"]), points(row["gain with a head"])]
        cells += [shown(row), row["outcome"]]
    shown_cells = {name: cells for name, *cells in table_of("fine_tuning", "gain over CL")}
    assert shown_cells == expected


@pytest.mark.parametrize("collection", ["BANKING77", "MedQuAD"])
def test_the_tables_of_cleaned_files_are_those_of_the_csv(collection):
    table = pd.read_csv(ROOT / "docs/results/cleaned_files_compared.csv")
    table = table[table["collection"] == collection.lower()]
    renamed = table.rename(columns={"low": "difference low", "high": "difference high"})
    rows = {
        (f"{row['file']} − {row['baseline']}", row["measured"]): shown(row)
        for row in renamed.to_dict("records")
    }
    cells = {
        (name.removesuffix(" (primary)"), measured): cell
        for name, *row in table_of(CLEANED, f"comparison on {collection}")
        for measured, cell in zip(("MAP", "nDCG@10"), row, strict=True)
    }
    assert cells == rows


def test_the_labels_are_as_true_as_the_ratings_say():
    rated, ranks = read("hard_negatives_rated.csv"), read("hard_negatives_ranks.csv")
    page = (ROOT / "docs/results/hard_negatives.md").read_text()
    studies = {"BANKING77": "", "MedQuAD": "_medquad", "CLINC150": "_clinc150"}
    rows = re.findall(
        r"^\| (\w+)(, but for .*)? \| (\d+) \| (\d+) \| (.+) % \| (.+) % \|$", page, re.M
    )
    assert len(rows) == 4
    for collection, same_request, equal, different, right, by_label in rows:
        study = f"hard_negatives{studies[collection]}"
        pairs = rated[rated["study"] == study].groupby("same label")
        assert pairs.size().to_list() == [100, 100]
        counts = pairs["same request" if same_request else "rated right"].sum()
        assert (counts[1], counts[0]) == (int(equal), int(different))
        [share] = ranks.loc[(ranks["study"] == study) & (ranks["ranks"] == 10), "share"]
        weighted = share * counts[1] / 100 + (1 - share) * counts[0] / 100
        assert is_rounded(right, 100 * weighted)
        assert is_rounded(by_label, 100 * share)


@pytest.mark.parametrize(
    "cell",
    [
        "+5.4★ [+3.0, +7.9]",
        "+5.5★ [+3.0, +7.8]",
        "−5.5★ [+3.0, +7.9]",
        "+5.5 [+3.0, +7.9]",
        "+5.5★",
    ],
)
def test_a_changed_cell_is_found(cell):
    row = comparison("digits_contrasts.csv", PROBE, "Oracle − CL")
    check_cell("+5.5★ [+3.0, +7.9]", row, INTERVAL, is_starred=True)
    with pytest.raises((AssertionError, ValueError)):
        check_cell(cell, row, INTERVAL, is_starred=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "study", "suffix"),
    [
        ("banking77", "banking77_tuned", ""),
        ("clinc150", "clinc150_tuned", ""),
        ("tuned_baseline", "tuned_baseline_small", " common"),
    ],
)
def test_precision_and_recall_are_those_of_the_last_epoch(page, study, suffix):
    for name, *cells in table_of(page, "| precision"):
        if name.startswith(("Guided", "Quantile", "Random")):
            row = comparison(f"{study} curves", "seed>199", name.split(" (")[0])
            for cell, column in zip(cells, ("mask precision", "mask recall"), strict=False):
                assert is_rounded(cell, row[f"{column}{suffix}"]), (name, column)


@pytest.mark.parametrize(
    ("study", "reference"), [("banking77", ("untrained", None)), ("flickr8k_frozen", ("CL", 10))]
)
def test_the_pilot_shows_means_and_standard_errors(study, reference):
    table = pd.read_csv(ROOT / "docs/results/new_methods_pilot.csv")
    table = table[table["study"] == study].assign(logit_scale=table["logit_scale"].fillna(0))
    values = table.set_index(["objective", "logit_scale", "seed"])["value"]
    page = (ROOT / "docs/results/new_methods_pilot.md").read_text(encoding="utf-8")
    name, scale = reference
    subtracted = values[name, scale or 0]
    assert f"({100 * subtracted.mean():.1f} %)" in page
    for (objective, own_scale), own in values.groupby(level=[0, 1]):
        difference = 100 * (own.droplevel([0, 1]) - subtracted)
        if difference.any():
            error = difference.std(ddof=1) / len(difference) ** 0.5
            shown = f"{difference.mean():+.1f} ± {error:.1f}".replace("-", "−")
            (line,) = [
                line
                for line in page.split("logit scale |")[1 + (study != "banking77")].splitlines()
                if f"| {objective}" in line
            ]
            assert line.split("|")[2 + [10, 20, 50, 100].index(own_scale)].strip() == shown


def test_the_page_on_dcls_estimate_shows_the_csv_and_the_csv_the_exported_curves():
    table = pd.read_csv(ROOT / "docs/results/dcl_estimate.csv")
    names = list(table.columns)
    curves = curves_of(ROOT / "evidence/dcl_estimate.tar.xz")
    curves = curves[(curves["epoch"] == 12) & curves["true mean"].notna()]
    pd.testing.assert_frame_equal(
        table, curves[names].sort_values(names[:3], ignore_index=True), check_dtype=False
    )
    page = (ROOT / "docs/results/dcl_estimate.md").read_text(encoding="utf-8")
    rows = {
        tuple(cells[:2]): cells[2:]
        for line in page.splitlines()
        if (cells := [*map(str.strip, line.strip("|").split("|"))])[2:]
    }
    for (dataset, objective), own in table.groupby(["dataset", "objective"]):
        bias = own["estimated mean"] - own["true mean"]
        low, high = stats.t.interval(0.95, len(own) - 1, bias.mean(), stats.sem(bias))
        means = own.mean(numeric_only=True)
        expected = [f"{means[name]:.2f}" for name in ("estimated mean", "true mean")]
        expected += [
            f"{bias.mean():+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−"),
            f"{means['same-class to positive ratio']:.2f}",
        ]
        label = dataset.removeprefix("positives=").replace("_", " ")
        assert rows[label, objective] == [*expected, f"{100 * means['share at bound']:.0f} %"]


def test_the_pilot_on_radiographs_shows_the_csv_and_the_csv_the_exported_rows():
    table = pd.read_csv(ROOT / "docs/results/open_i_frozen_pilot.csv")
    rows = read_archive(ROOT / "evidence/open_i_frozen_pilot.tar.xz").rows()
    rows = rows[(rows["split"] == "validation") & rows["group"].isna()]
    shared = ["objective", "seed", "task", "metric", "labels", "direction"]
    rows["logit_scale"] = rows["variant"].str.extract(r"([0-9.]+)").astype(float)
    both = table.merge(rows, on=[*shared, "logit_scale"], suffixes=(" shown", ""))
    assert len(both) == len(table) == 120
    assert (both["value"] == both["value shown"]).all()
    page = (
        (ROOT / "docs/results/open_i_frozen_pilot.md")
        .read_text(encoding="utf-8")
        .split("logit scale |")[1:]
    )
    for part, task in zip(page, ["zero-shot", "retrieval sentence"], strict=True):
        values = (
            table[table["task"] == task]
            .groupby(["objective", "logit_scale", "seed"])["value"]
            .mean()
            .unstack()
        )
        gains = 100 * (values - values.loc["CL", values.loc["CL"].mean(axis="columns").idxmax()])
        for objective, own in gains.groupby(level="objective"):
            shown = zip(own.mean(axis="columns"), own.sem(axis="columns"), strict=True)
            cells = [
                f"{mean:+.1f} ± {error:.1f}".replace("-", "−") if error else "0"
                for mean, error in shown
            ]
            assert f"| {objective} | {' | '.join(cells)} |" in part
