"""Retrieval examples contain the top results and their relevance, but nothing from a restricted source."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.textures import settings_of, texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs, write_pair_subsets
from trueneg.evaluation.retrieval_examples import (
    COLUMNS,
    IMAGE_TO_TEXT,
    TEXT_TO_IMAGE,
    retrieval_examples,
    thumbnail,
    write_examples,
)
from trueneg.evaluation.said import OTHER, OWN, RELATIONS, TRUE, said_of
from trueneg.io import privacy
from trueneg.io.files import file_checksum
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText

SOURCE = texture_source(patients=40)
SUBSET = split_pairs(SOURCE, 0, test=0.4)
SAID = said_of(SOURCE, SUBSET.test)
TEXTS, RELATION = SAID.texts, SAID.relation
SCORES = np.random.default_rng(0).normal(size=RELATION.shape).astype(np.float32)
EXAMPLES = retrieval_examples(SCORES, SAID, SOURCE, SUBSET.test, seed=3, queries=6, length=4)


def test_relations_distinguish_own_true_and_other_sentences():
    said = SOURCE.sentences[SOURCE.sentences["report"].isin(SOURCE.reports[SUBSET.test])]
    assert sorted(said["sentence"].unique()) == TEXTS
    for place, text in enumerate(TEXTS):
        own = said[said["sentence"] == text]
        for image, position in enumerate(SUBSET.test):
            if SOURCE.reports[position] in set(own["report"]):
                expected = OWN
            else:
                expected = TRUE if SOURCE.shown[position, own["class"].iloc[0]] else OTHER
            assert RELATIONS[RELATION[place, image]] == expected
    assert (RELATION == 1).any()


@pytest.mark.parametrize("direction", [TEXT_TO_IMAGE, IMAGE_TO_TEXT])
def test_results_have_the_highest_scores_and_found_is_the_rank_of_the_first_own_pair(direction):
    chosen = EXAMPLES[EXAMPLES["direction"] == direction]
    assert chosen["query"].nunique() == 6
    for _, query in chosen.groupby("query"):
        if direction == TEXT_TO_IMAGE:
            (text,) = query["text"].unique()
            scores, related = SCORES[TEXTS.index(text)], RELATION[TEXTS.index(text)]
            names = SUBSET.test.tolist()
            got = query["image"].tolist()
        else:
            (image,) = query["image"].unique()
            place = SUBSET.test.tolist().index(image)
            scores, related, names, got = SCORES[:, place], RELATION[:, place], TEXTS, query["text"].tolist()
        order = sorted(range(len(names)), key=lambda one: -scores[one])[:4]
        assert got == [names[one] for one in order]
        assert query["rank"].tolist() == [1, 2, 3, 4]
        assert query["relation"].tolist() == [RELATIONS[related[one]] for one in order]
        np.testing.assert_allclose(query["score"], scores[order], rtol=1e-6)
        best = scores[related == 2].max()
        assert (query["found"] == 1 + (scores[related != 2] >= best).sum()).all()


def test_all_networks_get_the_same_queries():
    other = retrieval_examples(-SCORES, SAID, SOURCE, SUBSET.test, seed=3, queries=6, length=4)

    def asked(table):
        texts = table.loc[table["direction"] == TEXT_TO_IMAGE].groupby("query")["text"].first()
        return texts.tolist(), table.loc[table["direction"] == IMAGE_TO_TEXT].groupby("query")["image"].first().tolist()

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
    store = RunStore(tmp_path / "runs")
    store.folder("abc").mkdir(parents=True)
    model = store.folder("abc") / RunStore.MODEL
    save_file(training.weights(), model)
    (store.folder("abc") / RunStore.RECORD).write_text(json.dumps({"settings": settings_of()}))
    listed = {"study": "s", "dataset": "textures", "objective": "CL"}
    listed["runs"] = [{"seed": 0, "id": "abc", "checksum": file_checksum(model)}]
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    write_pair_subsets([SUBSET], tmp_path / "subsets.parquet")
    names = {name: tmp_path / f"{name}.parquet" for name in ("subsets", "examples")}
    return {**names, "manifest": tmp_path / "manifest.json", "store": store.path, "threads": 1, "device": "cpu"}


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
