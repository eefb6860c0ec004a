"""Every measurement of a finished image–text run, compared with a slow reference."""

import dataclasses
import json
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch.nn import functional
from torchvision.ops import roi_align

from tests.declared import declared, declared_means, written
from tests.textures import FINDINGS, LSE_NL, SIZE, TEXTURES, measured_rows, settings_of, texture_boxes, texture_source
from trueneg.config.image_text_study import ImageTextEvaluationSettings
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs, write_pair_subsets
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import evaluate_runs
from trueneg.evaluation.pairs import EmbeddedRun
from trueneg.evaluation.pairs.fine_tuning import fine_tuned_scores
from trueneg.evaluation.retrieval import RetrievalMetric, retrieval_both_ways
from trueneg.io.files import file_checksum
from trueneg.report.retrieval import with_means
from trueneg.specs import tasks
from trueneg.stats.measurement import KEYS, Measurement
from trueneg.store.rows import load_rows, to_table, typed
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_networks import read_networks

CPU = torch.device("cpu")
PROBE = {"epochs": 30, "batch_size": 512, "learning_rate": 0.01, "weight_decay": 1e-6}
EVALUATION = {
    "zero_shot": {"prompts": {name: {"negative": f"No {name}.", "positive": f"Seen left {name}."} for name in TEXTURES}},
    "retrieval": {"ks": [1, 3]},
    "grounding": {"smoothing": 0.0},
    "linear_probe": {"fractions": [0.5, 1.0]} | PROBE,
    "region_retrieval": {"ks": [1, 3]},
    "precision": {"ks": [1, 3]},
    "fine_tuning": {"fractions": [0.5, 1.0], "epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "weight_decay": 1e-6},
    "augmented_linear_probe": {"fractions": [1.0], "epochs": 2, "batch_size": 16, "learning_rate": 0.01, "weight_decay": 0.0},
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
def model(source, subset, tmp_path_factory):
    """The file of a run that was trained a little."""
    training = ImageText(RUN, 0, source, subset, CPU)
    for _ in range(training.epochs):
        training.train_epoch()
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    save_file(training.weights(), path)
    return path


@pytest.fixture(scope="module")
def networks(model):
    return read_networks(model, RUN)


@pytest.fixture(scope="module")
def rows(networks, source, subset):
    return pd.DataFrame(measured_rows(networks, source, subset, EVALUATION, texture_boxes(source)))


def value(rows, task, metric, labels=None, split="test", **of):
    (found,) = Measurement(task, metric, labels, **of).rows_of(rows[rows["split"] == split])["value"]
    return found


@torch.no_grad()
def slow_scores(networks, source, images, texts):
    """Texts and images embedded one at a time."""
    embedded = []
    for text in texts:
        tokens = networks.tokenizer([text], return_tensors="pt")
        embedded.append(networks.model.embed_texts(tokens["input_ids"], tokens["attention_mask"]))
    found = np.empty((len(texts), len(images)))
    for column, image in enumerate(images):
        pixels = networks.augmentation.normalise(torch.from_numpy(source.images[image][None]))
        own = networks.model.embed_images(pixels)
        found[:, column] = [networks.model.similarity(text, own).item() for text in embedded]
    return found


def test_every_task_yields_tidy_rows_for_both_splits(rows):
    assert list(rows.columns) == ["seed", "run", "split", *KEYS, "value"]
    assert not rows.duplicated(["split", *KEYS]).any()
    assert np.isfinite(rows["value"]).all()
    tasks = {"zero-shot", "retrieval sentence", "retrieval report", "grounding", "linear probe", *OPTIONAL.values()}
    assert all(set(own["task"]) == tasks for _, own in rows.groupby("split"))
    assert set(rows["split"]) == {"validation", "test"}


def test_the_rows_are_those_that_the_tasks_declare(rows):
    data = {"label_names": list(TEXTURES), "truth_known": True, "boxed_splits": ("validation", "test")}
    evaluation = ImageTextEvaluationSettings.model_validate(EVALUATION)
    study = SimpleNamespace(
        TASKS=tasks.PAIRS, evaluation=evaluation, dataset=SimpleNamespace(**data), provided=defaultdict(lambda: True)
    )
    table = to_table(rows.assign(study="s", dataset="d", condition="{}", objective="CL", variant="{}"))
    found, expected = written(table, study), declared(study)
    assert found <= expected
    assert {one for _, one in expected - found} <= {one for _, one in expected if one.task == "precision" and one.group}
    means = {one for _, one in written(with_means(table), study) - found}
    assert means == {*declared_means(tasks.comparable(study))} - {one for _, one in expected}


@pytest.mark.parametrize("absent", list(OPTIONAL))
def test_disabled_tasks_are_skipped_without_affecting_others(rows, networks, source, subset, absent):
    others = {name: None for name in OPTIONAL if name != absent}
    settings = {name: section for name, section in (EVALUATION | others).items() if name != absent}
    found = pd.DataFrame(measured_rows(networks, source, subset, settings, texture_boxes(source)))
    kept = rows[~rows["task"].isin(OPTIONAL.values())].reset_index(drop=True)
    pd.testing.assert_frame_equal(typed(found), typed(kept))


def test_zero_shot_areas_match_scikit_learn_on_prompts_scored_one_by_one(rows, networks, source, subset):
    areas = []
    for place, name in enumerate(TEXTURES):
        negative, positive = slow_scores(networks, source, subset.test, list(EVALUATION["zero_shot"]["prompts"][name].values()))
        labels = source.labels[subset.test, place]
        areas.append(roc_auc_score(labels, positive - negative))
        assert value(rows, "zero-shot", "AUC", group=name) == pytest.approx(areas[-1])
        assert value(rows, "zero-shot", "ACC", group=name) == pytest.approx(((positive > negative) == labels).mean())
    assert value(rows, "zero-shot", "AUC") == pytest.approx(np.mean(areas))


def test_chance_recall_matches_random_scores(rows, source, subset):
    reports = source.reports[subset.test]
    said = source.sentences.groupby("report")["sentence"].agg(set)
    texts = sorted(set().union(*said[reports]))
    relevant = np.array([[text in said[report] for report in reports] for text in texts])
    scores = np.random.default_rng(0).random((400, *relevant.shape))
    recalls = [retrieval_both_ways(one, EVALUATION["retrieval"]["ks"], relevant) for one in scores]
    drawn = np.mean([found[RetrievalMetric("R", "text to image", 3)] for found in recalls])
    by_chance = value(rows, "retrieval sentence", "chance", "report", direction="text to image", k=3)
    assert by_chance == pytest.approx(drawn, abs=0.02)


def test_all_images_whose_report_contains_the_sentence_are_relevant(rows, networks, source, subset):
    table = source.sentences
    reports = source.reports[subset.test]
    texts = sorted(set(table["sentence"][table["report"].isin(reports)]))
    said = table.groupby("report")["sentence"].agg(set)
    scores = slow_scores(networks, source, subset.test, texts)
    ranks = []
    for row, text in enumerate(texts):
        relevant = np.array([text in said[report] for report in reports])
        ranks.append(1 + (scores[row][~relevant] >= scores[row][relevant].max()).sum())
    way = {"labels": "report", "direction": "text to image"}
    found = {metric: value(rows, "retrieval sentence", metric, k=k, **way) for metric, k in (("R", 3), ("MedR", None))}
    assert found["R"] == pytest.approx(np.mean(np.array(ranks) <= 3), abs=2 / len(texts))
    assert found["MedR"] == pytest.approx(np.median(ranks), abs=1)


def test_retrieval_by_truth_counts_images_that_show_the_finding(rows, networks, source, subset):
    classes = source.sentences.drop_duplicates("sentence").set_index("sentence")["class"]
    reports = source.reports[subset.test]
    texts = sorted(set(source.sentences["sentence"][source.sentences["report"].isin(reports)]))
    true = {text: source.shown[subset.test, classes[text]] for text in texts}
    texts = [text for text in texts if true[text].any()]
    scores, ranks = slow_scores(networks, source, subset.test, texts), []
    assert "It rains." not in texts
    for row, text in enumerate(texts):
        ranks.append(1 + (scores[row][~true[text]] >= scores[row][true[text]].max()).sum())
    found = value(rows, "retrieval sentence", "R", "truth", direction="text to image", k=1)
    assert found == pytest.approx(np.mean(np.array(ranks) == 1))


def test_report_scores_are_means_over_sentences(rows, networks, source, subset):
    table, reports = source.sentences, source.reports[subset.test]
    said = {report: frozenset(own) for report, own in table.groupby("report")["sentence"]}
    different = list(dict.fromkeys(said[report] for report in reports))
    scores = np.stack([slow_scores(networks, source, subset.test, sorted(own)).mean(0) for own in different])
    ranks = []
    for column, report in enumerate(reports):
        relevant = np.array([own == said[report] for own in different])
        ranks.append(1 + (scores[~relevant, column] >= scores[relevant, column].max()).sum())
    for k in (1, 3):
        expected = np.mean(np.array(ranks) <= k)
        assert value(rows, "retrieval report", "R", "report", direction="image to text", k=k) == pytest.approx(expected)
    assert value(rows, "retrieval report", "MedR", "report", direction="image to text") == np.median(ranks)


def test_grounding_compares_each_heatmap_with_its_box_in_the_crop(rows, networks, source, subset):
    side, margin = 24, 4  # the central crop of 32 pixels
    ratios, overlaps = [], []
    for image in subset.test:
        pixels = networks.augmentation.normalise(torch.from_numpy(source.images[image][None]))
        own = source.sentences[
            (source.sentences["report"] == source.reports[image]) & (source.sentences["class"] < len(FINDINGS))
        ]
        for sentence, number in zip(own["sentence"], own["class"], strict=True):
            tokens = networks.tokenizer([sentence], return_tensors="pt")
            with torch.no_grad():
                regions = networks.model.embed_images(pixels, regions=True).regions[0]
                text = networks.model.embed_texts(tokens["input_ids"], tokens["attention_mask"])[0]
                grid = functional.cosine_similarity(regions, text[:, None, None], dim=0)
            heatmap = functional.interpolate(grid[None, None], size=(side, side), mode="bilinear")[0, 0].numpy().astype(float)
            inside = np.zeros((side, side), dtype=bool)
            inside[:, (slice(0, SIZE // 2 - margin) if number % 2 == 0 else slice(SIZE // 2 - margin, side))] = True
            a, b = heatmap[inside], heatmap[~inside]
            ratios.append((a.mean() - b.mean()) / np.sqrt(a.var() + b.var()))
            thresholds = np.linspace(-1, 1, 41)
            overlaps.append(np.mean([(a > t).sum() / (len(a) + (b > t).sum()) for t in thresholds]))
    assert value(rows, "grounding", "phrases") == len(ratios)
    assert value(rows, "grounding", "CNR signed") == pytest.approx(np.mean(ratios), abs=1e-3)
    assert value(rows, "grounding", "CNR") == pytest.approx(np.mean(np.abs(ratios)), abs=1e-3)
    assert value(rows, "grounding", "mIoU") == pytest.approx(np.mean(overlaps), abs=1e-3)


def test_boxes_outside_the_crop_are_skipped(networks, source, subset):
    boxes = texture_boxes(source)
    at_the_edge = boxes.assign(x0=0, x1=np.where(boxes["class"] == 0, 4, SIZE // 2))
    found = pd.DataFrame(measured_rows(networks, source, subset, EVALUATION, at_the_edge))
    phrases = source.sentences.merge(pd.DataFrame({"report": source.reports[subset.test]}), on="report")
    kept = ((phrases["class"] < len(FINDINGS)) & (phrases["class"] != 0)).sum()
    assert value(found, "grounding", "phrases") == kept


def test_region_retrieval_matches_roi_align_per_image(rows, networks, source, subset):
    """A report's two images are two phrases; every half image is a box, of which the central crop keeps 12 × 24 pixels."""
    texts, regions, classes = [], [], []
    for image in subset.test:
        own = source.sentences[
            (source.sentences["report"] == source.reports[image]) & (source.sentences["class"] < len(FINDINGS))
        ].sort_values("index")
        pixels = networks.augmentation.normalise(torch.from_numpy(source.images[image][None]))
        for sentence, number in zip(own["sentence"], own["class"], strict=True):
            tokens = networks.tokenizer([sentence], return_tensors="pt")
            x0, x1 = (0.0, 12.0) if number % 2 == 0 else (12.0, 24.0)
            with torch.no_grad():
                grid = networks.model.embed_images(pixels, regions=True).regions
                box = [torch.tensor([[x0, 0.0, x1, 24.0]])]
                cells = roi_align(grid, box, 7, spatial_scale=grid.shape[-1] / 24, sampling_ratio=2, aligned=True)
                texts.append(networks.model.embed_texts(tokens["input_ids"], tokens["attention_mask"])[0])
            regions.append(cells.mean((0, 2, 3)))
            classes.append(number)
    scores = (functional.normalize(torch.stack(texts), dim=1) @ functional.normalize(torch.stack(regions), dim=1).T).numpy()
    classes = np.array(classes)
    for direction, table in (("text to image", scores), ("image to text", scores.T)):
        ranks = [1 + (table[q][classes != number] > table[q][classes == number].max()).sum() for q, number in enumerate(classes)]
        for k in (1, 3):
            found = value(rows, "region retrieval", "R", "truth", direction=direction, k=k)
            assert found == pytest.approx(np.mean(np.array(ranks) <= k), abs=1.5 / len(classes))
    lucky, unlucky = (value(rows, "region retrieval", "MedR", labels) for labels in ("pair or tie", "pair"))
    assert lucky < unlucky  # equal sentences tie


def test_precision_uses_single_label_images_and_positive_prompts(rows, networks, source, subset):
    labels, patients = source.labels[subset.test], source.patients[subset.test]
    alone = [image for image in range(len(labels)) if labels[image].sum() == 1]
    own = labels[alone].argmax(1)
    kept = [image for image, label in zip(alone, own, strict=True) if len({*patients[alone][own == label]}) > 1]
    own = labels[kept].argmax(1)
    texts = [pair["positive"] for pair in EVALUATION["zero_shot"]["prompts"].values()]
    scores = slow_scores(networks, source, subset.test[kept], texts)
    shares = [(own[scores[label].argsort()[-3:]] == label).mean() for label in np.unique(own)]
    assert value(rows, "precision", "Prec", direction="text to image", k=3) == pytest.approx(np.mean(shares))
    pooled = []
    for image in subset.test[kept]:
        with torch.no_grad():
            pixels = networks.augmentation.normalise(torch.from_numpy(source.images[image][None]))
            pooled.append(functional.normalize(networks.model.embed_images(pixels).pooled, dim=1)[0])
    near = (torch.stack(pooled) @ torch.stack(pooled).T).numpy()
    near[patients[kept][:, None] == patients[kept]] = -2
    hits = own[near.argmax(1)] == own
    assert value(rows, "precision", "Prec", direction="image to image", k=1) == pytest.approx(
        np.mean([hits[own == label].mean() for label in np.unique(own)])
    )
    ways = [{"direction": f"{query} to image", "k": k} for k in (1, 3) for query in ("image", "text")]
    both = [value(rows, "precision", "Prec", **way) for way in ways]
    assert value(rows, "precision", "Prec") == pytest.approx(np.mean(both))


@pytest.mark.parametrize("section", ["fine_tuning", "augmented_linear_probe"])
def test_classifiers_on_augmented_images_are_measured_on_both_splits(rows, networks, source, subset, section):
    run = EmbeddedRun("abc", networks, source, subset, CPU)
    found = fine_tuned_scores(run, TEXTURES, EVALUATION[section], frozen=section != "fine_tuning")
    assert list(found) == EVALUATION[section]["fractions"]
    for fraction, by_split in found.items():
        for split, own in by_split.items():
            labels = source.labels[getattr(subset, split)]
            areas = [roc_auc_score(labels[:, place], own[:, place]) for place in range(len(TEXTURES))]
            for name, area in [*zip(TEXTURES, areas, strict=True), (None, np.mean(areas))]:
                of = {"fraction": fraction, "group": name}
                assert value(rows, OPTIONAL[section], "AUC", split=split, **of) == pytest.approx(area)


def test_the_linear_probe_uses_features_before_the_projection(rows, networks, source, subset):
    from trueneg.evaluation.pairs.linear_probe import linear_evaluation

    with torch.no_grad():
        features = [
            torch.cat(
                [networks.model.image_encoder(networks.augmentation.normalise(torch.from_numpy(source.images[part])))]
            ).mean((2, 3))
            for part in (subset.train, subset.test)
        ]
    train, test = zip(features, (source.labels[subset.train], source.labels[subset.test]), strict=True)
    expected = linear_evaluation(train, test, TEXTURES, 0, fractions=[1.0], **PROBE)[1.0]
    for name in TEXTURES:
        assert value(rows, "linear probe", "AUC", fraction=1.0, group=name) == pytest.approx(expected[name], abs=0.02)


def test_labels_missing_in_a_split_are_skipped_and_logged(networks, source, subset, caplog):
    labels = source.labels.copy()
    labels[subset.test, 0] = 0
    other = dataclasses.replace(source, labels=labels)
    found = pd.DataFrame(measured_rows(networks, other, dataclasses.replace(subset, source_checksum=other.checksum), EVALUATION))
    test = found[found["split"] == "test"]
    assert TEXTURES[0] not in set(test.loc[test["metric"] == "AUC", "group"])
    assert TEXTURES[1] in set(test.loc[test["metric"] == "AUC", "group"])
    assert {"grounding", "region retrieval"}.isdisjoint(test["task"])
    assert TEXTURES[0] in set(found["group"][(found["split"] == "validation") & (found["task"] == "fine-tuning")])
    assert any(str(len(subset.test)) in message and TEXTURES[0] in message for message in caplog.messages)


def test_unknown_prompts_and_leaking_subsets_raise_errors(networks, source, subset):
    prompts = EVALUATION | {"zero_shot": {"prompts": {"gallstones": {"negative": "None.", "positive": "Some."}}}}
    with pytest.raises(UserError, match=r"prompts .*gallstones.* labels of textures: stripes, "):
        measured_rows(networks, source, subset, prompts)
    leaking = dataclasses.replace(subset, test=np.append(subset.test, subset.train[0]))
    with pytest.raises(UserError, match="in both train and test; expected none"):
        measured_rows(networks, source, leaking, EVALUATION)


def test_the_runs_of_a_manifest_are_evaluated_into_one_table(rows, model, source, subset, tmp_path):
    store = RunStore(tmp_path / "runs")
    store.folder("abc").mkdir(parents=True)
    (store.folder("abc") / RunStore.MODEL).write_bytes(model.read_bytes())
    (store.folder("abc") / RunStore.RECORD).write_text(json.dumps({"settings": RUN, "study": "other"}))
    pd.DataFrame({"epoch": [1, 2], "loss": [3.0, 2.0]}).to_parquet(store.folder("abc") / RunStore.CURVES)
    names = {"study": "tiny", "dataset": "textures", "objective": "CL"}
    named = {**names, "condition": "{}", "variant": "{}"}
    listed = {**names, "runs": [{"seed": 0, "id": "abc", "checksum": file_checksum(model)}]}
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    write_pairs(source, tmp_path / "pairs.npz")
    write_pair_subsets([subset], tmp_path / "subsets.parquet")
    texture_boxes(source).to_parquet(tmp_path / "boxes.parquet")
    evaluate_runs(
        source=tmp_path / "pairs.npz",
        subsets=tmp_path / "subsets.parquet",
        manifest=tmp_path / "manifest.json",
        names=named,
        store=store.path,
        settings=EVALUATION,
        device="cpu",
        rows=tmp_path / "rows.parquet",
        curves=tmp_path / "curves.parquet",
        runs=tmp_path / "runs.json",
        boxes=tmp_path / "boxes.parquet",
    )
    written = load_rows(tmp_path / "rows.parquet")
    assert set(written["run"]) == {"abc"}
    pd.testing.assert_frame_equal(written, to_table(rows.assign(**named)))
    curves = pd.read_parquet(tmp_path / "curves.parquet")
    assert curves[["study", "objective", "seed", "epoch", "loss"]].values.tolist() == [
        ["tiny", "CL", 0, 1, 3.0],
        ["tiny", "CL", 0, 2, 2.0],
    ]
    (record,) = json.loads((tmp_path / "runs.json").read_text())
    evaluated = record.pop("evaluated")
    assert {"code", "versions", "commit", "machine"} <= evaluated.keys()
    assert record == {"settings": RUN} | names
