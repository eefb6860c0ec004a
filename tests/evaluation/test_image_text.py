"""Every measurement of a finished image–text run, compared with a slow reference."""

import dataclasses
import json
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional
from torchvision.ops import roi_align

from tests.declared import declared, declared_means, written
from tests.evaluation.finished_runs import (
    contrast,
    heatmap_of,
    image_embeddings,
    similarity_table,
    text_embedding,
    unit_embedding,
    write_runs,
)
from tests.textures import (
    FINDINGS,
    LSE_NL,
    SIZE,
    TEXTURES,
    measured_rows,
    settings_of,
    texture_boxes,
    texture_source,
)
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import evaluate_runs
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.pairs.fine_tuning import fine_tuned_scores
from trueneg.evaluation.pairs.linear_probe import linear_evaluation
from trueneg.evaluation.retrieval import Metric, retrieval_both_ways
from trueneg.report.layouts import with_means
from trueneg.specs import tasks
from trueneg.specs.kinds.pairs import ImageTextEvaluationSettings
from trueneg.stats.measurement import KEYS, Measurement
from trueneg.store.rows import load_rows, to_table, typed
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks

CPU = torch.device("cpu")
PROBE = {"epochs": 30, "batch_size": 512, "learning_rate": 0.01, "weight_decay": 1e-6}
EVALUATION = {
    "zero_shot": {
        "prompts": {
            name: {"negative": f"No {name}.", "positive": f"Seen left {name}."} for name in TEXTURES
        }
    },
    "retrieval": {"ks": [1, 3]},
    "grounding": {"smoothing": 0.0},
    "linear_probe": {"fractions": [0.5, 1.0]} | PROBE,
    "region_retrieval": {"ks": [1, 3]},
    "precision": {"ks": [1, 3]},
    "fine_tuning": {
        "fractions": [0.5, 1.0],
        "epochs": 2,
        "batch_size": 16,
        "learning_rate": 1e-3,
        "weight_decay": 1e-6,
    },
    "augmented_linear_probe": {
        "fractions": [1.0],
        "epochs": 2,
        "batch_size": 16,
        "learning_rate": 0.01,
        "weight_decay": 0.0,
    },
    "threads": 1,
}
OPTIONAL = {
    "region_retrieval": "region retrieval",
    "precision": "precision",
    "fine_tuning": "fine-tuning",
    "augmented_linear_probe": "augmented linear probe",
}
RUN = settings_of(similarity=LSE_NL, training={"epochs": 2}, augmentation={"crop": 0.75})


@pytest.fixture(scope="module")
def source():
    return texture_source(patients=70)


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0, validation=0.2, test=0.3)


@pytest.fixture(scope="module")
def files(source, subset, tmp_path_factory):
    """The store and the manifest of a briefly trained run."""
    training = ImageText(RUN, 0, source, subset, CPU)
    for _ in range(training.epochs):
        training.train_epoch()
    return write_runs(tmp_path_factory.mktemp("run"), RUN, {"abc": training})


@pytest.fixture(scope="module")
def networks(files):
    return read_networks(files["store"] / "abc" / RunStore.MODEL, RUN)


@pytest.fixture(scope="module")
def rows(networks, source, subset):
    return pd.DataFrame(measured_rows(networks, source, subset, EVALUATION, texture_boxes(source)))


def value(rows, task, metric, labels=None, split="test", **of):
    (found,) = Measurement(task, metric, labels, **of).rows_of(rows[rows["split"] == split])[
        "value"
    ]
    return found


def scores_of(networks, source, images, sentences):
    return similarity_table(networks, source.images[images], sentences)


def ranks_of(scores, relevant):
    """Return the rank of each query's best relevant candidate, with ties against it."""
    return np.array(
        [1 + (row[~own] >= row[own].max()).sum() for row, own in zip(scores, relevant, strict=True)]
    )


