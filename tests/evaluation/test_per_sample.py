"""Values by test sample have the measurement as their mean, and the samples of one group are one
cluster.
"""

import numpy as np
import pandas as pd
import pytest
import torch

from tests.evaluation.finished_runs import write_runs
from tests.studies import tiny_study
from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.test_simclr import settings_of
from trueneg.config.reading import load_configuration
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import Samples, write_subsets
from trueneg.data.splits import connected_groups
from trueneg.evaluation.evaluate import encoded_runs, rows_of
from trueneg.evaluation.pairs import retrieval
from trueneg.evaluation.per_sample import of_balanced
from trueneg.evaluation.samples_of_runs import measure_samples
from trueneg.stats.measurement import Measurement
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR


def test_the_mean_of_balanced_values_is_the_mean_accuracy_of_labels():
    drawn = np.random.default_rng(0)
    labels = drawn.choice(4, 50, p=[0.5, 0.3, 0.15, 0.05])
    correct = drawn.random(50) < 0.6
    by_label = [correct[labels == label].mean() for label in np.unique(labels)]
    assert of_balanced(correct, labels).mean() == pytest.approx(np.mean(by_label))


def test_samples_that_share_a_content_or_a_group_are_one_cluster():
    groups = {
        "images": np.array([1, 2, 3, 4, 2]),
        "patients": np.array([["a", "x"], ["b", "y"], ["a", "z"], ["c", "v"], ["d", "w"]], object),
    }
    samples = Samples("photos", "", np.full(5, ""), np.zeros(5, np.int64), groups)
    cluster = connected_groups(*samples.groups.values())
    assert [cluster[0] == each for each in cluster] == [True, False, True, False, False]
    assert [cluster[1] == each for each in cluster] == [False, True, False, False, True]


@pytest.mark.parametrize("direction", ["text to image", "image to text"])
@pytest.mark.parametrize("task", ["retrieval sentence", "retrieval report"])
def test_the_values_of_test_images_average_to_the_recall_of_their_run(tmp_path, task, direction):
    source = texture_source(patients=30)
    subset = split_pairs(source, 0)
    write_pairs(source, tmp_path / "source.npz")
    write_subsets([subset], tmp_path / "subsets.parquet")
    settings = pair_settings({"name": "cl"})
    trained = {"abc": ImageText(settings, 0, source, subset, torch.device("cpu"))}
    block = write_runs(tmp_path, settings, trained)
    block |= {"source": tmp_path / "source.npz", "subsets": tmp_path / "subsets.parquet"}
    evaluation = {"retrieval": {"ks": [2]}, "threads": 1}
    measured = Measurement(task, "R", "report", direction=direction, k=2)
    with encoded_runs(**block, threads=1) as encoded:
        (row,) = (
            float(value)
            for ready in encoded
            for _, split, of, value in retrieval.measure(ready, evaluation)
            if (split, of) == ("test", measured)
        )
    path = tmp_path / "samples.parquet"
    measure_samples(measured=measured._asdict(), settings=evaluation, samples=path, **block)
    table = pd.read_parquet(path)
    assert table["value"].mean() == pytest.approx(row)
    assert table["sample"].tolist() == subset.test.tolist()
    patients = source.patients[table["sample"]]
    assert table.groupby("cluster").ngroups == len({*patients}) < len(table)


def test_a_text_of_several_images_counts_once():
    rng = np.random.default_rng(0)
    relevant = np.eye(5, dtype=bool)[rng.integers(0, 5, 9)] | (rng.random((9, 5)) < 0.3)
    hits = rng.random(9) < 0.5
    expected = [0.0] * 5
    for text in range(9):
        first = next(image for image in range(5) if relevant[text, image])
        expected[first] += hits[text] * 5 / 9
    assert retrieval.of_first_image(hits, relevant) == pytest.approx(expected)


@pytest.mark.parametrize("group", [None, "macro"])
def test_the_values_of_test_images_average_to_the_row_of_their_run(tmp_path, group):
    pixels = np.random.default_rng(0).integers(0, 256, (90, 1, 8, 8), np.uint8)
    pixels[70] = pixels[71]
    animals = ImageSource(
        "animals", pixels, np.arange(90) % 3, np.arange(90) >= 60, ("ant", "bee", "cow")
    )
    write_source(animals, tmp_path / "source.npz")
    subset = make_subset(animals, seed=0)
    write_subsets([subset], tmp_path / "subsets.parquet")
    settings = settings_of(batch_size=16)
    trained = {"abc": SimCLR(settings, 0, animals, subset, torch.device("cpu"))}
    block = write_runs(tmp_path, settings, trained)
    block |= {"source": tmp_path / "source.npz", "subsets": tmp_path / "subsets.parquet"}
    study = load_configuration({"tiny": tiny_study()}, "study.yaml").studies["tiny"]
    evaluation = study.evaluation.model_dump(mode="json")
    measured = Measurement("knn", "accuracy", "all", group=group)
    with encoded_runs(**block, threads=1) as encoded:
        rows = [
            row
            for ready in encoded
            for row in rows_of("trueneg.evaluation.images", ready, evaluation)
        ]
    (row,) = (
        row
        for row in rows
        if row["split"] == "test"
        and all(row[key] == getattr(measured, key) for key in row.keys() & measured._fields)
    )
    path = tmp_path / "samples.parquet"
    measure_samples(measured=measured._asdict(), settings=evaluation, samples=path, **block)
    table = pd.read_parquet(path)
    assert table["value"].mean() == pytest.approx(row["value"])
    assert table["sample"].tolist() == subset.test.tolist()
    names = np.array(animals.class_names)
    assert table["label"].tolist() == names[animals.labels[subset.test]].tolist()
    is_right = table["label"] == table["predicted"]
    assert is_right.tolist() == (table["value"] > 0).tolist()
    assert {*table["predicted"]} <= {*names}
    cluster = dict(zip(table["sample"], table["cluster"], strict=True))
    assert cluster[70] == cluster[71]
    assert len({*cluster.values()}) == len(subset.test) - 1
