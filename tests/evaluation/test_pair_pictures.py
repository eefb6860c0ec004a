"""Figure data of a run: similarities by relation, and heatmaps over the pixels of images."""

import numpy as np
import pandas as pd
import pytest
import torch

from tests.evaluation.finished_runs import relations, write_runs
from tests.textures import FINDINGS, settings_of, texture_boxes, texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.evaluation.grounding import box_masks, contrast_to_noise_ratio
from trueneg.evaluation.pair_pictures import phrase_heatmaps, picture_run, similarities_by_truth
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.said import OTHER, OWN, TRUE
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
SOURCE = texture_source(patients=40)
SUBSET = split_pairs(SOURCE, 0, test=0.4)


@pytest.fixture(scope="module")
def training():
    training = ImageText(settings_of(), 0, SOURCE, SUBSET, CPU)
    training.train_epoch()
    training.network.eval()
    return training


@pytest.fixture(scope="module")
def run(training):
    return EmbeddedPairs("abc", training.networks, SOURCE, SUBSET, CPU, texture_boxes(SOURCE))


def test_every_pair_of_sentence_and_image_has_one_relation(run):
    table = similarities_by_truth(run)
    texts, relation = relations(SOURCE, SUBSET.test)
    scores = run.similarities(texts, "test")
    assert set(table["relation"]) == {OWN, TRUE, OTHER, "all pairs"}
    for name, drawn in table.groupby("relation")["similarity"]:
        expected = scores if name == "all pairs" else scores[relation == name]
        np.testing.assert_allclose(np.sort(drawn), np.sort(expected, axis=None), atol=1e-6)


def test_heatmaps_align_with_the_cropped_pixels(run):
    table = phrase_heatmaps(run, 3, smoothing=0.0)
    assert len(table) == 3
    assert table["finding"].nunique() == 3  # of different findings first
    for row in table.itertuples():
        pixels = np.frombuffer(row.pixels, np.uint8).reshape(row.size, row.size)
        copies = np.flatnonzero(SOURCE.reports == row.report)
        assert any((pixels == SOURCE.images[copy, 0, 1:-1, 1:-1]).all() for copy in copies)
        heatmap = np.frombuffer(row.heatmap, np.float32).reshape(row.size, row.size)
        corners = np.stack([getattr(row, name) for name in ("x0", "y0", "x1", "y1")], axis=1)
        mask = box_masks(corners, (row.size, row.size)).any(0)
        assert contrast_to_noise_ratio(heatmap, mask) == pytest.approx(row.CNR, abs=1e-5)
        assert any(finding in row.sentence for finding in FINDINGS if row.finding in finding)


def test_figure_data_is_written_unless_the_source_is_restricted(training, tmp_path):
    write_subsets([SUBSET], tmp_path / "subsets.parquet")
    texture_boxes(SOURCE).to_parquet(tmp_path / "boxes.parquet")
    paths = {
        name: tmp_path / f"{name}.parquet"
        for name in ("subsets", "boxes", "similarities", "overlays")
    }
    arguments = {**paths, "settings": {"grounding": {"smoothing": 0.0}}, "threads": 1, "phrases": 2}
    arguments |= write_runs(tmp_path, settings_of(), {"abc": training})
    write_pairs(SOURCE, tmp_path / "pairs.npz")
    picture_run(source=tmp_path / "pairs.npz", **arguments)
    assert len(pd.read_parquet(paths["overlays"])) == 2
    assert set(pd.read_parquet(paths["similarities"])["objective"]) == {"CL"}
    write_pairs(texture_source(patients=40, restricted=True), tmp_path / "restricted.npz")
    with pytest.raises(UserError, match=r"restricted.npz is restricted.*figures.overlays"):
        picture_run(source=tmp_path / "restricted.npz", **arguments)
