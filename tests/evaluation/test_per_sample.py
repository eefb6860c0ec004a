"""Values by test sample have the measurement as their mean, and the samples of one group are one
cluster.
"""

import numpy as np
import pandas as pd
import pytest
import torch

from tests.evaluation.finished_runs import write_runs
from tests.studies import tiny_study
from tests.training.test_simclr import settings_of
from trueneg.config.reading import load_configuration
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.samples import Samples, write_subsets
from trueneg.evaluation.evaluate import encoded_runs, rows_of
from trueneg.evaluation.per_sample import of_balanced
from trueneg.evaluation.samples_of_runs import clusters_of, measure_samples
from trueneg.stats.measurement import Measurement
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
    cluster = clusters_of(samples)
    assert [cluster[0] == each for each in cluster] == [True, False, True, False, False]
    assert [cluster[1] == each for each in cluster] == [False, True, False, False, True]


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
