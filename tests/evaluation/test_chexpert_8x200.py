"""Prec@k on CheXpert 8×200, compared with embedding one image and one sentence at a time."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from tests.data.official_layouts import EIGHT
from tests.declared import declared, written
from tests.evaluation.finished_runs import similarity_table, unit_embedding
from tests.textures import LSE_NL, measured_rows, settings_of, texture_source
from trueneg.data.pairs.chexpert_8x200 import LABELS, Benchmark
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.errors import UserError
from trueneg.evaluation.pair_pictures import similarities_by_class
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.specs.tasks.pairs.chexpert_8x200 import Chexpert8x200Settings
from trueneg.store.rows import to_table
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks

CPU = torch.device("cpu")
KS = (1, 3)


@pytest.fixture(scope="module", params=[{}, LSE_NL], ids=["global", "lse+nl"])
def networks(request, tmp_path_factory):
    run = settings_of(similarity=request.param, training={"epochs": 1})
    source = texture_source(patients=40)
    training = ImageText(run, 0, source, split_pairs(source, 0), CPU)
    training.train_epoch()
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    save_file(training.weights(), path)
    return read_networks(path, run)


@pytest.fixture(scope="module")
def benchmark():
    """A small CheXpert 8×200: four candidates, one image query and two sentences per label."""
    images = texture_source(patients=40).images[:40]
    texts = pd.DataFrame(
        {"sentence": [f"Seen left stripes {name}." for name in LABELS for _ in "ab"]}
    )
    texts = texts.assign(
        sentence=texts["sentence"] + ["", " No blobs."] * 8, label=np.repeat(LABELS, 2)
    )
    labels = np.append(np.random.default_rng(0).permutation(np.repeat(range(8), 4)), range(8))
    return Benchmark(
        images,
        np.arange(40) >= 32,
        labels,
        LABELS,
        np.array([f"p{place % 7}" for place in range(40)]),
        texts,
    )


def benchmark_rows(networks, benchmark, ks=KS):
    source = texture_source(patients=40)
    settings = {"zero_shot": None, "chexpert_8x200": {"ks": ks}}
    return measured_rows(networks, source, split_pairs(source, 0), settings, benchmark=benchmark)


def one_by_one(networks, benchmark):
    """Return the scores of image queries and of sentences for the candidates."""
    units = torch.stack([unit_embedding(networks, image) for image in benchmark.images]).double()
    by_text = similarity_table(networks, benchmark.images[:32], benchmark.texts["sentence"])
    return {"image to image": (units[32:] @ units[:32].T).numpy(), "text to image": by_text}


def test_precisions_match_sorting_one_query_at_a_time(networks, benchmark):
    rows = benchmark_rows(networks, benchmark)
    assert {(row["split"], row["task"]) for row in rows} == {("test", "chexpert 8x200")}
    values = {(row["direction"], row["k"], row["group"]): row["value"] for row in rows}
    assert len(values) == len(rows)
    wanted = {"image to image": benchmark.labels[32:], "text to image": np.repeat(range(8), 2)}
    means = []
    for direction, scores in one_by_one(networks, benchmark).items():
        for k in KS:
            hits = (
                benchmark.labels[:32][scores.argsort(1)[:, ::-1][:, :k]]
                == wanted[direction][:, None]
            )
            means.append(hits.mean())
            assert values[direction, k, None] == pytest.approx(means[-1])
            for number, name in enumerate(LABELS):
                assert values[direction, k, name] == pytest.approx(
                    hits[wanted[direction] == number].mean()
                )
    assert values[None, None, None] == pytest.approx(np.mean(means))


def test_the_rows_are_those_that_the_task_declares(networks, benchmark):
    task = Chexpert8x200Settings(path="-", lists="-", ks=list(KS))
    study = SimpleNamespace(
        TASKS={"chexpert_8x200": Chexpert8x200Settings}, provided={task.NEEDS: True}
    )
    study.evaluation = SimpleNamespace(chexpert_8x200=task)
    assert written(to_table(benchmark_rows(networks, benchmark)), study) == declared(study)


def test_histograms_hold_every_query_and_candidate_by_class(networks, benchmark):
    source = texture_source(patients=40)
    run = EmbeddedPairs("abc", networks, source, split_pairs(source, 0), CPU, benchmark=benchmark)
    table = similarities_by_class(run, benchmark)
    wanted = {"image–image": benchmark.labels[32:], "text–image": np.repeat(range(8), 2)}
    names = {"image to image": "image–image", "text to image": "text–image"}
    for direction, scores in one_by_one(networks, benchmark).items():
        same = wanted[names[direction]][:, None] == benchmark.labels[:32]
        for relation, chosen in (
            ("same class", same),
            ("another class", ~same),
            ("all pairs", same | ~same),
        ):
            drawn = table[(table["pairs"] == names[direction]) & (table["relation"] == relation)][
                "similarity"
            ]
            np.testing.assert_allclose(np.sort(drawn), np.sort(scores[chosen]), atol=1e-5)
    assert len(table) == 2 * (8 * 32 + 16 * 32)


def test_the_papers_list_lengths_are_the_default(networks, benchmark):
    more = dataclasses.replace(
        benchmark,
        images=np.concatenate([benchmark.images[:32]] * 2 + [benchmark.images[32:]]),
        is_query=np.arange(72) >= 64,
        labels=np.concatenate([benchmark.labels[:32]] * 2 + [benchmark.labels[32:]]),
        patients=np.array(["p"] * 72),
    )
    rows = benchmark_rows(networks, more, Chexpert8x200Settings(path="-", lists="-").ks)
    found = {(row["k"], row["group"]) for row in rows if row["direction"] == "text to image"}
    assert found == {(k, group) for k in (5, 10, 50) for group in (None, *EIGHT)}


def test_benchmark_images_with_other_channels_raise_an_error(networks, benchmark):
    colours = dataclasses.replace(benchmark, images=np.repeat(benchmark.images, 3, axis=1))
    with pytest.raises(UserError, match=r"CheXpert 8×200 have 3 channels, but .* with 1"):
        benchmark_rows(networks, colours)
