"""The phantom's images joined with its sentences: rows match, and fewer reports give the same
images and sentences.
"""

import functools

import numpy as np
import pandas as pd
import pytest

from trueneg.data.draw import draw_subsets
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs
from trueneg.data.phantom.corpus import prepare_phantom
from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.samples import read_subsets
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.kinds.pairs import ImageTextStudy

SETTINGS = {"source": "phantom", "images": None, "resolution": 32, "contrast": 3.0}


@functools.cache
def made():
    return phantom_reports(40, 0, 1.0, 0.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    paths = {
        name: folder / f"{name}.parquet"
        for name in ("reports", "assigned", "classes", "sentences", "eta")
    }
    prepare_phantom({"reports": 40, "exponent": 1.0, "correlation": 0.0}, 0, paths)
    privacy.write_table(
        made().sentences[["report", "index", "sentence"]], paths["sentences"], restricted=False
    )
    eta = np.linspace(0, 0.2, len(made().sentences))
    privacy.write_table(
        made().sentences[["report", "index"]].assign(eta=eta), paths["eta"], restricted=False
    )
    return paths


def test_the_seed_of_a_corpus_replaces_that_of_the_study(tmp_path):
    drawn = []
    for seed, changes in ((3, {}), (0, {"seed": 3}), (0, {})):
        paths = {
            table: tmp_path / f"{table}.parquet" for table in ("reports", "assigned", "classes")
        }
        prepare_phantom(
            {"reports": 20, "exponent": 1.0, "correlation": 0.0, **changes}, seed, paths
        )
        drawn.append([privacy.read_table(path)[0] for path in paths.values()])
    for of_study, of_corpus in zip(*drawn[:2], strict=True):
        pd.testing.assert_frame_equal(of_study, of_corpus)
    assert not drawn[1][0].equals(drawn[2][0])


def joined(tables, folder, **settings):
    prepare_pairs(
        SETTINGS | settings | {"seed": 0},
        tables,
        folder / "pairs.npz",
        cache=folder / "cache",
        threads=1,
    )
    return read_pairs(folder / "pairs.npz")


@pytest.fixture(scope="module")
def whole(tables, tmp_path_factory):
    return joined(tables, tmp_path_factory.mktemp("whole"))


def test_images_show_exactly_the_findings_of_their_reports(whole):
    kinds = made().classes.set_index("class")["kind"]
    for image, report in enumerate(whole.reports):
        said = kinds[whole.sentences.loc[whole.sentences["report"] == report, "class"].unique()]
        shown = kinds[np.flatnonzero(whole.shown[image])]
        assert set(said.index[said == "positive"]) == set(shown.index[shown == "positive"])
        assert set(said.index[said == "negated"]) <= set(shown.index)
        assert "filler" not in set(shown)


def test_each_sentence_keeps_its_estimated_class_probability(whole):
    expected = (
        made()
        .sentences.assign(eta=np.linspace(0, 0.2, len(made().sentences)))
        .set_index(["report", "index"])["eta"]
    )
    joined_eta = whole.sentences.set_index(["report", "index"])["eta"]
    pd.testing.assert_series_equal(joined_eta.sort_index(), expected.sort_index())
    assert set(whole.class_probabilities) == {"language model", "true"}


def test_fewer_reports_give_the_same_images_and_sentences(tables, whole, tmp_path):
    part = joined(tables, tmp_path, images=12)
    assert part.reports.tolist() == whole.reports[:12].tolist()
    np.testing.assert_array_equal(part.images, whole.images[:12])
    expected = whole.sentences[whole.sentences["report"].isin(part.reports)].reset_index(drop=True)
    pd.testing.assert_frame_equal(part.sentences, expected)
    assert set(pd.read_parquet(tmp_path / "pairs-boxes.parquet")["report"]) <= set(part.reports)


def test_more_images_than_reports_are_rejected(tables, tmp_path):
    with pytest.raises(
        UserError, match=r"dataset\.images is 41; expected at most 40, the number of reports"
    ):
        joined(tables, tmp_path, images=41)


def test_sentences_of_missing_reports_are_rejected(tables, tmp_path):
    short = tmp_path / "reports.parquet"
    privacy.write_table(pd.read_parquet(tables["reports"]).iloc[1:], short, restricted=False)
    with pytest.raises((ValueError, KeyError), match="P000000"):
        joined(tables | {"reports": short}, tmp_path)


def test_sentences_without_a_class_probability_are_rejected(tables, tmp_path):
    short = tmp_path / "eta.parquet"
    privacy.write_table(pd.read_parquet(tables["eta"]).iloc[1:], short, restricted=False)
    with pytest.raises(
        UserError, match=r"1 sentences are invalid, first in row 0 .*; expected eta in \[0, 1\)"
    ):
        joined(tables | {"eta": short}, tmp_path)


def test_splits_are_by_patient_and_differ_between_seeds(whole, tables, tmp_path):
    joined(tables, tmp_path)
    splits = tmp_path / "pairs-splits.parquet"
    draw_subsets(
        ImageTextStudy,
        tmp_path / "pairs.npz",
        {"validation": 0.2, "test": 0.3},
        [0, 5],
        tmp_path / "subsets.parquet",
        splits,
    )
    subsets = read_subsets(tmp_path / "subsets.parquet")
    assert set(subsets) == {0, 5}
    assert len(subsets[0].test) == 12
    assert len(subsets[0].validation) == 8
    assert subsets[0].test.tolist() != subsets[5].test.tolist()