def test_every_task_yields_tidy_rows_for_both_splits(rows):
    assert list(rows.columns) == ["seed", "run", "split", *KEYS, "value"]
    assert not rows.duplicated(["split", *KEYS]).any()
    assert np.isfinite(rows["value"]).all()
    names = {
        "zero-shot",
        "retrieval sentence",
        "retrieval report",
        "grounding",
        "linear probe",
        *OPTIONAL.values(),
    }
    assert rows.groupby("split")["task"].agg(set).to_dict() == {"validation": names, "test": names}


def test_the_rows_are_those_that_the_tasks_declare(rows):
    data = {
        "label_names": list(TEXTURES),
        "truth_known": True,
        "boxed_splits": ("validation", "test"),
    }
    evaluation = ImageTextEvaluationSettings.model_validate(EVALUATION)
    study = SimpleNamespace(
        TASKS=tasks.PAIRS,
        evaluation=evaluation,
        dataset=SimpleNamespace(**data),
        provided=defaultdict(lambda: True),
    )
    table = to_table(
        rows.assign(study="s", dataset="d", condition="{}", objective="CL", variant="{}")
    )
    found, expected = written(table, study), declared(study)
    assert found <= expected
    assert {one for _, one in expected - found} <= {
        one for _, one in expected if one.task == "precision" and one.group
    }
    means = {one for _, one in written(with_means(table), study) - found}
    assert means == {*declared_means(tasks.comparable(study))} - {one for _, one in expected}


@pytest.mark.parametrize("absent", list(OPTIONAL))
def test_disabled_tasks_are_skipped_without_affecting_others(
    rows, networks, source, subset, absent
):
    others = {name: None for name in OPTIONAL if name != absent}
    settings = {name: section for name, section in (EVALUATION | others).items() if name != absent}
    found = pd.DataFrame(measured_rows(networks, source, subset, settings, texture_boxes(source)))
    kept = rows[~rows["task"].isin(OPTIONAL.values())].reset_index(drop=True)
    pd.testing.assert_frame_equal(typed(found), typed(kept))


def test_zero_shot_areas_match_scikit_learn_on_prompts_scored_one_by_one(
    rows, networks, source, subset
):
    areas = []
    for place, name in enumerate(TEXTURES):
        negative, positive = scores_of(
            networks, source, subset.test, EVALUATION["zero_shot"]["prompts"][name].values()
        )
        labels = source.labels[subset.test, place]
        areas.append(roc_auc_score(labels, positive - negative))
        assert value(rows, "zero-shot", "AUC", group=name) == pytest.approx(areas[-1])
        assert value(rows, "zero-shot", "ACC", group=name) == pytest.approx(
            ((positive > negative) == labels).mean()
        )
    assert value(rows, "zero-shot", "AUC") == pytest.approx(np.mean(areas))


def test_chance_recall_matches_random_scores(rows, source, subset):
    reports = source.reports[subset.test]
    said = source.sentences.groupby("report")["sentence"].agg(set)
    texts = sorted(set().union(*said[reports]))
    relevant = np.array([[text in said[report] for report in reports] for text in texts])
    scores = np.random.default_rng(0).random((400, *relevant.shape))
    recalls = [
        retrieval_both_ways(table, [3], relevant)[Metric("R", "text to image", 3)]
        for table in scores
    ]
    by_chance = value(
        rows, "retrieval sentence", "chance", "report", direction="text to image", k=3
    )
    assert by_chance == pytest.approx(np.mean(recalls), abs=0.02)


@pytest.mark.parametrize("labels", ["report", "truth"])
def test_retrieval_ranks_images_whose_report_contains_the_sentence_or_that_show_it(
    rows, networks, source, subset, labels
):
    table, reports = source.sentences, source.reports[subset.test]
    said = table.groupby("report")["sentence"].agg(set)
    classes = table.drop_duplicates("sentence").set_index("sentence")["class"]
    relevant = {}
    for text in sorted(set(table["sentence"][table["report"].isin(reports)])):
        shown = source.shown[subset.test, classes[text]]
        relevant[text] = (
            shown if labels == "truth" else np.array([text in said[report] for report in reports])
        )
    relevant = {text: images for text, images in relevant.items() if images.any()}
    assert ("It rains." in relevant) == (labels == "report")
    ranks = ranks_of(scores_of(networks, source, subset.test, relevant), relevant.values())
    way = {"labels": labels, "direction": "text to image"}
    # batches may round equal scores of a report apart
    tolerance = 2 / len(relevant) if labels == "report" else 1e-12
    for k in (1, 3):
        recall = value(rows, "retrieval sentence", "R", k=k, **way)
        assert recall == pytest.approx(np.mean(ranks <= k), abs=tolerance)
    assert value(rows, "retrieval sentence", "MedR", **way) == pytest.approx(
        np.median(ranks), abs=1
    )


