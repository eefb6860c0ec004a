"""The answer of a study carries its facts: a table of crafted results, each edge with each
outcome.
"""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from synthetic import numbers, tidy
from tests.evaluation.texts.test_text_rows import GIVEN, LABELLED, text_study

from trueneg.config.reading import load_configuration
from trueneg.report.claims import claim, disagreements, in_other_families, losses
from trueneg.report.findings import answer, sentence
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.methods import ELSEWHERE, of_methods, outcomes
from trueneg.report.page.study import study_page
from trueneg.stats.comparison import headroom, primary_contrast
from trueneg.stats.measurement import Measurement

KNN = Measurement("knn", "accuracy", "seen")
PROBE = Measurement("linear probe", "accuracy", "seen")
SCALES = {"directions": "both", "logit_scale": [10, 20]}
OBJECTIVES = {
    "CL": {"name": "cl", **SCALES},
    "HCL": {"name": "hcl", "class_probability": 0.1, **SCALES},
    "DCL": {"name": "dcl", "class_probability": 0.1, **SCALES},
    "BCL": {"name": "bcl", "class_probability": 0.1, **SCALES},
    "Oracle": {"name": "oracle", **SCALES},
    "CL-at-HCL": {"name": "cl", "directions": "both"},
}
SCALE_OF = dict.fromkeys(OBJECTIVES, 10) | {"HCL": 20, "CL-at-HCL": 20}
OUTCOMES = ("better", "worse", "equivalent", "cannot tell", "no headroom")
WORDS = {
    "better": "HCL gains",
    "worse": "HCL loses",
    "equivalent": "equivalent within",
    "cannot tell": "We cannot tell whether HCL is better or worse",
    "no headroom": "We cannot tell whether HCL is better or worse",
}
# in points, by seed: they decide each outcome with a margin of half a point
POINTS = {
    "better": [1.9, 2.1, 2.0, 2.2, 1.8, 2.0, 2.1, 1.9],
    "worse": [-1.9, -2.1, -2.0, -2.2, -1.8, -2.0, -2.1, -1.9],
    "equivalent": [0.12, -0.08, 0.11, -0.07, 0.12, -0.08, 0.1, -0.06],
    "cannot tell": [3.0, -2.0, 3.1, -2.1, 2.0, -3.0, 2.1, -1.9],
    "no headroom": [3.0, -2.0, 3.1, -2.1, 2.0, -3.0, 2.1, -1.9],
}
NOISE = np.array([0.7, 0.6, -0.6, -0.7, 0.6, 0.7, -0.7, -0.6])
ORACLE = [2.9, 3.1, 3.0, 3.2, 2.8, 3.0, 3.1, 2.9]
PILOTS = "settings chosen from 2 seeds"
BY_LABEL = "positives are drawn by label"
NOT_MEASURED = "CL at the temperature of HCL was not measured"
WIDE = "not shown to exceed"


def case(edge, outcome, **changes):
    """A crafted result: the gain in points over the baseline that the sentence should name, and
    what it must and must not say.
    """
    plain = {
        "points": POINTS[outcome],
        "oracle": ORACLE if outcome != "no headroom" else NOISE,
        "margin": 0.005,
        "pilots": 4,
        "dataset": GIVEN | {"label_column": "label"},
        "at_equal": 0.0,  # how far CL at HCL's temperature is above CL; None: not measured
        "probe": None,  # in points
        "words": WORDS[outcome],
        "says": [],
        "never": [PILOTS, BY_LABEL, NOT_MEASURED, WIDE, "only", "not corrected"],
    }
    changed = plain | changes
    allowed = [*changed["says"], *([WIDE] if outcome == "no headroom" else [])]
    changed["never"] = [text for text in changed["never"] if text not in allowed]
    return pytest.param(changed, id=f"{edge}, {outcome}")


def cases():
    """Each edge with each outcome."""
    for outcome in OUTCOMES:
        points = np.array(POINTS[outcome])
        two = {"better": [2.0, 2.01], "worse": [-2.0, -2.01], "equivalent": [0.01, -0.01]}
        yield case(
            "two seeds",
            outcome,
            points=two.get(outcome, points[:2]),
            oracle=[3.0, 3.01] if outcome != "no headroom" else [1, -1],
            says=["only 2 seeds", "only"],
        )
        is_ranked = outcome in ("better", "worse")
        yield case(
            "hardly visible",
            outcome,
            points=points / 100,
            margin=None,
            words=WORDS[outcome if is_ranked else "cannot tell"],
            says=["no margin"] if is_ranked else [],
            never=["margin of", "equivalent", PILOTS, *([] if is_ranked else ["gains 0.0"])],
        )
        equal = {"better": [1.0] * 6, "worse": [-1.0] * 6, "equivalent": [0.0] * 6}
        seeds = 6 if outcome in equal else 3
        yield case(
            "no variation",
            outcome,
            points=equal.get(outcome, [1.0] * 3),
            oracle=(ORACLE if outcome != "no headroom" else np.zeros(8))[:seeds],
            says=[f"the same in each of {seeds} seeds", *(["only"] if seeds == 3 else [])],
            never=["nan", "–,", PILOTS],
        )
        yield case("smaller at equal temperatures", outcome, at_equal=1.0, says=["CL-at-HCL (CL"])
        yield case("equal temperatures not measured", outcome, at_equal=None, says=[NOT_MEASURED])
        opposite = -3.9 if outcome == "better" else 3.9
        yield case(
            "another family of tasks",
            outcome,
            probe=opposite + NOISE / 10,
            says=["linear probe accuracy differs by", "not corrected"],
        )
        yield case(
            "labels and few pilots", outcome, dataset=LABELLED, pilots=2, says=[PILOTS, BY_LABEL]
        )
        yield case(
            "margin as large as the Oracle's gain",
            outcome,
            margin=0.05,
            words=WORDS["cannot tell" if outcome == "equivalent" else outcome],
            says=[WIDE],
            never=["equivalent within", "less than the margin", PILOTS],
        )


