"""The texts that are embedded are those that the tasks read."""

import dataclasses

import pytest
import torch

from tests.evaluation.texts.embedded import labelled_pairs_run, labelled_run, paired_run
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.texts import needed_rows

SETTINGS = {
    "knn": {"neighbours": 5},
    "linear_probe": {"C": 2.0},
    "retrieval": {"ks": [1, 3], "all_answers": False},
}


@pytest.mark.parametrize("make", [labelled_run, paired_run, labelled_pairs_run])
def test_tasks_read_only_texts_that_are_embedded(make):
    run = make()
    sides = []
    for vectors, needed in zip(
        (run.anchors, run.positives), needed_rows(run.source, run.subset), strict=True
    ):
        sides.append(torch.full_like(vectors, torch.nan))
        sides[-1][needed] = vectors[needed]
    partial = dataclasses.replace(run, anchors=sides[0], positives=sides[1])
    assert [*rows_of("trueneg.evaluation.texts", [partial], SETTINGS)] == [
        *rows_of("trueneg.evaluation.texts", [run], SETTINGS)
    ]