def test_report_scores_are_means_over_sentences(rows, networks, source, subset):
    table, reports = source.sentences, source.reports[subset.test]
    said = {
        report: frozenset(sentences) for report, sentences in table.groupby("report")["sentence"]
    }
    distinct = list(dict.fromkeys(said[report] for report in reports))
    scores = np.stack(
        [
            scores_of(networks, source, subset.test, sorted(sentences)).mean(0)
            for sentences in distinct
        ]
    )
    relevant = [
        np.array([sentences == said[report] for sentences in distinct]) for report in reports
    ]
    ranks, way = ranks_of(scores.T, relevant), {"labels": "report", "direction": "image to text"}
    for k in (1, 3):
        assert value(rows, "retrieval report", "R", k=k, **way) == pytest.approx(
            np.mean(ranks <= k)
        )
    assert value(rows, "retrieval report", "MedR", **way) == np.median(ranks)


def phrases_of(source, images):
    """Yield each image with each finding in its report: sentence, class, and whether its box is the
    left half.
    """
    for image in images:
        of_report = source.sentences["report"] == source.reports[image]
        findings = source.sentences[
            of_report & (source.sentences["class"] < len(FINDINGS))
        ].sort_values("index")
        for sentence, number in zip(findings["sentence"], findings["class"], strict=True):
            yield source.images[image], sentence, number, number % 2 == 0


