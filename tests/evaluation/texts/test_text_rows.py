"""Text studies declare the rows that their tasks write, and compare and select only by rows that
exist.
"""

import numpy as np
import pytest

from tests.config.mistakes import mistakes
from tests.declared import declared, written
from tests.evaluation.texts.embedded import embedded_run, labelled_run, paired_run, values
from trueneg.config.reading import load_configuration
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.texts import retrieval
from trueneg.report.layouts import texts
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table

LABELLED = {"source": "text_table", "path": "texts.csv", "label_column": "label"}
GIVEN = {
    "source": "text_table",
    "path": "pairs.csv",
    "positives": "given",
    "positive_column": "answer",
}
RATED = {"path": "rated.csv"}
PRIMARY = {"treatment": "DCL", "baseline": "CL", "oracle": "none"}
KNN = {"task": "knn", "labels": "seen", "metric": "accuracy"}
RETRIEVAL = {"task": "retrieval", "labels": "seen", "metric": "R", "k": 1}


def text_study(dataset, primary=KNN, **sections):
    """Return a small text study."""
    objectives = {"CL": {"name": "cl"}, "DCL": {"name": "dcl", "class_probability": 0.1}}
    encoder = {"name": "sentence_transformers", "model": "all-MiniLM-L6-v2", "train": "none"}
    study = {
        "kind": "text",
        "title": "t",
        "question": "q",
        "dataset": dataset,
        "text_encoder": encoder,
        "seeds": 2,
    }
    return (
        study
        | {"training": {"updates": 1}, "objectives": objectives, "primary": PRIMARY | primary}
        | sections
    )


def tuned(dataset, primary):
    """Return the same with temperatures to choose from on pilot seeds."""
    scales = {"directions": "both", "logit_scale": [10, 20]}
    objectives = {
        "CL": {"name": "cl", **scales},
        "DCL": {"name": "dcl", "class_probability": 0.1, **scales},
    }
    similarity = {"learned_logit_scale": False}
    return text_study(
        dataset, primary, objectives=objectives, similarity=similarity, tuning={"seeds": [90, 91]}
    )


def unseen(validation, test):
    """Return a data set with this many labels without training in each set."""
    return LABELLED | {"labels": {"train": 4, "validation_unseen": validation, "test_unseen": test}}


def without(run, *splits):
    """Empty the unseen parts of some splits."""
    for name in (f"{split}_unseen{end}" for split in splits for end in ("", "_bank")):
        object.__setattr__(run.subset, name, getattr(run.subset, name)[:0])
    return run


@pytest.mark.parametrize(
    ("dataset", "primary", "run"),
    [
        (LABELLED, KNN, without(labelled_run(), "validation", "test")),
        (unseen(2, 2), KNN, labelled_run()),
        (unseen(0, 2), KNN, without(labelled_run(), "validation")),
        (unseen(2, 0), KNN, without(labelled_run(), "test")),
        (GIVEN | {"rated": RATED}, RETRIEVAL, paired_run()),
    ],
    ids=["no unseen labels", "both", "test only", "validation only", "given pairs"],
)
def test_the_rows_are_those_that_the_tasks_declare(dataset, primary, run):
    study = load_configuration({"mine": text_study(dataset, primary)}, "mine.yaml").studies["mine"]
    names = {"study": "s", "dataset": "d", "condition": "{}", "objective": "CL", "variant": "{}"}
    rows = [
        names | row
        for row in rows_of("trueneg.evaluation.texts", [run], study.evaluation.model_dump())
    ]
    assert written(to_table(rows), study) == declared(study)
    assert len(rows) == len(declared(study))


@pytest.mark.parametrize(
    "primary",
    [
        {"task": "knn", "metric": "accuracy", "labels": "seen", "group": "macro"},
        {"task": "linear probe", "metric": "accuracy", "labels": "unseen"},
        {"task": "retrieval", "metric": "R", "labels": "unseen", "k": 10},
        {"task": "similarity", "metric": "Spearman"},
    ],
)
def test_measurements_with_a_chance_level_are_primary(primary):
    assert mistakes(mine=text_study(unseen(2, 2) | {"rated": RATED}, primary)) == []