def _yaml(study):
    return yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False)


def gathered(folder, found):
    """The artefacts of a tuned study with a crafted result."""
    names = [name for name in OBJECTIVES if found["at_equal"] is not None or name != "CL-at-HCL"]
    pilots = list(range(90, 90 + found["pilots"]))
    follow = {"CL-at-HCL": "HCL"} if "CL-at-HCL" in names else {}
    settings = text_study(
        found["dataset"],
        {"treatment": "HCL", "oracle": "Oracle", "margin": found["margin"]} | KNN._asdict(),
        objectives={name: OBJECTIVES[name] for name in names},
        similarity={"learned_logit_scale": False},
        tuning={"seeds": pilots, "follow": follow},
        seeds=len(found["points"]),
    )
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"]
    seeds = len(found["points"])
    cl = np.linspace(0.6, 0.68, seeds)
    higher = cl + (found["at_equal"] or 0) / 100  # the baseline of the smaller gain
    values = {"CL": cl, "HCL": higher + np.array(found["points"]) / 100}
    values |= {"DCL": cl + NOISE[:seeds] / 100, "BCL": cl - NOISE[:seeds] / 100}
    below = cl if np.mean(found["oracle"]) < 1 else higher
    values |= {"Oracle": below + np.array(found["oracle"])[:seeds] / 100}
    if "CL-at-HCL" in names:
        # a little lower where it is not meant to be the stricter baseline
        values["CL-at-HCL"] = higher - (0 if found["at_equal"] else 0.01)
    parts = [tidy(KNN, values, dataset="text_table")]
    if found["probe"] is not None:
        probed = {"CL": cl, "HCL": cl + found["probe"][:seeds] / 100, "CL-at-HCL": cl}
        parts.append(tidy(PROBE, probed, dataset="text_table"))
    variants = [f'{{"logit_scale":{scale}}}' for scale in (10, 20)]
    edges = {"DCL": "logit_scale", "Oracle": "logit_scale"}
    entries = [
        {
            "study": "small",
            "dataset": "text_table",
            "objective": name,
            "variant": f'{{"logit_scale":{SCALE_OF[name]}}}',
            "candidates": 1 if name in follow else 2,
            "seeds": len(pilots),
            "variants": [] if name in follow else variants,
            "at edge": edges.get(name, ""),
        }
        for name in names
    ]
    rows = pd.concat(parts, ignore_index=True)
    chosen = {entry["objective"]: entry["variant"] for entry in entries}
    rows = rows.assign(variant=rows["objective"].map(chosen))
    sides = ("HCL", "CL", KNN, "text_table", study.primary.margin, "Oracle")
    comparison = {
        "seeds": seeds,
        "selected by": KNN._asdict(),
        "selection": entries,
        "headroom": json.loads(headroom(rows, "CL", "Oracle", 0.1, KNN).to_json(orient="records")),
        "primary": json.loads(primary_contrast(rows, *sides).to_json()),
    }
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(comparison))
    (folder / "study.yaml").write_text(_yaml(study))
    rows.to_parquet(folder / "rows.parquet")
    return Gathered(folder)


@pytest.mark.parametrize("found", list(cases()))
def test_the_sentence_carries_the_facts_of_a_crafted_result(found, tmp_path):
    study = gathered(tmp_path / "artefacts", found)
    first = sentence(study)
    assert found["words"] in first
    assert "kNN accuracy" in first
    for fact in found["says"]:
        assert fact in first, fact
    for absent in found["never"]:
        assert absent not in first, absent
    points = np.array(found["points"])
    wanted = [points.mean()]
    if points.std() > 1e-9:
        wanted += stats.ttest_1samp(points, 0).confidence_interval()
    stated = [abs(number) for number in numbers(first)]
    for value in wanted:
        assert any(abs(number - abs(value)) < 0.0501 for number in stated), value
    if (margin := found["margin"]) is not None:  # beside every effect
        assert 100 * margin in stated
    if found["probe"] is not None:
        assert any(abs(number - abs(found["probe"].mean())) < 0.0501 for number in stated)
    # the other half of the question; where positives need labels, so may the loss
    others, edges = of_methods(study)
    assert "Selected at the edge of its grid: DCL (logit_scale = " in edges
    # where positives need labels, the Oracle is a method, too, but the answer has its edge
    assert "Oracle" not in edges
    assert f"Of {3 if BY_LABEL in found['says'] else 2} other methods" in others
    assert "after Holm's correction: " in others
    assert "we cannot tell: DCL, BCL" in others.replace("BCL, Oracle", "BCL")
    assert "one half of the seeds" in others


