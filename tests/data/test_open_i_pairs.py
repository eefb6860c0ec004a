"""Open-I: images belong to their reports, labels and shown statements come from the codes, and
errors name the file and line.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.official_layouts import write_open_i_images, write_open_i_reports
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs.open_i import HEADINGS, chexpert_labels, headings_shown, read_radiographs
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs
from trueneg.data.phantom.radiographs import CHEX5
from trueneg.data.reports import open_i
from trueneg.data.reports.open_i_classes import open_i_classes
from trueneg.data.reports.prepare import prepare_reports
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.text.eta import write_class_probabilities
from trueneg.text.sentences import split_reports

# Number: findings, impression, codes, images. The ids of CXR1's images contain its number twice, as
# in the first real report.
REPORTS = {
    1: (
        "The heart is normal in size. No effusion.",
        "Normal chest.",
        ["normal"],
        ["CXR1_1_IM-0001-3001", "CXR1_1_IM-0001-4001"],
    ),
    2: (
        "Large left pleural effusion. No pneumothorax.",
        "",
        ["Pleural Effusion/left/large"],
        ["CXR2_IM-0652-1001"],
    ),
    3: ("Clear lungs.", "Normal.", ["normal"], ["CXR3_IM-1384-1001", "CXR3_IM-1384-2001"]),
    4: (
        "",
        "Hydropneumothorax. The heart is enlarged.",
        ["Hydropneumothorax/right", "Cardiomegaly"],
        ["CXR4_IM-2050-1001"],
    ),
    5: ("", "", ["normal"], ["CXR5_IM-2117-1001"]),
    10: ("There is a small effusion.", "", ["No Indexing"], ["CXR10_IM-0002-1001"]),
}
FILES = {  # in the order of the table
    "10_IM-0002-1001": (10, "Frontal"),
    "1_IM-0001-4001": (1, "Frontal"),
    "1_IM-0001-3001": (1, "Lateral"),
    "2_IM-0652-1001": (2, "Frontal"),
    "3_IM-1384-2001": (3, "Frontal"),
    "3_IM-1384-1001": (3, "Frontal"),
    "4_IM-2050-1001": (4, "Frontal"),
    "5_IM-2117-1001": (5, "Frontal"),
}


def write_text_steps(folder, archive):
    """Run the text steps: sentences, classes, and class probabilities from invented likelihoods."""
    names = ("reports", "sentences", "unique", "assigned", "probabilities", "likelihoods")
    paths = {name: folder / f"{name}.parquet" for name in names}
    if not paths["reports"].exists():
        prepare_reports({"source": "open_i", "path": archive}, paths["reports"])
    split_reports(
        paths["reports"],
        sentences=paths["sentences"],
        unique=paths["unique"],
        cache=folder / "split",
    )
    open_i_classes(
        paths["sentences"],
        archive=archive,
        assigned=paths["assigned"],
        classes=paths["probabilities"],
    )
    table, _ = privacy.read_table(paths["sentences"])
    table = table.assign(log_likelihood=-np.arange(1.0, len(table) + 1), tokens=5)
    privacy.write_table(table, paths["likelihoods"], restricted=False)
    settings = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False}
    write_class_probabilities(
        folder / "likelihoods.parquet", settings=settings, seed=0, eta=folder / "eta.parquet"
    )


@pytest.fixture
def data(tmp_path):
    write_open_i_reports(tmp_path, REPORTS)
    write_open_i_images(tmp_path, FILES)
    return tmp_path


@pytest.fixture
def steps(data):
    write_text_steps(data, data)
    return data


def prepare(folder, **changes):
    settings = {
        "source": "open_i",
        "path": folder,
        "archive": folder,
        "images": None,
        "resolution": 16,
    } | changes
    text = {name: folder / f"{name}.parquet" for name in ("sentences", "assigned", "eta")}
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    return read_pairs(folder / "pairs.npz"), privacy.read_table(folder / "pairs-classes.parquet")[0]


def test_frontal_images_are_joined_with_their_reports(steps):
    source, _ = prepare(steps)
    # Sorted by number, without the lateral image and the report without text.
    assert source.reports.tolist() == ["CXR1", "CXR2", "CXR3", "CXR3", "CXR4", "CXR10"]
    assert source.patients.tolist() == source.reports.tolist()
    names = [
        "1_IM-0001-4001",
        "2_IM-0652-1001",
        "3_IM-1384-1001",
        "3_IM-1384-2001",
        "4_IM-2050-1001",
        "10_IM-0002-1001",
    ]
    for pixels, name in zip(source.images, names, strict=True):
        content = (steps / "images" / f"{name}.dcm.jpg").read_bytes()
        np.testing.assert_array_equal(pixels, decode_square(content, "L", 16))
    said = source.sentences.groupby("report")["sentence"].agg(list).to_dict()
    assert said["CXR1"] == ["The heart is normal in size.", "No effusion.", "Normal chest."]
    assert set(said) == set(source.reports)
    written = privacy.read_table(steps / "eta.parquet")[0].set_index(["report", "index"])["eta"]
    joined = source.sentences.set_index(["report", "index"])["eta"]
    np.testing.assert_array_equal(joined, written.loc[joined.index])
    assert "true" not in source.class_probabilities
    assert "language model" in source.class_probabilities


def test_labels_come_from_the_codes_and_are_unknown_without_codes(steps):
    source, _ = prepare(steps)
    assert source.label_names == CHEX5
    expected = {  # cardiomegaly, edema, effusion, pneumonia, pneumothorax
        "CXR1": [0, 0, 0, 0, 0],
        "CXR2": [0, 0, 1, 0, 0],
        "CXR3": [0, 0, 0, 0, 0],
        "CXR4": [1, 0, 1, 0, 1],
        "CXR10": [np.nan] * 5,
    }
    np.testing.assert_array_equal(
        source.labels, np.array([expected[report] for report in source.reports], np.float32)
    )


def test_an_image_is_a_false_negative_for_the_classes_of_its_reports_codes(steps):
    source, classes = prepare(steps)
    names = classes.set_index("class")["name"]
    assert set(names) == {"normal", "Pleural Effusion", "Cardiomegaly"}
    for image, report in enumerate(source.reports):
        codes = [code.split("/")[0] for code in REPORTS[int(report[3:])][2]]
        for number, name in names.items():
            assert source.shown[image, number] == (name in codes)
    table = source.sentences.assign(name=source.sentences["class"].map(names))
    named = table.set_index("sentence")["name"]
    assert named["No effusion."] == "normal"
    assert named["Large left pleural effusion."] == "Pleural Effusion"
    assert (
        table.loc[
            table["sentence"].isin(["No pneumothorax.", "There is a small effusion."]), "class"
        ]
        == -1
    ).all()
    # The sentences of a report are true of its images.
    for row in table[table["class"] >= 0].itertuples():
        assert source.shown[source.reports == row.report, table.loc[row.Index, "class"]].all()
    assert classes["images"].tolist() == source.shown.sum(0).tolist()
    assert classes["sentences"].tolist() == [
        int((table["name"] == name).sum()) for name in classes["name"]
    ]


def test_headings_must_match_as_a_whole():
    codes = pd.DataFrame(
        {"report": ["a", "b"], "code": ["Pericardial Effusion", "Pneumonectomy/lung"]}
    )
    assert not chexpert_labels(np.array(["a", "b"]), codes).any()
    assert not headings_shown(np.array(["a", "b"]), codes, ["Pleural Effusion", "normal"]).any()


def test_the_layout_with_projections_gives_the_same_source(steps, tmp_path_factory):
    expected, _ = prepare(steps)
    (steps / "images.csv").unlink()
    for old in (steps / "images").iterdir():
        old.unlink()
    write_open_i_images(
        steps, FILES, table="indiana_projections.csv", images="images/images_normalized"
    )
    assert prepare(steps)[0].checksum == expected.checksum


def test_the_number_of_reports_can_be_limited(steps):
    source, _ = prepare(steps, images=3)
    assert source.reports.tolist() == ["CXR1", "CXR2", "CXR3", "CXR3"]
    assert set(source.sentences["report"]) == {"CXR1", "CXR2", "CXR3"}
    with pytest.raises(
        UserError, match=r"dataset\.images is 6; expected at most 5, the number of reports"
    ):
        prepare(steps, images=6)


def change(folder, row, column, value):
    table = pd.read_csv(folder / "images.csv")
    table.loc[row, column] = value
    table.to_csv(folder / "images.csv", index=False)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "report",
            "CXR11",
            r"images\.csv: line 4: report is 'CXR11'; expected one of the 6 reports in the archive",
        ),
        (
            "report",
            "CXR2",
            r"line 4: image is '1_IM-0001-3001\.dcm\.jpg'; expected an image of this row's report",
        ),
        ("image", "1_IM-0001-4001.dcm.jpg", r"line 4: image repeats"),
        ("projection", "PA", r"line 4: projection is 'PA'; expected Frontal or Lateral"),
    ],
)
def test_rows_that_contradict_the_reports_are_named(data, column, value, message):
    change(data, 2, column, value)
    with pytest.raises(UserError, match=message):
        read_radiographs(data, data)


def test_missing_files_and_columns_are_named(data, steps, tmp_path):
    with pytest.raises(
        UserError,
        match=r"dataset\.path is missing; source open_i expects a folder with images\.csv",
    ):
        read_radiographs(None, data)
    (data / "images" / "2_IM-0652-1001.dcm.jpg").unlink()
    with pytest.raises(
        UserError, match=r"2_IM-0652-1001\.dcm\.jpg is missing; .*Copy the whole dataset"
    ):
        prepare(steps)
    (data / "images").rename(data / "pictures")
    with pytest.raises(UserError, match="is missing; expected the radiographs"):
        read_radiographs(data, data)
    (data / "images.csv").write_text("report,image\nCXR1,a.jpg\n")
    with pytest.raises(
        UserError,
        match=r"images\.csv: expected exactly one column .*: projection \(found report, image\)",
    ):
        read_radiographs(data, data)
    (data / "images.csv").unlink()
    with pytest.raises(UserError, match=r"images\.csv is missing.*\(found NLMCXR"):
        read_radiographs(data, data)


@pytest.mark.skipif(
    "TRUENEG_OPEN_I_IMAGES" not in os.environ,
    reason="TRUENEG_OPEN_I_IMAGES names no folder of its images",
)
def test_the_real_collection(tmp_path):
    """TRUENEG_OPEN_I is the path of the archive if torchxrayvision is not installed."""
    archive, folder = os.environ.get("TRUENEG_OPEN_I"), Path(os.environ["TRUENEG_OPEN_I_IMAGES"])
    images = read_radiographs(folder, archive)
    assert images["report"].str[3:].astype(int).is_monotonic_increasing
    assert images["path"].is_unique
    assert images["path"].map(Path.is_file).all()
    codes = open_i.image_codes(archive)
    labels = chexpert_labels(images["report"].to_numpy(str), codes)
    labelled = ~np.isnan(labels[:, 0])
    assert labelled.mean() > 0.95
    shares = dict(zip(HEADINGS, labels[labelled].mean(0), strict=True))
    assert max(shares, key=shares.get) == "cardiomegaly"
    assert min(shares.values()) > 0.001
    prepare_reports({"source": "open_i", "path": archive}, tmp_path / "reports.parquet")
    table, _ = privacy.read_table(tmp_path / "reports.parquet")
    first = table[table["state"] == "used"].head(90)
    privacy.write_table(first, tmp_path / "reports.parquet", restricted=False)
    write_text_steps(tmp_path, archive)
    source, _ = prepare(tmp_path, path=folder, archive=archive, images=80, resolution=64)
    assert 80 <= len(source.images) <= 100
    assert source.images.std() > 20  # not blank
    classified = source.sentences[source.sentences["class"] >= 0]
    for row in classified.rename(columns={"class": "number"}).itertuples():
        assert source.shown[source.reports == row.report, row.number].all()
