"""Phrases of MS-CXR, measured with networks trained on MIMIC-CXR: each phrase has its own sentence,
images and boxes.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from tests.data.official_layouts import ms_cxr, write_mimic_cxr, write_mimic_reports, write_ms_cxr
from tests.evaluation.finished_runs import contrast, heatmap_of
from tests.textures import measured_rows, settings_of
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import official_subset
from trueneg.data.pairs.registry import prepare_pairs
from trueneg.data.reports.prepare import prepare_reports
from trueneg.io import privacy
from trueneg.text.sentences import split_reports
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks

CPU, SIDE = torch.device("cpu"), 32
EVALUATION = {
    "zero_shot": {"prompts": None},
    "retrieval": {"ks": [1]},
    "grounding": {"smoothing": 0.0},
    "linear_probe": {
        "fractions": [1.0],
        "epochs": 1,
        "batch_size": 512,
        "learning_rate": 0.01,
        "weight_decay": 0.0,
    },
    "region_retrieval": {"ks": [1]},
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Radiographs, source, splits and boxes, prepared by the pipeline's own steps."""
    folder = tmp_path_factory.mktemp("mimic")
    radiographs = write_mimic_cxr(folder / "jpg", 30)
    write_mimic_reports(folder / "reports", radiographs)
    write_ms_cxr(folder / "ms-cxr", ms_cxr(radiographs))
    prepare_reports({"source": "mimic_cxr", "path": folder / "reports"}, folder / "reports.parquet")
    paths = {
        name: folder / f"{name}.parquet"
        for name in ("sentences", "unique", "pairs-splits", "pairs-boxes")
    }
    split_reports(
        folder / "reports.parquet",
        sentences=paths["sentences"],
        unique=paths["unique"],
        cache=folder / "split",
    )
    settings = {"source": "mimic_cxr", "path": folder / "jpg", "images": None, "resolution": SIDE}
    settings |= {"views": "frontal"}
    settings |= {"fit": "crop", "ms_cxr": folder / "ms-cxr"}
    text = {"sentences": paths["sentences"]}
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    splits, boxes = (
        privacy.read_table(paths["pairs-splits"])[0],
        pd.read_parquet(paths["pairs-boxes"]),
    )
    return radiographs, read_pairs(folder / "pairs.npz"), splits, boxes


def test_each_phrase_is_grounded_by_its_own_sentence_in_its_own_image(prepared, tmp_path):
    radiographs, source, splits, boxes = prepared
    subset, run = (
        official_subset(source, splits, seed=0),
        settings_of(augmentation={"crop": 1.0}, training={"epochs": 1}),
    )
    training = ImageText(run, 0, source, subset, CPU)
    training.train_epoch()
    save_file(training.weights(), tmp_path / "model.safetensors")
    networks = read_networks(tmp_path / "model.safetensors", run)
    rows = pd.DataFrame(measured_rows(networks, source, subset, EVALUATION, boxes))
    measured = rows[
        (rows["split"] == "test") & (rows["task"] == "grounding") & rows["group"].isna()
    ].set_index("metric")["value"]
    assert "validation" not in rows.loc[rows["task"] == "grounding", "split"].tolist()
    phrases = {(box.image.dicom, box.phrase): box.category for box in ms_cxr(radiographs)}
    assert measured["phrases"] == len(phrases) == boxes.groupby(["image", "sentence"]).ngroups
    ratios = []
    for (image, sentence), phrase in boxes.groupby(["image", "sentence"], sort=False):
        inside = np.zeros((SIDE, SIDE), dtype=bool)
        for x0, y0, x1, y1 in phrase[["x0", "y0", "x1", "y1"]].to_numpy():
            centres = np.arange(SIDE) + 0.5
            inside |= ((centres >= y0) & (centres < y1))[:, None] & (
                (centres >= x0) & (centres < x1)
            )
        ratios.append(contrast(heatmap_of(networks, source.images[image], sentence, SIDE), inside))
    assert measured["CNR signed"] == pytest.approx(np.mean(ratios), abs=2e-3)
    labels = set(rows.loc[rows["task"] == "region retrieval", "labels"])
    assert labels == {"pair", "pair or tie", "sentence", "finding"}