def test_the_answer_names_the_smaller_gain_and_its_baseline_like_the_sentence(tmp_path):
    (found,) = next(each for each in cases() if "smaller" in each.id and "better" in each.id).values
    study = gathered(tmp_path / "artefacts", found)
    shown = claim(study.study, compared_rows(study), "text_table", study.comparison["selection"])
    text = " ".join(answer(shown.row, "HCL", shown.baseline, caveats=shown.caveats))
    assert text.split(".")[0] in sentence(study)
    assert "over CL-at-HCL" in text
    assert 2.0 in numbers(text)
    assert 3.0 not in numbers(text)


@pytest.mark.parametrize(
    ("outcome", "mark", "counts_seeds"),
    [
        ("better", "HCL: better", False),
        ("worse", "HCL: worse", False),
        ("equivalent", "HCL: equivalent", False),
        ("cannot tell", "HCL: undecided", True),
    ],
)
def test_the_page_marks_the_comparison_that_the_sentence_states(
    outcome, mark, counts_seeds, tmp_path, monkeypatch
):
    """CL at HCL's temperature is four points above CL, so that HCL is better than the latter."""
    # which need artefacts beside the rows
    monkeypatch.setattr("trueneg.report.page.study.registry.tables_by_name", lambda study: {})
    monkeypatch.setattr("trueneg.report.findings.against_no_training", lambda *_: [])
    of_edge = f"smaller at equal temperatures, {outcome}"
    (found,) = next(each for each in cases() if each.id == of_edge).values
    folder = tmp_path / "mine" / "artefacts"
    folder.parent.mkdir()
    study = gathered(folder, found | {"at_equal": 4.0})
    comparison = study.comparison
    assert comparison["primary"]["outcome"] == "better"
    comparison["headroom"][0]["sentence"] = ""
    (folder / "comparison.json").write_text(json.dumps(comparison))
    run = {"id": "none", "seconds": 1.0, "state": "finished", "machine": {}, "code": {}}
    dataset = study.study.dataset.model_dump(mode="json")
    run["settings"] = {"kind": "text", "objective": {"name": "cl"}, "dataset": dataset}
    run |= {"source": {"name": "s", "checksum": ""}, "versions": {}}
    monkeypatch.setattr("trueneg.report.page.study._runs", lambda *_: [run])
    page = study_page(folder)
    assert found["words"] in page["finding"]
    assert mark in [text for _, text in page["marks"]]
    assert any("If the true difference" in fact for fact in page["facts"]) == counts_seeds


@pytest.mark.parametrize("group", [None, "macro"])
def test_other_families_are_measured_with_the_group_of_the_answer(group):
    gains = {None: 0.01, "macro": -0.02}
    cl = np.linspace(0.5, 0.54, 4)
    parts = [
        tidy(task._replace(group=each), {"CL": cl, "HCL": cl + gain * np.array([1, 1, 2, 2])})
        for task in (KNN, PROBE)
        for each, gain in gains.items()
    ]
    parts.append(tidy(Measurement("clustering", "V-measure", "seen"), {"CL": cl, "HCL": cl + 0.03}))
    rows = pd.concat(parts)
    row = primary_contrast(rows, "HCL", "CL", KNN._replace(group=group), "d")
    found = {each["task"]: each["difference"] for each in in_other_families(rows, row)}
    assert found == pytest.approx({"linear probe": 1.5 * gains[group], "clustering": 0.03})


@pytest.mark.parametrize("loss", [0.02, 0.0])
def test_a_loss_that_is_the_same_in_all_seeds_is_one(loss):
    cl = np.linspace(0.5, 0.54, 6)
    gains = 0.02 + 0.001 * np.arange(6)
    probe = tidy(PROBE, {"CL": cl, "HCL": cl - loss})
    rows = pd.concat([tidy(KNN, {"CL": cl, "HCL": cl + gains}), probe])
    row = primary_contrast(rows, "HCL", "CL", KNN, "d")
    assert losses(rows, row) == ["linear probe (−2.0 points)"] * (loss > 0)
    (said,) = disagreements(rows, row)  # not to gain disagrees, too
    assert ("(−2.0 to −2.0)" in said) == (loss > 0)


@pytest.mark.parametrize(
    ("at_equal", "point", "outcome"), [(None, 2.0, "better"), (2.0, 0.0, ELSEWHERE)]
)
def test_a_gain_that_is_the_same_in_all_seeds_is_one(tmp_path, at_equal, point, outcome):
    (found,) = next(each for each in cases() if "smaller" in each.id and "better" in each.id).values
    points = [point] * len(found["points"])
    study = gathered(tmp_path / "artefacts", found | {"at_equal": at_equal, "points": points})
    assert outcomes(study)["HCL"] == outcome
