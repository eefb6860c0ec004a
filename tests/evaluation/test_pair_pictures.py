"""Figure data of a run: similarities by relation, and heatmaps over the pixels of images."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from tests.textures import FINDINGS, settings_of, texture_boxes, texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs, write_pair_subsets
from trueneg.errors import UserError
from trueneg.evaluation.grounding import box_masks, contrast_to_noise_ratio
from trueneg.evaluation.pair_pictures import phrase_heatmaps, picture_run, similarities_by_truth
from trueneg.evaluation.pairs import EmbeddedRun
from trueneg.evaluation.said import OTHER, OWN, TRUE
from trueneg.io.files import file_checksum
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
SOURCE = texture_source(patients=40)
SUBSET = split_pairs(SOURCE, 0, test=0.4)


@pytest.fixture(scope="module")
def training():
    made = ImageText(settings_of(), 0, SOURCE, SUBSET, CPU)
    made.train_epoch()
    made.network.eval()
    return made


@pytest.fixture(scope="module")
def run(training):
    return EmbeddedRun("abc", training.networks, SOURCE, SUBSET, CPU, texture_boxes(SOURCE))


def test_every_pair_of_sentence_and_image_has_one_relation(run):
    found = similarities_by_truth(run)
    reports = SOURCE.reports[SUBSET.test]
    here = SOURCE.sentences[SOURCE.sentences["report"].isin(reports)]
    texts = sorted(here["sentence"].unique())
    scores = run.similarities(texts, "test")
    expected = {OWN: [], TRUE: [], OTHER: []}
    for place, text in enumerate(texts):
        own = here[here["sentence"] == text]
        for image, position in enumerate(SUBSET.test):
            if reports[image] in set(own["report"]):
                expected[OWN].append(scores[place, image])
            elif SOURCE.shown[position, own["class"].iloc[0]]:
                expected[TRUE].append(scores[place, image])
            else:
                expected[OTHER].append(scores[place, image])
    assert expected[TRUE]
    for relation, values in expected.items():
        own = found.loc[found["relation"] == relation, "similarity"]
        np.testing.assert_allclose(np.sort(own), np.sort(values), atol=1e-6)


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
    store = RunStore(tmp_path / "runs")
    store.folder("abc").mkdir(parents=True)
    model = store.folder("abc") / RunStore.MODEL
    save_file(training.weights(), model)
    (store.folder("abc") / RunStore.RECORD).write_text(json.dumps({"settings": settings_of()}))
    names = {"study": "s", "dataset": "textures", "objective": "CL"}
    listed = {**names, "runs": [{"seed": 0, "id": "abc", "checksum": file_checksum(model)}]}
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    write_pair_subsets([SUBSET], tmp_path / "subsets.parquet")
    texture_boxes(SOURCE).to_parquet(tmp_path / "boxes.parquet")
    arguments = {
        "boxes": tmp_path / "boxes.parquet",
        "subsets": tmp_path / "subsets.parquet",
        "manifest": tmp_path / "manifest.json",
        "store": store.path,
        "settings": {"grounding": {"smoothing": 0.0}},
        "threads": 1,
        "phrases": 2,
        "device": "cpu",
        "similarities": tmp_path / "similarities.parquet",
        "overlays": tmp_path / "overlays.parquet",
    }
    write_pairs(SOURCE, tmp_path / "pairs.npz")
    picture_run(source=tmp_path / "pairs.npz", **arguments)
    assert len(pd.read_parquet(tmp_path / "overlays.parquet")) == 2
    assert set(pd.read_parquet(tmp_path / "similarities.parquet")["objective"]) == {"CL"}
    write_pairs(texture_source(patients=40, restricted=True), tmp_path / "restricted.npz")
    with pytest.raises(UserError, match=r"restricted.npz is restricted.*figures.overlays"):
        picture_run(source=tmp_path / "restricted.npz", **arguments)
