"""Tables of image–text studies contain the numbers of the comparison in their units, and notes on
the data.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic
import synthetic_pairs
import yaml
from scipy import stats
from statsmodels.stats.power import tt_solve_power
from synthetic import numbers
from tests.studies import tiny_study

from trueneg.report import registry
from trueneg.report.declared import published_name
from trueneg.report.gathered import NEW_DATA, PHANTOM, RESPLIT, SAME_TEST, Gathered
from trueneg.report.layouts import LAYOUTS, Place, present, tasks, with_means
from trueneg.report.tables.building import (
    compare,
    comparisons,
    difference_table,
    side_by_side,
)
from trueneg.report.tables.comparisons import RECO_TABLE_1, last_share
from trueneg.specs.sources import IMAGE_SOURCES
from trueneg.stats.comparison import holm, selected
from trueneg.stats.measurement import Measurement, by_measurement
from trueneg.store.rows import load_rows

AUC, CNR = Measurement("zero-shot", "AUC"), Measurement("grounding", "CNR")
PROBE = Measurement("linear probe", "AUC", fraction=1.0)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "small" / "artefacts"
    synthetic_pairs.write(folder, synthetic_pairs.settings(published=synthetic_pairs.PUBLISHED))
    return folder


@pytest.fixture(scope="module")
def rows(study):
    """Rows of the test split; for DCL, those of the variant selected on the validation split."""
    measured = load_rows(study / "rows.parquet")
    auc = AUC.rows_of(
        measured[(measured["split"] == "validation") & (measured["objective"] == "DCL")]
    )
    best = auc.groupby("variant")["value"].mean().idxmax()
    chosen = (measured["objective"] != "DCL") | (measured["variant"] == best)
    return measured[(measured["split"] == "test") & chosen].assign(variant="{}")


values_of = synthetic_pairs.values_of


def table(name, folder):
    gathered = Gathered(folder)
    return registry.tables_by_name(gathered.study)[name].made(gathered)


def recall(task, labels, direction, k):
    return Measurement(task, "R", labels, direction=direction, k=k)


def test_the_table_of_tasks_contains_means_and_paired_differences(study, rows):
    shown = table("tasks", study)
    both = [
        values_of(rows, name, recall("retrieval sentence", "truth", way, 10))
        for name in ("DCL-LM", "CL")
        for way in ("text to image", "image to text")
    ]
    rank = Measurement("retrieval sentence", "MedR", "truth")
    accuracy, overlap = AUC._replace(metric="ACC"), CNR._replace(metric="mIoU")

    def pair(key):
        return values_of(rows, "DCL-LM", key), values_of(rows, "CL", key)

    expected = [
        (*pair(AUC), 1, 0.00051),
        (*pair(accuracy), 100, 0.051),
        (*pair(CNR), 1, 0.00051),
        (*pair(overlap), 1, 0.00051),
        ((both[0] + both[1]) / 2, (both[2] + both[3]) / 2, 100, 0.051),
        (*pair(rank), 1, 0.051),
        (*pair(PROBE), 1, 0.00051),
    ]
    (group,) = shown.groups
    cells = dict(group.lines)["DCL-LM"]
    for place, (values, baseline, factor, tolerance) in enumerate(expected):
        half = stats.t.ppf(0.975, 5) * stats.sem(values)
        np.testing.assert_allclose(
            numbers(cells[2 * place].text), [factor * values.mean(), factor * half], atol=tolerance
        )
        low, high = stats.ttest_rel(values, baseline).confidence_interval()
        difference = [factor * (values - baseline).mean(), factor * low, factor * high]
        np.testing.assert_allclose(numbers(cells[2 * place + 1].text), difference, atol=tolerance)
    names = [name for _, name in shown.columns]
    assert names[8:12] == ["R@10 (%)", "− CL (points)", "median rank", "− CL (ranks)"]
    assert shown.columns[8][0] == "retrieval between images and sentences, both directions"
    assert shown.columns[12][0] == "linear probe, 100 % of the labels"


def test_the_table_of_tasks_prefers_retrieval_of_boxed_regions(rows):
    sentence = rows[(rows["task"] == "retrieval sentence") & (rows["labels"] == "report")]
    regions = sentence.assign(task="region retrieval", labels="pair", value=sentence["value"] / 2)
    both = with_means(pd.concat([rows, regions, regions.assign(labels="truth")], ignore_index=True))
    layout = tasks(both)
    heads = {}
    for place in layout:
        heads.setdefault(place.top, []).append(place.measured)
    # Table 1 of Sample-Specific Debiasing has AUC and ACC, CNR and mIoU, and recall over all k and
    # both directions and MedR.
    (title,) = (title for title in heads if "retrieval" in title)
    assert "boxed regions" in title
    assert heads[title] == [
        Measurement("region retrieval", metric, "pair") for metric in ("R", "MedR")
    ]
    assert [place.measured.metric for place in layout] == [
        "AUC",
        "ACC",
        "CNR",
        "mIoU",
        "R",
        "MedR",
        "AUC",
    ]
    recalls = values_of(both, "CL", heads[title][0])
    expected = values_of(rows, "CL", Measurement("retrieval sentence", "R", "report")) / 2
    np.testing.assert_allclose(recalls, expected)


def test_shares_of_anchors_and_negatives_are_those_of_the_last_epoch(study, tmp_path):
    folder = shutil.copytree(study, tmp_path / "artefacts")
    curves = pd.read_parquet(study / "curves.parquet")
    curves["share removed"] = (curves["epoch"] / 100 + curves["seed"] / 1000).where(
        curves["objective"] == "DCL-LM"
    )
    curves.to_parquet(folder / "curves.parquet")
    last = curves[(curves["epoch"] == curves["epoch"].max()) & (curves["objective"] == "DCL-LM")]
    lines = dict(table("tasks", folder).groups[0].lines)
    for cell, name in zip(lines["DCL-LM"][-2:], ("share at bound", "share removed"), strict=True):
        half = stats.t.ppf(0.975, 5) * stats.sem(last[name])
        np.testing.assert_allclose(
            numbers(cell.text), [100 * last[name].mean(), 100 * half], atol=0.051
        )
    assert [cell.text for cell in lines["CL"][-2:]] == ["–", "–"]
    assert last_share(curves.drop(columns="share at bound"), "share at bound") == {}


@pytest.mark.parametrize(
    ("dataset", "covered"),
    [
        ({"source": "phantom", "text": "reports"}, {PHANTOM, RESPLIT}),
        ({"source": "phantom", "text": "reports", "corpus": "seed={seed}"}, {PHANTOM, NEW_DATA}),
        ({"source": "open_i", "text": "reports", "path": "open_i"}, {RESPLIT}),
        ({"source": "flickr30k", "text": "reports"}, {SAME_TEST}),
        ({"source": "digits"}, {RESPLIT}),
        ({"source": "parquet", "path": "values", "test": 0.25}, {RESPLIT}),
        ({"source": "cifar10", "path": "cifar10"}, {SAME_TEST}),
    ],
)
def test_the_note_on_intervals_follows_from_the_data(tmp_path, dataset, covered):
    of_images = dataset["source"] in IMAGE_SOURCES
    given = tiny_study(dataset=dataset) if of_images else synthetic_pairs.settings(dataset=dataset)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(given))
    assert set(Gathered(tmp_path).data_notes) == covered


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name not in ("precision", "texts")])
def test_tables_state_that_the_data_are_synthetic_and_adjust_p_within_columns(name, study, rows):
    shown = table(name, study)
    assert PHANTOM in shown.notes
    assert any("paired within seeds" in note for note in shown.notes)
    primary = Gathered(study).primary
    for (_, measured), column in by_measurement(shown.values).items():
        compared = column[column["objective"] != "CL"]
        alone = (compared["objective"] == "DCL-LM") & (measured == primary)
        np.testing.assert_allclose(compared.loc[~alone, "p Holm"], holm(compared.loc[~alone, "p"]))
        np.testing.assert_allclose(compared.loc[alone, "p Holm"], compared.loc[alone, "p"])
    assert {len(cells) for group in shown.groups for _, cells in group.lines} == {
        len(shown.columns)
    }


def test_classification_and_grounding_are_listed_by_class(study, rows):
    for name, measured in (("zero_shot", AUC), ("grounding", CNR)):
        groups = {
            group.title.split("; ")[1]: dict(group.lines) for group in table(name, study).groups
        }
        assert groups.keys() >= set(synthetic_pairs.CLASSES)
        for finding in synthetic_pairs.CLASSES:
            values = values_of(rows, "Oracle", measured._replace(group=finding))
            assert numbers(groups[finding]["Oracle"][0].text)[0] == pytest.approx(
                values.mean(), abs=0.00051
            )
    assert "mean over findings" in groups


def test_retrieval_has_both_directions_and_their_mean(study, rows):
    groups = {group.title: dict(group.lines) for group in table("retrieval", study).groups}
    start = "phantom; retrieval report, relevant: pairs from the same report; "
    of_way = {
        way: [
            values_of(rows, "ReCo", recall("retrieval report", "report", way, k))
            for k in (1, 5, 10)
        ]
        for way in ("text to image", "image to text")
    }
    for way, recalls in of_way.items():
        expected = [100 * values.mean() for values in (*recalls, np.mean(recalls, axis=0))]
        shown = [numbers(cell.text)[0] for cell in groups[start + way]["ReCo"][:8:2]]
        np.testing.assert_allclose(shown, expected, atol=0.051)
    mean = [100 * np.mean([of_way[way][place] for way in of_way]) for place in range(3)]
    shown = [
        numbers(cell.text)[0] for cell in groups[f"{start}mean of both directions"]["ReCo"][:6:2]
    ]
    np.testing.assert_allclose(shown, mean, atol=0.051)


def test_linear_evaluation_has_a_column_per_label_fraction(study, rows):
    shown = table("linear_evaluation", study)
    assert [title for title, _ in shown.columns[::2]] == [
        "1 % of the labels",
        "10 % of the labels",
        "100 % of the labels",
        "",  # what labels are used for
    ]
    used = {name: cells[-1].text for name, cells in shown.groups[0].lines}
    assert (used["CL"], used["Oracle"]) == ("nothing", "loss")
    groups = {group.title: dict(group.lines) for group in shown.groups}
    values = values_of(rows, "CL", PROBE._replace(fraction=0.1, group="edema"))
    assert numbers(groups["phantom; linear probe; edema"]["CL"][2].text)[0] == pytest.approx(
        values.mean(), abs=0.00051
    )


def test_the_table_of_differences_has_every_measurement_in_its_unit(study, rows):
    shown = table("differences", study)
    titles = [group.title for group in shown.groups]
    assert titles[0] == "phantom; zero-shot; AUC"
    assert "phantom; retrieval sentence, relevant=truth; R@10 (points)" in titles
    assert (
        "phantom; retrieval report, relevant=report; median rank from text to image (ranks)"
        in titles
    )
    assert len(titles) == len(set(titles))
    assert not any("(" in name for _, name in shown.columns)
    assert PHANTOM in shown.notes
    difference = values_of(rows, "same", AUC) - values_of(rows, "CL", AUC)
    cells = dict(shown.groups[0].lines)["same − CL"]
    of_family = tt_solve_power(nobs=6, alpha=0.05 / (len(shown.groups[0].lines) - 1), power=0.8)
    assert numbers(cells[4].text)[0] == pytest.approx(
        of_family * difference.std(ddof=1), abs=0.00051
    )


def test_table_1_of_ssd_is_laid_out_as_printed(study):
    shown = table(published_name("sample-specific-debiasing", "Table 1"), study)
    assert shown.columns == [
        *[("classification", metric) for metric in ("AUC", "ACC")],
        *[("grounding", metric) for metric in ("CNR", "mIoU")],
        *[("retrieval", metric) for metric in ("Recall", "MedR")],
    ]
    printed, others = shown.groups
    lines = dict(printed.lines)
    assert len(lines) == 9
    values = values_of(load_rows(study / "rows.parquet"), "DCL,class_probability=0.1", AUC)
    # A published constant is compared with its variant, whichever was selected.
    classification, *_, rank = lines["DCL eta=0.1; ours: DCL,class_probability=0.1"]
    assert classification.text.endswith(" (0.85)")
    assert numbers(classification.text)[0] == pytest.approx(values.mean(), abs=0.00051)
    assert len(classification.runs.split()) == len(values) == 6
    assert rank.text == "– (111)"  # this study retrieves no regions
    assert [cell.text for cell in lines["BioViL"]] == [
        "– (0.78)",
        "– (0.62)",
        "– (1.14)",
        "– (0.17)",
        "– (0.25)",
        "– (148)",
    ]
    assert {name.partition(" (")[0] for name, _ in others.lines} >= {"ReCo", "same", "Oracle"}
    biovil = shown.values[shown.values["method"] == "BioViL"]
    assert len(biovil) == 6
    assert biovil["mean"].isna().all()


def test_published_numbers_are_compared_with_our_means_of_the_same_method(study, rows):
    shown = table(published_name("relaxing-contrastiveness", "Table 3"), study)
    assert shown.columns[-1] == ("text retrieval", "R@10")
    assert shown.groups[0].title == "Flickr30K retrieval (%)"
    lines = dict(shown.groups[0].lines)
    for objective, line, theirs in (("ReCo", "ReCo", "99.1"), ("CL", "CLIP-ZS; ours: CL", "97.0")):
        values = values_of(
            rows, objective, recall("retrieval sentence", "report", "image to text", 10)
        )
        assert lines[line][-1].text.endswith(f" ({theirs})")
        low, high = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))
        ours = [100 * values.mean(), 50 * (high - low), float(theirs)]
        np.testing.assert_allclose(numbers(lines[line][-1].text), ours, atol=0.051)
    first = table(published_name("relaxing-contrastiveness", "Table 1"), study)
    assert RECO_TABLE_1 in first.notes
    assert dict(first.groups[0].lines)["InfoNCE; ours: CL"][-1].text == "– (48.6 ± 0.6)"


def test_the_note_on_recos_table_1_follows_from_its_printed_standard_errors():
    printed = pd.read_csv(Path(__file__).parents[2] / "config/published.csv")
    printed = printed[
        (printed["paper"] == "relaxing-contrastiveness") & (printed["table"] == "Table 1")
    ]
    cells = printed.pivot(
        index=["setting", "metric"], columns="method", values=["value", "standard_error"]
    )
    p = []
    for _, cell in cells.iterrows():
        sides = [
            (cell["value", name], 2 * cell["standard_error", name], 4)
            for name in ("ReCo", "InfoNCE")
        ]
        p.append(stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)
    assert len(p) == 7
    assert sum(value < 0.05 for value in p) == 4
    assert min(holm(p)) > 0.05


def some(metric, values, task="t", **of):
    return synthetic.tidy(Measurement(task, metric, **of), values)


HIGH, LOW = [90.0, 91.0, 92.0, 91.0, 90.0, 92.0], [10.0, 11.0, 12.0, 11.0, 10.0, 12.0]


@pytest.mark.parametrize(("metric", "best"), [("CNR", "a"), ("MedR", "b")])
def test_the_smaller_rank_is_better(metric, best):
    rows = some(metric, {"CL": [50.0, 51.0, 52.0, 50.0, 51.0, 52.0], "a": HIGH, "b": LOW})
    outcomes = compare(rows, "CL", [Measurement("t", metric)]).set_index("objective")["outcome"]
    assert outcomes[best] == "better"
    assert outcomes["ab".replace(best, "")] == "worse"


def test_a_measurement_that_a_data_set_lacks_is_shown_as_a_dash():
    both = pd.concat(
        [
            some("AUC", {"CL": [0.5, 0.6], "a": [0.7, 0.7]}),
            some("CNR", {"CL": [1.0, 1.1], "a": [1.2, 1.4]}),
        ]
    )
    rows = pd.concat(
        [both, both[both["metric"] == "AUC"].assign(dataset="other")], ignore_index=True
    )
    keys = [Measurement("t", "AUC"), Measurement("t", "CNR")]
    shown = side_by_side(
        compare(rows, "CL", keys),
        [Place("", "", key.metric, key) for key in keys],
        synthetic.study_with_baseline(),
    )
    assert [group.title for group in shown.groups] == ["d", "other"]
    assert [cell.text for cell in dict(shown.groups[1].lines)["a"]][2:] == ["–", ""]
    pd.testing.assert_frame_equal(
        compare(rows, "CL", [*keys, Measurement("t", "mIoU")]), compare(rows, "CL", keys)
    )


def test_a_shared_unit_is_in_the_column_head_and_others_in_the_group_titles():
    rows = pd.concat(
        [
            some("AUC", {"CL": [0.5, 0.6], "a": [0.7, 0.7]}),
            some("MedR", {"CL": [9.0, 8.0], "a": [7.0, 4.0]}),
        ]
    )
    one = difference_table(comparisons(rows, "CL", [Measurement("t", "MedR")]))
    assert one.columns[1] == ("", "difference (ranks)")
    two = difference_table(
        comparisons(rows, "CL", [Measurement("t", "AUC"), Measurement("t", "MedR")])
    )
    assert [group.title for group in two.groups] == ["d; t; AUC", "d; t; median rank (ranks)"]


def test_precision_is_listed_for_both_directions_and_their_mean():
    frames = []
    for direction, level in (("image to image", 0.4), ("text to image", 0.6)):
        for k in (5, 10):
            values = {"CL": [level - k / 100, level], "a": [level, level + 0.1]}
            frames.append(some("Prec", values, "precision", direction=direction, k=k))
    frames.append(some("Prec", {"CL": [0.425, 0.5], "a": [0.5, 0.6]}, "precision"))
    rows = with_means(pd.concat(frames, ignore_index=True))
    layout = LAYOUTS["precision"](rows)
    shown = side_by_side(
        compare(rows, "CL", present(layout, rows)), layout, synthetic.study_with_baseline(["a"])
    )
    assert [name for name, _ in shown.columns[::2]] == ["Prec@5", "Prec@10", "mean precision"]
    groups = {
        group.title: [cell.text for cell in dict(group.lines)["CL"][::2]] for group in shown.groups
    }
    assert groups["d; image to image"][0].startswith("37.5 ±")
    assert groups["d; mean of both"][0].startswith("47.5 ±")
    assert groups["d; mean of both"][2].startswith("46.2 ±")


def test_a_layout_orders_groups_and_columns_whatever_the_order_of_the_rows():
    keys = [
        Measurement("precision", "Prec", direction="image to image", k=50),
        Measurement("precision", "Prec", direction="text to image", k=5),
        Measurement("chexpert 8x200", "Prec", direction="text to image", k=10),
        Measurement("precision", "AUC"),  # not in this table
    ]
    places = LAYOUTS["precision"](pd.concat([synthetic.tidy(key, {"CL": [0.5]}) for key in keys]))
    groups = ["text to image", "image to image", "CheXpert 8×200, text to image"]
    heads = ["Prec@5", "Prec@10", "Prec@50"]
    assert [(place.group, place.top) for place in places] == [
        (group, head) for group in groups for head in heads
    ]
    by_place = {(place.group, place.top): place.measured for place in places}
    assert by_place["image to image", "Prec@50"] == keys[0]
    assert by_place["image to image", "Prec@5"] == keys[1]._replace(direction="image to image")
    cnr = [CNR._replace(group=group) for group in ("macro", "edema", "effusion", None)]
    places = LAYOUTS["grounding"](pd.concat([synthetic.tidy(key, {"CL": [1.0]}) for key in cnr]))
    assert [place.group for place in places] == [
        "mean over phrases",
        "mean over findings",
        "edema",
        "effusion",
    ]


def test_means_skip_a_k_that_one_direction_lacks():
    def recall(direction, k, value):
        return some(
            "R", {"CL": [value]}, "retrieval sentence", labels="report", direction=direction, k=k
        )

    rows = [recall("text to image", k, value) for k, value in ((5, 0.1), (10, 0.2), (50, 0.9))]
    rows += [recall("image to text", k, value) for k, value in ((5, 0.3), (10, 0.5))]
    added = with_means(pd.concat(rows, ignore_index=True)).iloc[5:]
    both, over_k = added[added["direction"].isna()], added[added["k"].isna()]
    assert both.set_index("k")["value"].to_dict() == pytest.approx({5: 0.2, 10: 0.35})
    assert over_k.set_index("direction")["value"].to_dict() == pytest.approx(
        {"text to image": 0.15, "image to text": 0.4}
    )


def test_sentence_retrieval_uses_the_ground_truth_if_it_is_known():
    def recalls(rows):
        return [place.measured for place in tasks(rows) if place.measured.metric == "R"]

    of_reports = [recall("retrieval sentence", "report", None, k) for k in (1, 5, 20)]
    rows = pd.concat([synthetic.tidy(key, {"CL": [0.1]}) for key in of_reports])
    assert recalls(rows) == of_reports[1:2]  # the length closest to 10
    assert recalls(pd.concat([rows, rows.assign(labels="truth")])) == [
        of_reports[1]._replace(labels="truth")
    ]
    assert recalls(rows.assign(task="zero-shot")) == []


def test_named_contrasts_come_first_and_are_corrected_together(tmp_path):
    named = [("DCL-LM", "DCL"), ("Oracle", "DCL-LM"), ("same", "CL")]
    folder = tmp_path / "small" / "artefacts"
    given = synthetic_pairs.settings(
        contrasts=[{"treatment": one, "baseline": other} for one, other in named]
    )
    measured = synthetic_pairs.write(folder, given)
    chosen = json.loads((folder / "comparison.json").read_text())["selection"]
    auc = AUC.rows_of(selected(measured[measured["split"] == "test"], pd.DataFrame(chosen)))
    compared = AUC.rows_of(table("differences", folder).values)
    assert compared["contrast"].tolist()[:3] == ["DCL-LM − DCL", "Oracle − DCL-LM", "same − CL"]
    tests = []
    for (treatment, baseline), row in zip(named, compared.head(3).to_dict("records"), strict=True):
        values, other = (
            auc[auc["objective"] == name].sort_values("seed")["value"].to_numpy()
            for name in (treatment, baseline)
        )
        test = stats.ttest_rel(values, other)
        shown = [row[name] for name in ("difference", "difference low", "difference high")]
        np.testing.assert_allclose(
            shown, [(values - other).mean(), *test.confidence_interval()], rtol=1e-9
        )
        tests.append(test.pvalue)
    np.testing.assert_allclose(compared["p Holm"].head(3), holm(tests))


def test_the_protocol_note_states_whether_it_precedes_the_runs(study, tmp_path):
    folder = shutil.copytree(study, tmp_path / "artefacts")
    comparison = json.loads((folder / "comparison.json").read_text())
    protocol = {
        "file": "protocol.md",
        "checksum": "0123456789abcdef" * 4,
        "commit": "c",
        "date": "2026-10-01T12:00:00+02:00",
    }
    assert Gathered(folder).protocol_notes == []
    for beforehand in (False, True):
        (folder / "comparison.json").write_text(
            json.dumps(comparison | {"protocol": protocol | {"beforehand": beforehand}})
        )
        (note,) = Gathered(folder).protocol_notes
        assert all(fact in note for fact in ("protocol.md", "0123456789ab", "2026-10-01"))
        assert ("before the first of" in note) == beforehand
    assert note in table("differences", folder).notes
    unknown = protocol | {"commit": None, "date": None, "beforehand": None}
    (folder / "comparison.json").write_text(json.dumps(comparison | {"protocol": unknown}))
    (note,) = Gathered(folder).protocol_notes
    assert "cannot be known" in note
    assert "the first of these runs" not in note