def test_grounding_compares_each_heatmap_with_its_box_in_the_crop(rows, networks, source, subset):
    side, thresholds = 24, np.linspace(-1, 1, 41)  # the central crop of 32 pixels
    ratios, overlaps = [], []
    for image, sentence, _, left in phrases_of(source, subset.test):
        heatmap, inside = (
            heatmap_of(networks, image, sentence, side),
            np.zeros((side, side), dtype=bool),
        )
        inside[:, slice(0, side // 2) if left else slice(side // 2, side)] = True
        ratios.append(contrast(heatmap, inside))
        a, b = heatmap[inside], heatmap[~inside]
        overlaps.append(np.mean([(a > t).sum() / (len(a) + (b > t).sum()) for t in thresholds]))
    assert value(rows, "grounding", "phrases") == len(ratios)
    assert value(rows, "grounding", "CNR signed") == pytest.approx(np.mean(ratios), abs=1e-3)
    assert value(rows, "grounding", "CNR") == pytest.approx(np.mean(np.abs(ratios)), abs=1e-3)
    assert value(rows, "grounding", "mIoU") == pytest.approx(np.mean(overlaps), abs=1e-3)


def test_boxes_outside_the_crop_are_skipped(networks, source, subset):
    boxes = texture_boxes(source)
    at_the_edge = boxes.assign(x0=0, x1=np.where(boxes["class"] == 0, 4, SIZE // 2))
    found = pd.DataFrame(measured_rows(networks, source, subset, EVALUATION, at_the_edge))
    phrases = source.sentences.merge(
        pd.DataFrame({"report": source.reports[subset.test]}), on="report"
    )
    kept = ((phrases["class"] < len(FINDINGS)) & (phrases["class"] != 0)).sum()
    assert value(found, "grounding", "phrases") == kept


def test_region_retrieval_matches_roi_align_per_image(rows, networks, source, subset):
    """Each image of a report has its own phrases; each box is half an image, of which the central
    crop keeps 12 × 24 pixels.
    """
    texts, regions, classes = [], [], []
    for image, sentence, number, left in phrases_of(source, subset.test):
        grid = image_embeddings(networks, image, regions=True).regions
        box = [torch.tensor([[0.0, 0.0, 12.0, 24.0] if left else [12.0, 0.0, 24.0, 24.0]])]
        cells = roi_align(
            grid, box, 7, spatial_scale=grid.shape[-1] / 24, sampling_ratio=2, aligned=True
        )
        regions.append(cells.mean((0, 2, 3)))
        texts.append(text_embedding(networks, sentence)[0])
        classes.append(number)
    scores = (
        functional.normalize(torch.stack(texts), dim=1)
        @ functional.normalize(torch.stack(regions), dim=1).T
    ).numpy()
    classes = np.array(classes)
    for direction, table in (("text to image", scores), ("image to text", scores.T)):
        ranks = [
            1 + (table[q][classes != number] > table[q][classes == number].max()).sum()
            for q, number in enumerate(classes)
        ]
        for k in (1, 3):
            recall = value(rows, "region retrieval", "R", "truth", direction=direction, k=k)
            assert recall == pytest.approx(np.mean(np.array(ranks) <= k), abs=1.5 / len(classes))
    lucky, unlucky = (
        value(rows, "region retrieval", "MedR", labels) for labels in ("pair or tie", "pair")
    )
    assert lucky < unlucky  # equal sentences tie


def test_precision_uses_single_label_images_and_positive_prompts(rows, networks, source, subset):
    labels, patients = source.labels[subset.test], source.patients[subset.test]
    alone = [image for image in range(len(labels)) if labels[image].sum() == 1]
    own = labels[alone].argmax(1)
    kept = [
        image
        for image, label in zip(alone, own, strict=True)
        if len({*patients[alone][own == label]}) > 1
    ]
    own = labels[kept].argmax(1)
    texts = [pair["positive"] for pair in EVALUATION["zero_shot"]["prompts"].values()]
    scores = scores_of(networks, source, subset.test[kept], texts)
    shares = [(own[scores[label].argsort()[-3:]] == label).mean() for label in np.unique(own)]
    assert value(rows, "precision", "Prec", direction="text to image", k=3) == pytest.approx(
        np.mean(shares)
    )
    pooled = torch.stack(
        [unit_embedding(networks, source.images[image]) for image in subset.test[kept]]
    )
    near = (pooled @ pooled.T).numpy()
    near[patients[kept][:, None] == patients[kept]] = -2
    hits = own[near.argmax(1)] == own
    assert value(rows, "precision", "Prec", direction="image to image", k=1) == pytest.approx(
        np.mean([hits[own == label].mean() for label in np.unique(own)])
    )
    ways = [
        {"direction": f"{query} to image", "k": k} for k in (1, 3) for query in ("image", "text")
    ]
    both = [value(rows, "precision", "Prec", **way) for way in ways]
    assert value(rows, "precision", "Prec") == pytest.approx(np.mean(both))


@pytest.mark.parametrize("section", ["fine_tuning", "augmented_linear_probe"])
def test_classifiers_on_augmented_images_are_measured_on_both_splits(
    rows, networks, source, subset, section
):
    run = EmbeddedPairs("abc", networks, source, subset, CPU)
    found = fine_tuned_scores(run, TEXTURES, EVALUATION[section], frozen=section != "fine_tuning")
    assert list(found) == EVALUATION[section]["fractions"]
    for fraction, by_split in found.items():
        for split, own in by_split.items():
            labels = source.labels[getattr(subset, split)]
            areas = [
                roc_auc_score(labels[:, place], own[:, place]) for place in range(len(TEXTURES))
            ]
            for name, area in [*zip(TEXTURES, areas, strict=True), (None, np.mean(areas))]:
                of = {"fraction": fraction, "group": name}
                assert value(rows, OPTIONAL[section], "AUC", split=split, **of) == pytest.approx(
                    area
                )


def test_the_linear_probe_uses_features_before_the_projection(rows, networks, source, subset):
    parts = []
    for part in (subset.train, subset.test):
        with torch.no_grad():
            maps = networks.model.image_encoder(
                networks.columns.augmentation.normalise(torch.from_numpy(source.images[part]))
            )
        parts.append((maps.mean((2, 3)), source.labels[part]))
    expected = linear_evaluation(*parts, TEXTURES, 0, fractions=[1.0], **PROBE)[1.0]
    for name in TEXTURES:
        assert value(rows, "linear probe", "AUC", fraction=1.0, group=name) == pytest.approx(
            expected[name], abs=0.02
        )


def test_labels_missing_in_a_split_are_skipped_and_logged(networks, source, subset, caplog):
    caplog.set_level("INFO")
    labels = source.labels.copy()
    labels[subset.test, 0] = 0
    labels[subset.test[:5], 1] = np.nan
    other = dataclasses.replace(source, labels=labels)
    found = pd.DataFrame(
        measured_rows(
            networks, other, dataclasses.replace(subset, source_checksum=other.checksum), EVALUATION
        )
    )
    test = found[found["split"] == "test"]
    assert TEXTURES[0] not in set(test.loc[test["metric"] == "AUC", "group"])
    assert TEXTURES[1] in set(test.loc[test["metric"] == "AUC", "group"])
    assert {"grounding", "region retrieval"}.isdisjoint(test["task"])
    assert TEXTURES[0] in set(
        found["group"][(found["split"] == "validation") & (found["task"] == "fine-tuning")]
    )
    assert any(
        str(len(subset.test)) in message and TEXTURES[0] in message for message in caplog.messages
    )
    (message,) = (message for message in caplog.messages if message.startswith("zero-shot, test"))
    assert f"'{TEXTURES[1]}': {len(subset.test) - 5}" in message
    assert TEXTURES[0] not in message


def test_unknown_prompts_and_leaking_subsets_raise_errors(networks, source, subset):
    prompts = EVALUATION | {
        "zero_shot": {"prompts": {"gallstones": {"negative": "None.", "positive": "Some."}}}
    }
    with pytest.raises(UserError, match=r"prompts .*gallstones.* labels of textures: stripes, "):
        measured_rows(networks, source, subset, prompts)
    leaking = dataclasses.replace(subset, test=np.append(subset.test, subset.train[0]))
    with pytest.raises(UserError, match="in both train and test; expected none"):
        measured_rows(networks, source, leaking, EVALUATION)


def test_the_runs_of_a_manifest_are_evaluated_into_one_table(rows, files, source, subset, tmp_path):
    curves = pd.DataFrame({"epoch": [1, 2], "loss": [3.0, 2.0]})
    curves.to_parquet(files["store"] / "abc" / RunStore.CURVES)
    write_pairs(source, tmp_path / "source.npz")
    write_subsets([subset], tmp_path / "subsets.parquet")
    texture_boxes(source).to_parquet(tmp_path / "boxes.parquet")
    data = {
        "source": tmp_path / "source.npz",
        "subsets": tmp_path / "subsets.parquet",
        "boxes": tmp_path / "boxes.parquet",
    }
    outputs = {
        "rows": tmp_path / "rows.parquet",
        "curves": tmp_path / "curves.parquet",
        "runs": tmp_path / "runs.json",
    }
    names = {
        "study": "tiny",
        "dataset": "textures",
        "objective": "CL",
        "condition": "{}",
        "variant": "{}",
    }
    evaluate_runs(**data, **files, names=names, settings=EVALUATION, **outputs)
    pd.testing.assert_frame_equal(load_rows(outputs["rows"]), to_table(rows.assign(**names)))
    labelled = pd.read_parquet(outputs["curves"])
    pd.testing.assert_frame_equal(labelled[["epoch", "loss"]], curves)
    assert labelled[["study", "objective", "seed", "run"]].drop_duplicates().values.tolist() == [
        ["tiny", "CL", 0, "abc"]
    ]
    (record,) = json.loads(outputs["runs"].read_text())
    assert {"code", "versions", "commit", "machine"} <= record.pop("evaluated").keys()
    assert (
        record.items()
        >= {"settings": RUN, "study": "s", "dataset": "textures", "objective": "CL"}.items()
    )
