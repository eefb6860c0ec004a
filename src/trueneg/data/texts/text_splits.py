"""Training, validation and test texts of each seed, with labels that are never trained on."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from trueneg.data.skipping import Skipped
from trueneg.data.splits import AGAIN, read_splits, write_splits
from trueneg.data.texts.text_files import label_sets
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.randomness import seed_for

METADATA = b"text subsets"
SEEN, UNSEEN = (
    ("bank", "validation", "test"),
    ("validation_unseen_bank", "validation_unseen", "test_unseen_bank", "test_unseen"),
)
# The set of labels and the split that the samples of each of these come from.
PARTS = (
    (0, "train"),
    (0, "validation"),
    (0, "test"),
    (1, "train"),
    (1, "validation"),
    (2, "train"),
    (2, "test"),
)


@dataclass(frozen=True, eq=False)
class TextSubset:
    """One seed's samples as sorted int64 positions in the source's samples; no text is in two of
    train, validation and test.

    Attributes:
        seed: the study's seed.
        train: samples to train on.
        bank: training samples of the same labels, before every second label is cut to
            ``labels.fraction``.
        validation: held-out samples of the training labels, for selection.
        test: held-out samples of the training labels, for results.
        validation_unseen_bank, validation_unseen: training and held-out samples of labels without
            training, for selection.
        test_unseen_bank, test_unseen: training and held-out samples of other labels without
            training, for results.
        labels: sorted numbers of the labels that are trained on; empty without labels.
        left_out: a sentence about samples left out; empty if none.
        source_checksum: checksum of the source that the positions refer to.
    """

    seed: int
    train: np.ndarray
    bank: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    validation_unseen_bank: np.ndarray
    validation_unseen: np.ndarray
    test_unseen_bank: np.ndarray
    test_unseen: np.ndarray
    labels: tuple[int, ...]
    left_out: str
    source_checksum: str


def text_subset(
    source: TextSource, settings: Mapping[str, Any], seed: int, official: None = None
) -> TextSubset:
    """Draw a seed's labels and samples.

    Which labels are never trained on depends on ``labels.seed`` alone. Without pairs, texts of each
    label are held out, as long as two remain; with pairs, groups of pairs that share texts.
    Official splits are kept. Then a sample is left out if an earlier split has its anchor or
    positive, in the order of :class:`TextSubset`: so samples of labels without training never
    affect training. Hard negatives of held-out pairs are not compared, because only training uses
    them.

    Args:
        source: texts and labels.
        settings: the data set's settings: ``positives``, ``labels``, ``validation``, ``test``.
        seed: the study's seed.

    Raises:
        UserError: if a split is empty, or there are too few labels.
    """
    limits, labels, texts = settings["labels"] or {}, source.labels, source.text_numbers
    trainable, *unseen = label_sets(source.label_names, limits)
    drawn = np.random.default_rng(seed_for(seed, "labels")).permutation(trainable)[
        : limits.get("per_run")
    ]
    label_set = np.select(
        [np.isin(labels, chosen) for chosen in (drawn, *unseen)],
        [0, 1, 2],
        -1 if source.label_names else 0,
    )
    draws = np.random.default_rng(seed_for(seed, "texts")).random(len(labels))
    split, left_out = (
        _splits(source, label_set, settings, draws),
        Skipped("", int((label_set >= 0).sum()), "texts", True),
    )
    drawn_parts = [np.flatnonzero((label_set == which) & (split == part)) for which, part in PARTS]
    parts = dict(zip((*SEEN, *UNSEEN), drawn_parts, strict=True))
    short = []
    if len(source.pairs) and (source.sentences["split"] == "").all():
        pairs = np.count_nonzero(label_set == 0)
        asked = {name: round(settings[name] * pairs) for name in SEEN[1:]}
        short = [
            f"{len(parts[name]):,} of {size:,} for {name}"
            for name, size in asked.items()
            if len(parts[name]) < 0.9 * size
        ]
    train = parts["bank"]
    if limits:
        of_label = pd.Series(draws[train]).groupby(labels[train])
        kept = (of_label.transform("size") * limits["fraction"]).round().clip(lower=2)
        train = train[~np.isin(labels[train], drawn[1::2]) | (of_label.rank() <= kept)]
    if settings["positives"] == "same_label":
        distinct = pd.Series(texts[train, 0]).groupby(labels[train]).nunique()
        for name in SEEN:
            is_usable = np.isin(labels[parts[name]], distinct.index[distinct > 1])
            left_out.add("of labels without a second training text", int((~is_usable).sum()))
            parts[name] = parts[name][is_usable]
        train = np.intersect1d(train, parts["bank"])
    taken = np.unique(texts[parts["bank"], :2])
    for name in (*SEEN[1:], *UNSEEN):
        own = texts[parts[name], :2]  # anchors and positives
        is_repeated = np.isin(own, taken).any(1)
        left_out.add("with the same text in another split", int(is_repeated.sum()))
        parts[name] = parts[name][~is_repeated]
        taken = taken if name == "test" else np.union1d(taken, own[~is_repeated])
    needed = [*SEEN, *(name for name in UNSEEN if limits.get(name.removesuffix("_bank")))]
    if empty := ", ".join(name for name in needed if not len(parts[name])):
        remedy = "add texts, or change dataset.labels, dataset.validation or dataset.test"
        if len(source.pairs):
            remedy += "; pairs that share an anchor or a positive are kept in one split"
        raise UserError(
            f"source {source.name}, seed {seed}: no text is in {empty}; expected at least one;"
            f" {remedy}."
        )
    rows = (source.pairs if len(source.pairs) else source.anchors)[train]
    if lacking := (
        int(source.sentences["eta"].isna()[np.unique(rows)].sum())
        if "eta" in source.sentences
        else 0
    ):
        remedy = "give its reports the path, columns and labels of the dataset"
        raise UserError(
            f"{lacking:,} training texts have no class probability in study {settings['text']};"
            f" {remedy}."
        )
    trained_on = tuple(np.unique(labels[train]).tolist()) if source.label_names else ()
    if len(trained_on) == 1:
        problem = f"only one label, {source.label_names[trained_on[0]]!r}, has texts to train on"
        raise UserError(
            f"source {source.name}, seed {seed}: {problem}; expected at least two; change"
            " dataset.labels, or add texts."
        )
    held_out = (
        "Pairs sharing a text stay together, so fewer are held out than requested:"
        f" {', '.join(short)}."
        if short
        else ""
    )
    said = " ".join(filter(None, (left_out.sentence(), held_out)))
    return TextSubset(
        seed, train, **parts, labels=trained_on, left_out=said, source_checksum=source.checksum
    )


def refuse_text_leakage(source: TextSource, subset: TextSubset) -> None:
    """Check that a subset belongs to the source, and that no text or label is in two splits that
    must not share it.

    Raises:
        UserError: if a check fails; the message describes the violation.
    """
    if subset.source_checksum != source.checksum:
        other = f"a different version of source {source.name}"
        raise UserError(f"the subset of seed {subset.seed} was drawn from {other}; {AGAIN}.")
    texts = {
        name: source.text_numbers[getattr(subset, name), :2] for name in ("validation", "test")
    }
    texts["train"] = source.text_numbers[subset.train, :2]
    parts = ("bank", "validation_unseen_bank", "test_unseen_bank") if source.label_names else ()
    for what, values in (
        ("texts", texts),
        ("labels", {name: source.labels[getattr(subset, name)] for name in parts}),
    ):
        for first, second in itertools.combinations(values, 2):
            if shared := len(np.intersect1d(values[first], values[second])):
                problem = f"{shared:,} {what} in both {first} and {second}"
                raise UserError(
                    f"the subset of seed {subset.seed} has {problem}; expected none; {AGAIN}."
                )


def _splits(
    source: TextSource, label_set: np.ndarray, settings: Mapping[str, Any], draws: np.ndarray
) -> np.ndarray:
    """Return the split of each sample: the official one, or a drawn one.

    Texts are drawn from each label; pairs from each set of labels, by groups that share texts. A
    group that is too large for what is left of a split is trained on.
    """
    split = source.sentences["split"].to_numpy(object)[source.anchors]
    free, has_test = np.flatnonzero(split == ""), bool((split == "test").any())
    group, stratum = free, source.labels[free]
    if len(source.pairs):
        stratum = label_set[free]
        # mined hard negatives are texts of other pairs, and would join all pairs
        own = source.text_numbers[free, :2]
        texts = np.unique(own * 4 + stratum[:, None], return_inverse=True)[1].ravel() + len(free)
        edges = np.repeat(np.arange(len(free)), 2), texts
        size = int(texts.max(initial=0)) + 1
        group = connected_components(coo_array((np.ones(len(texts)), edges), (size, size)))[1][
            : len(free)
        ].astype(np.int64)
    samples = pd.DataFrame({"stratum": stratum, "draw": draws[free], "size": 1}).groupby(group)
    groups = samples.agg({"stratum": "first", "draw": "first", "size": "sum"})
    total = groups.groupby("stratum")["size"].transform("sum")
    most = (total - 2).clip(lower=0)  # two remain for training
    test = np.minimum((total * settings["test"]).round().clip(lower=1), most) * (not has_test)
    validation = np.minimum((total * settings["validation"]).round().clip(lower=1), most - test)
    # Groups larger than a split come last. If there are too few others, test and validation share
    # them.
    is_large = groups["size"] > (validation if has_test else np.minimum(test, validation)).clip(
        lower=1
    )
    others = groups["size"].where(~is_large, 0).groupby(groups["stratum"]).transform("sum")
    test = np.minimum(test, (others * test / (test + validation)).round())
    order = groups.assign(is_large=is_large).sort_values(["is_large", "draw"])
    end = order.groupby("stratum")["size"].cumsum().sort_index()
    groups["split"] = np.select(
        [end <= test, end <= test + validation], ["test", "validation"], "train"
    )
    split[free] = groups["split"].reindex(group)
    return split


# One parquet file contains the subsets of all seeds.
write_text_subsets = functools.partial(write_splits, key=METADATA, optional=UNSEEN)
read_text_subsets = functools.partial(read_splits, kind=TextSubset, key=METADATA, optional=UNSEEN)
