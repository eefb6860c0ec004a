"""Retrieval examples contain the top results and their relevance, but nothing from a restricted
source.
"""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from tests.evaluation.finished_runs import relations, write_runs
from tests.textures import settings_of, texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.evaluation.retrieval_examples import (
    COLUMNS,
    IMAGE_TO_TEXT,
    TEXT_TO_IMAGE,
    retrieval_examples,
    write_examples,
)
from trueneg.evaluation.said import OWN, RELATIONS, TRUE, said_of
from trueneg.evaluation.thumbnails import thumbnail
from trueneg.io import privacy
from trueneg.training.image_text import ImageText

SOURCE = texture_source(patients=40)
SUBSET = split_pairs(SOURCE, 0, test=0.4)
SAID = said_of(SOURCE, SUBSET.test)
TEXTS, RELATION = relations(SOURCE, SUBSET.test)
SCORES = np.random.default_rng(0).normal(size=RELATION.shape).astype(np.float32)
EXAMPLES = retrieval_examples(SCORES, SAID, SOURCE, SUBSET.test, seed=3, queries=6, length=4)


def test_relations_distinguish_own_true_and_other_sentences():
    assert SAID.texts == TEXTS
    assert np.array_equal(np.array(RELATIONS)[SAID.relation], RELATION)
    assert (RELATION == TRUE).any()


@pytest.mark.parametrize("direction", [TEXT_TO_IMAGE, IMAGE_TO_TEXT])
def test_results_have_the_highest_scores_and_found_is_the_rank_of_the_first_own_pair(direction):
    chosen = EXAMPLES[EXAMPLES["direction"] == direction]
    assert chosen["query"].nunique() == 6
    positions = SUBSET.test.tolist()
    for _, query in chosen.groupby("query"):
        if direction == TEXT_TO_IMAGE:
            (text,) = query["text"].unique()
            row, names, results = TEXTS.index(text), positions, query["image"].tolist()
            scores, relation = SCORES[row], RELATION[row]
        else:
            (image,) = query["image"].unique()
            column, names, results = positions.index(image), TEXTS, query["text"].tolist()
            scores, relation = SCORES[:, column], RELATION[:, column]
        best = sorted(range(len(names)), key=lambda index: -scores[index])[:4]
        assert results == [names[index] for index in best]
        assert query["rank"].tolist() == [1, 2, 3, 4]
        assert query["relation"].tolist() == relation[best].tolist()
        np.testing.assert_allclose(query["score"], scores[best], rtol=1e-6)
        own = scores[relation == OWN].max()
        assert (query["found"] == 1 + (scores[relation != OWN] >= own).sum()).all()


def test_all_networks_get_the_same_queries():
    other = retrieval_examples(-SCORES, SAID, SOURCE, SUBSET.test, seed=3, queries=6, length=4)

    def asked(table):
        texts = table.loc[table["direction"] == TEXT_TO_IMAGE].groupby("query")["text"].first()
        return texts.tolist(), table.loc[table["direction"] == IMAGE_TO_TEXT].groupby("query")[
            "image"
        ].first().tolist()

    assert asked(other) == asked(EXAMPLES)
    assert not other["image"].equals(EXAMPLES["image"])
    again = retrieval_examples(SCORES, SAID, SOURCE, SUBSET.test, seed=4, queries=6, length=4)
    assert asked(again) != asked(EXAMPLES)


def test_thumbnails_are_reduced_copies_of_the_images():
    row = EXAMPLES.iloc[0]
    pixels = np.asarray(Image.open(io.BytesIO(row["thumbnail"])).convert("L"), float)
    original = SOURCE.images[row["image"], 0].astype(float)
    assert pixels.shape == original.shape
    assert np.abs(pixels - original).mean() < 12  # a lossy format
    assert Image.open(io.BytesIO(thumbnail(np.zeros((3, 200, 400), np.uint8)))).size == (96, 48)


@pytest.fixture
def files(tmp_path):
    training = ImageText(settings_of(), 0, SOURCE, SUBSET, torch.device("cpu"))
    run = write_runs(tmp_path, settings_of(), {"abc": training})
    write_subsets([SUBSET], tmp_path / "subsets.parquet")
    return (
        run
        | {name: tmp_path / f"{name}.parquet" for name in ("subsets", "examples")}
        | {"threads": 1}
    )


def test_examples_of_a_finished_run_are_written(files, tmp_path):
    write_pairs(SOURCE, tmp_path / "pairs.npz")
    write_examples(source=tmp_path / "pairs.npz", **files)
    table, restricted = privacy.read_table(files["examples"])
    assert not restricted
    assert set(table["objective"]) == {"CL"}
    assert set(table["direction"]) == {TEXT_TO_IMAGE, IMAGE_TO_TEXT}
    assert set(table["text"]) <= set(TEXTS)


def test_examples_of_a_restricted_source_are_empty_and_marked(files, tmp_path):
    write_pairs(texture_source(patients=40, restricted=True), tmp_path / "pairs.npz")
    write_examples(source=tmp_path / "pairs.npz", **files)
    table, restricted = privacy.read_table(files["examples"])
    assert restricted
    assert table.empty
    assert set(COLUMNS) <= set(table.columns)
    content = files["examples"].read_bytes()
    assert not any(text.encode() in content for text in TEXTS)
    assert files["examples"].stat().st_mode & 0o077 == 0
