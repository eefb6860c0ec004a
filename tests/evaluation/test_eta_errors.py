"""The errors of η equal those of a loop over the training pairs."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from tests.projects import ROOT
from tests.textures import texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.evaluation.eta_errors import write_eta_errors
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.store.archive import read_archive

DATASET = {"source": "textures", "resolution": 32}


@pytest.fixture
def measured(tmp_path):
    """Return a function that measures the errors of class probabilities by name, on two seeds of a
    source.
    """

    def errors(source, **objectives):
        places = [
            tmp_path / f"{ImageTextStudy.data_key(DATASET)}.npz",
            tmp_path / "subsets/textures/seed3-4.parquet",
        ]
        places[1].parent.mkdir(parents=True)
        subsets = [split_pairs(source, seed) for seed in (3, 4)]
        write_pairs(source, places[0])
        write_subsets(subsets, places[1])
        archive = read_archive(ROOT / "evidence/phantom_replication.tar.xz")
        record = next(iter(archive.records.values()))
        settings = record["settings"] | {"dataset": DATASET}
        runs = [
            record
            | {
                "id": f"{name}-{seed}",
                "dataset": "textures",
                "seed": seed,
                "settings": settings | {"objective": {"name": "dcl"} | each},
            }
            for name, each in objectives.items()
            for seed in (3, 4)
        ]
        (tmp_path / "runs.json").write_text(json.dumps(runs))
        table = tmp_path / "errors.parquet"
        write_eta_errors(
            runs=[tmp_path / "runs.json"],
            sources=[str(places[0])],
            subsets=[str(places[1])],
            errors=table,
        )
        return pd.read_parquet(table).set_index("run"), subsets

    return errors


def by_hand(source, subset, eta, rho):
    """Mean η and error over the sentences of each training image's report, then over these images;
    NaN: unknown class.
    """
    errors, etas, weights = [], [], []
    for image in subset.train:
        rows = source.sentences[source.sentences["report"] == source.reports[image]]
        for place, row in rows.iterrows():
            if row["class"] >= 0:
                errors.append(abs(1 / (1 - eta[place]) - 1 / (1 - rho[row["class"]])))
                etas.append(eta[place])
                weights.append(1 / len(rows))
    return np.average(errors, weights=weights), np.average(etas, weights=weights)


def test_errors_are_means_over_the_pairs_that_training_draws(measured):
    source = texture_source(patients=40)
    table, subsets = measured(
        source,
        LM={"class_probability": "language model"},
        # in place of the source's 0.25 and 0.35
        own={"class_probability": "language model", "a": 0.4, "k": 0.1},
        true={"class_probability": "true"},
        exchanged={"class_probability": {"true_share": 0.0}},
        constant={"class_probability": 0.1},
        CL={},
    )
    rho = source.sentences.groupby("class")["eta true"].first()
    for subset in subsets:
        values = {
            "LM": source.sentences["eta"],
            "own": 0.4 * (source.sentences["eta"] / 0.25) ** (0.1 / 0.35),
        }
        values |= {"constant": np.full(len(source.sentences), 0.1)}
        values |= {"CL": np.zeros(len(source.sentences)), "true": source.sentences["eta true"]}
        for name, eta in values.items():
            assert table.loc[f"{name}-{subset.seed}"].tolist() == pytest.approx(
                by_hand(source, subset, eta, rho), rel=1e-5
            )
        assert table.loc[f"true-{subset.seed}", "error of η"] == 0
        assert table.loc[f"exchanged-{subset.seed}", "error of η"] > 0.1


def test_sentences_of_unknown_class_do_not_count_and_shares_are_of_the_training_images(
    measured,
):
    source = texture_source(patients=40)
    table = source.sentences.drop(columns="eta true")
    table.loc[::3, "class"] = -1
    source = dataclasses.replace(source, sentences=table)
    errors, subsets = measured(source, LM={"class_probability": "language model"})
    for subset in subsets:
        shown = source.shown[subset.train].mean(0)
        expected = by_hand(source, subset, source.sentences["eta"], dict(enumerate(shown)))
        assert errors.loc[f"LM-{subset.seed}"].tolist() == pytest.approx(expected, rel=1e-5)