@pytest.mark.parametrize(
    ("dataset", "primary", "facts"),
    [
        (
            unseen(2, 2),
            {"task": "clustering", "metric": "V-measure", "labels": "seen"},
            ["V-measure", "chance", "knn, accuracy"],
        ),
        (
            unseen(2, 2),
            {"task": "retrieval", "metric": "MRR", "labels": "seen"},
            ["MRR", "chance", "retrieval, R"],
        ),
        (
            unseen(2, 0),
            {**KNN, "labels": "unseen"},
            ["primary.labels", "'unseen'", "expected one of: seen"],
        ),
        (
            LABELLED,
            {"task": "similarity", "metric": "Spearman"},
            ["needs rated pairs", "text_table"],
        ),
        (GIVEN, KNN, ["needs labels", "text_table"]),
        (
            GIVEN | {"positives": "dropout", "positive_column": None},
            RETRIEVAL,
            ["needs given pairs or labels"],
        ),
    ],
)
def test_other_measurements_are_refused(dataset, primary, facts):
    projection = {"projection": {"dropout": 0.1}}
    (sentence,) = mistakes(mine=text_study(dataset, primary, **projection))
    assert all(fact in sentence for fact in ("mine.primary", *facts)), sentence


@pytest.mark.parametrize("labels", ["seen", "unseen"])
@pytest.mark.parametrize("sets", [(0, 2), (2, 2)])
def test_validation_selects_only_by_labels_that_it_has(labels, sets):
    study = tuned(unseen(*sets), {**KNN, "labels": labels})
    if labels == "seen" or sets[0]:
        assert mistakes(mine=study) == []
    else:
        (sentence,) = mistakes(mine=study)
        assert all(
            fact in sentence
            for fact in ("primary.labels is 'unseen'", "seen", "validation split", "tuning.by")
        )
        assert mistakes(mine=text_study(unseen(*sets), {**KNN, "labels": labels})) == []


def test_ratings_select_nothing():
    study = tuned(unseen(2, 2) | {"rated": RATED}, {"task": "similarity", "metric": "Spearman"})
    (sentence,) = mistakes(mine=study)
    assert all(
        fact in sentence
        for fact in ("primary.task is 'similarity'", "knn", "validation split", "tuning.by")
    )


@pytest.mark.parametrize("names", [["similarity"], ["similarity", "knn"]])
def test_every_measurement_has_a_place_in_the_table(names):
    """Texts without labels have rated pairs only."""
    measured = [Measurement("similarity", "Spearman")]
    measured += [
        Measurement("knn", "accuracy", labels) for labels in ("seen", "unseen") if "knn" in names
    ]
    names = {
        "study": "s",
        "dataset": "d",
        "objective": "CL",
        "variant": "{}",
        "seed": 0,
        "run": "r",
        "split": "test",
    }
    layout = texts(to_table([names | key._asdict() | {"value": 0.5} for key in measured]))
    assert {place.measured for place in layout} == set(measured)
    groups = {place.group for place in layout}
    heads = {(place.top, place.name) for place in layout}
    assert len(layout) == len(groups) * len(heads)


@pytest.mark.parametrize("dataset", [GIVEN | {"label_column": "label"}, LABELLED])
def test_all_answers_are_declared_written_and_in_the_table(dataset):
    """Pairs with labels are judged twice, by their own answers and by label."""
    wanted = {"all_answers": True, "ks": [1, 10]}
    study = text_study(dataset, KNN, evaluation={"retrieval": wanted})
    study = load_configuration({"mine": study}, "mine.yaml").studies["mine"]
    rows = np.arange(24)
    parts = {"bank": rows[:12], "validation": rows[12:18], "test": rows[18:]}
    if study.positives_by_label:
        run = embedded_run(np.eye(24), labels=rows % 3, **parts)
    else:
        pairs = [(row, (row + 3) % 24) for row in rows]
        run = embedded_run(np.eye(24), labels=rows % 3, pairs=pairs, **parts)
    found = values(retrieval, run, {"retrieval": wanted})
    expected = {one for one in declared(study) if one[1].task == "retrieval"}
    assert found.keys() == expected
    names = {"study": "s", "dataset": "d", "objective": "CL", "variant": "{}", "seed": 0}
    shown = {
        place.measured
        for place in texts(
            to_table(
                names | {"run": "r", "split": split, "value": value} | measured._asdict()
                for (split, measured), value in found.items()
            )
        )
    }
    by_label = {measured.labels for measured in shown}
    assert by_label == ({"seen"} if study.positives_by_label else {"seen", "seen by label"})
    assert {(one.metric, one.k) for one in shown} == {
        *(("R", k) for k in (1, 10)),
        *(("recall", k) for k in (1, 10)),
        *(("MRR", k) for k in (None, 10)),
        *((metric, None) for metric in ("MAP", "R-precision")),
        ("nDCG", 10),
    }
