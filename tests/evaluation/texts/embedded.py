"""Embedded runs of made-up texts with given vectors."""

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from trueneg.data.samples import Subset
from trueneg.data.texts.text_source import TextSource
from trueneg.evaluation.texts import EmbeddedTexts

PARTS = (
    "bank",
    "validation",
    "test",
    "validation_unseen_bank",
    "validation_unseen",
    "test_unseen_bank",
    "test_unseen",
)


def embedded_run(
    vectors,
    labels=None,
    texts=None,
    pairs=(),
    positives=None,
    rated=None,
    seed=0,
    several=1,
    corpus=(),
    **parts,
):
    """Return a run; vectors are normalised, and parts that are not given are empty.

    Pairs have several positives; `corpus` are rows of texts that are only searched.
    """
    anchors = functional.normalize(torch.as_tensor(np.asarray(vectors)), dim=1)
    positives = (
        anchors
        if positives is None
        else functional.normalize(torch.as_tensor(np.asarray(positives)), dim=1)
    )
    classes = np.full(len(anchors), -1) if labels is None else np.asarray(labels)
    texts = [f"text {row}" for row in range(len(anchors))] if texts is None else texts
    sentences = pd.DataFrame({"sentence": texts, "class": classes, "split": ""})
    sentences.loc[list(corpus), "split"] = "corpus"
    names = tuple(f"label {number:02}" for number in range(classes.max() + 1))
    tables = (
        {}
        if rated is None
        else {"rated": pd.DataFrame(rated, columns=["first", "second", "score"])}
    )
    source = TextSource(
        "made up",
        sentences,
        np.array(pairs, np.int64).reshape(-1, 1 + several),
        names,
        **tables,
        positives=several,
    )
    samples = {name: np.asarray(parts.get(name, ()), np.int64) for name in PARTS}
    subset = Subset(
        seed,
        source.checksum,
        train=samples["bank"],
        **samples,
    )
    return EmbeddedTexts("abc", source, subset, anchors, positives)


def labelled_run(seed=0, dtype=np.float64):
    """Return a run of 240 noisy texts with eight labels of different sizes: four seen, two in each
    of the unseen sets.
    """
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(8), [60, 40, 30, 20, 25, 20, 25, 20])
    vectors = (np.eye(8)[labels] + 0.6 * generator.standard_normal((240, 8))).astype(dtype)
    split = generator.choice(3, 240, p=[0.5, 0.2, 0.3])
    places = {"bank": (range(4), 0), "validation": (range(4), 1), "test": (range(4), 2)}
    places |= {"validation_unseen_bank": ((4, 5), 0), "validation_unseen": ((4, 5), 1)}
    places |= {"test_unseen_bank": ((6, 7), 0), "test_unseen": ((6, 7), 2)}
    parts = {
        name: np.flatnonzero(np.isin(labels, of) & (split == part))
        for name, (of, part) in places.items()
    }
    return embedded_run(vectors, labels, seed=seed, **parts)


def paired_run(dtype=np.float64):
    """Return a run of 40 pairs without labels, two towers, and repeated anchors and positives."""
    generator = np.random.default_rng(1)
    texts = [f"Question {row}" for row in range(40)] + [f"Answer {row}" for row in range(40)]
    # after normalisation, equal to others
    texts[1], texts[2], texts[43] = "question 0?", "Question 0", "answer 0"
    pairs = np.stack([np.arange(40), 40 + np.arange(40)], axis=1)
    vectors = generator.standard_normal((80, 6)).astype(dtype)
    positives = vectors + generator.standard_normal((80, 6)).astype(dtype)
    positives[40:] = vectors[:40] + 0.7 * generator.standard_normal((40, 6)).astype(dtype)
    vectors[[1, 2]], positives[43] = vectors[0], positives[40]
    rated = [
        (first, second, first * second % 7)
        for first, second in generator.integers(0, 80, (30, 2)).tolist()
    ]
    return embedded_run(
        vectors,
        texts=texts,
        pairs=pairs,
        positives=positives,
        rated=rated,
        validation=range(20, 40),
        test=range(20),
    )


def labelled_pairs_run():
    """Return a run of 120 pairs with labels, two towers, and labels without training in both
    splits.
    """
    generator, labelled = np.random.default_rng(2), labelled_run()
    samples = np.sort(generator.permutation(240)[:120])
    classes = labelled.source.labels[samples]
    parts = {
        name: np.flatnonzero(np.isin(samples, getattr(labelled.subset, name))) for name in PARTS
    }
    vectors = np.concatenate(
        [labelled.anchors.numpy()[samples], generator.standard_normal((120, 8))]
    )
    pairs = np.stack([np.arange(120), 120 + np.arange(120)], axis=1)
    positives = np.concatenate(
        [vectors[120:], vectors[:120] + 0.3 * generator.standard_normal((120, 8))]
    )
    rated = [(3, 130, 1.0), (200, 7, 0.5), (9, 9, 2.0), (50, 51, 0.1)]
    return embedded_run(
        vectors, np.tile(classes, 2), pairs=pairs, positives=positives, rated=rated, **parts
    )


def values(task, run, settings=None):
    """Return the values of a task by split and measurement."""
    rows = [(split, measured, value) for _, split, measured, value in task.measure([run], settings)]
    table = {(split, measured): float(value) for split, measured, value in rows}
    assert len(table) == len(rows)
    return table
