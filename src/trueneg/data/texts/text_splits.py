"""Training, validation and test texts of each seed, with labels that are never trained on."""

from typing import Any

import numpy as np
from numpy import ndarray
from pandas import Series

from trueneg.data.leakage import without_leaks
from trueneg.data.samples import Subset
from trueneg.data.skipping import Skipped
from trueneg.data.splits import connected_groups, drawn_splits, with_rare_classes
from trueneg.data.texts.text_files import label_sets
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section

# The set of labels (trained on, only for selection, only for results) and the split that the
# samples of each part come from. A sample is left out if an earlier part has its text.
PARTS = {
    "bank": (0, "train"),
    "validation": (0, "validation"),
    "test": (0, "test"),
    "validation_unseen_bank": (1, "train"),
    "validation_unseen": (1, "validation"),
    "test_unseen_bank": (2, "train"),
    "test_unseen": (2, "test"),
}
SEEN = tuple(PARTS)[:3]
UNSEEN = tuple(PARTS)[3:]


def text_subset(source: TextSource, settings: Section, seed: int, official: None = None) -> Subset:
    """Draw a seed's labels and samples; the source has its official splits.

    Which labels are never trained on depends on ``labels.seed`` alone. Without pairs, texts of each
    label are held out, as long as two remain; with pairs, groups of pairs that share texts.
    Official splits are kept. Then a sample is left out if an earlier split has its anchor or
    positive, in the order of :data:`PARTS`: so samples of labels without training never affect
    training. Hard negatives of held-out pairs are not compared, because only training uses them.
    With a ``test`` of 0, all samples are for training, also those without class probabilities.

    Args:
        source: texts and labels.
        settings: the data set's settings: ``positives``, ``labels``, ``validation``, ``test``.
        seed: the study's seed.

    Raises:
        UserError: if a split is empty, or there are too few labels.
    """
    limits = settings["labels"] or {}
    labels = source.labels
    trainable, *unseen = label_sets(source.label_names, limits)
    of_seed = np.random.default_rng(seed_for(seed, "labels")).permutation(trainable)
    seen = of_seed[: limits.get("per_run")]
    is_in_set = [np.isin(labels, members) for members in (seen, *unseen)]
    label_set = np.select(is_in_set, [0, 1, 2], -1 if source.label_names else 0)
    order = np.random.default_rng(seed_for(seed, "texts")).random(len(labels))
    if settings["test"] == 0:
        shared = ""
        split = np.full(len(labels), "train", object)
    else:
        kept, shared = without_leaks(source.samples, settings.get("leakage"))
        split = _splits(source, kept, label_set, settings, order)
    part = np.full(len(labels), "", object)
    for name, (number, of_split) in PARTS.items():
        part[(label_set == number) & (split == of_split)] = name
    too_few = _too_few_held_out(source, settings, part)
    train = _training_texts(labels, np.flatnonzero(part == "bank"), seen, limits, order)
    left_out = Skipped("", (label_set >= 0).sum(), "texts", True)
    if settings["positives"] == "same_label":
        _leave_out_lonely(source, part, train, left_out)
        train = train[part[train] == "bank"]
    _leave_out_repeated(source, part, left_out)
    _refuse_unusable(source, settings, part, train, f"source {source.name}, seed {seed}")
    parts: dict[str, Any] = {name: np.flatnonzero(part == name) for name in PARTS}
    return Subset(
        seed,
        source.checksum,
        train,
        **parts,
        labels=np.unique(labels[train]).tolist() if source.label_names else [],
        left_out=" ".join(filter(None, (left_out.sentence(), too_few, _fewer(limits, train)))),
        leakage=shared,
        allowed=settings.get("leakage") == "allow",
    )


def _training_texts(
    labels: ndarray, bank: ndarray, seen: ndarray, limits: Section, order: ndarray
) -> ndarray:
    """Return the training texts of a run: rare labels cut to a fraction, or a number of texts
    divided among the labels in the order in which they were drawn.
    """
    if limits.get("texts") is None:
        fraction = limits.get("fraction", 1.0)
        return bank[with_rare_classes(labels[bank], seen[1::2], fraction, order[bank], least=2)]
    shares = limits["imbalance"] ** -np.linspace(0, 1, len(seen))
    sizes = (limits["texts"] * shares / shares.sum()).round().clip(min=2)
    place = Series(order[bank]).groupby(labels[bank]).rank()
    return bank[place <= Series(sizes, seen)[labels[bank]].to_numpy()]


def _fewer(limits: Section, train: ndarray) -> str:
    """Return a sentence if labels have fewer texts than their share; empty otherwise."""
    wanted = limits.get("texts") or 0
    if len(train) >= wanted:
        return ""
    return f"Some labels have too few texts: {len(train):,} of {wanted:,} training texts."


def _splits(
    source: TextSource, kept: ndarray, label_set: ndarray, settings: Section, order: ndarray
) -> ndarray:
    """Return the split of each sample: the official one, or a drawn one.

    Texts are drawn from each label; pairs from each set of labels, by groups that share texts.
    """
    split = kept.copy()
    if "test" in split and "validation" not in split:
        split[split == "train"] = ""
    free = np.flatnonzero(split == "")
    undrawn = ("validation",) if "test" in split else ("test", "validation")
    stratum = source.labels[free]
    groups = source.samples.groups
    group = groups["groups"][free] if "groups" in groups else None
    if source.has_positives:
        stratum = label_set[free]
        # Mined hard negatives are texts of other pairs, and would join all pairs; equal texts of
        # different sets are left out later.
        shared = [source.text_numbers[free] * 4 + stratum[:, None]]
        if group is not None:  # samples of no set are in no split
            shared.append(group * 2 + (stratum >= 0))
        group = connected_groups(*shared)
    shares = {name: settings[name] for name in undrawn}
    split[free] = drawn_splits(order[free], shares, stratum=stratum, group=group, keep=2)
    return split


def _too_few_held_out(source: TextSource, settings: Section, part: ndarray) -> str:
    """Return a sentence about splits of pairs that are smaller than requested; empty if none."""
    if not source.has_positives or (source.samples.split != "").any():
        return ""
    short = []
    for name in ("validation", "test"):
        requested = round(settings[name] * np.count_nonzero(np.isin(part, SEEN)))
        size = np.count_nonzero(part == name)
        if size < 0.9 * requested:
            short.append(f"{size:,} of {requested:,} for {name}")
    if not short:
        return ""
    return (
        "Pairs sharing a text stay together, so fewer are held out than requested:"
        f" {', '.join(short)}."
    )


def _leave_out_lonely(source: TextSource, part: ndarray, train: ndarray, left_out: Skipped) -> None:
    """Leave out samples of labels without a second training text, which would be the positive."""
    distinct = Series(source.text_numbers[train, 0]).groupby(source.labels[train]).nunique()
    is_lonely = np.isin(part, SEEN) & ~np.isin(source.labels, distinct.index[distinct > 1])
    left_out.add("of labels without a second training text", is_lonely.sum())
    part[is_lonely] = ""


def _leave_out_repeated(source: TextSource, part: ndarray, left_out: Skipped) -> None:
    """Leave out samples with a text that an earlier part has, except for the test part of labels
    that are trained on.
    """
    texts = source.text_numbers
    taken = texts[part == "bank"]
    for name in tuple(PARTS)[1:]:
        is_repeated = (part == name) & np.isin(texts, taken).any(1)
        left_out.add("with the same text in another split", is_repeated.sum())
        part[is_repeated] = ""
        if name != "test":
            taken = np.union1d(taken, texts[part == name])


def _refuse_unusable(
    source: TextSource,
    settings: Section,
    part: ndarray,
    train: ndarray,
    where: str,
) -> None:
    """Check that no part is empty, and that training texts have labels and class probabilities."""
    limits = settings["labels"] or {}
    held_out = SEEN if settings["test"] else SEEN[:1]
    needed = [*held_out, *(name for name in UNSEEN if limits.get(name.removesuffix("_bank")))]
    if empty := ", ".join(name for name in needed if name not in part):
        remedy = "add texts, or change dataset.labels, dataset.validation or dataset.test"
        if source.has_positives:
            remedy += "; pairs that share an anchor or a positive are kept in one split"
        if "group" in source.sentences:
            remedy += "; the texts of a group (dataset.group_column) are kept in one split"
        raise UserError(f"{where}: no text is in {empty}; expected at least one; {remedy}.")
    if settings["test"] and (lacking := unscored(source, train)):
        raise UserError(
            f"{lacking:,} training texts have no class probability in study {settings['text']};"
            " give its reports the path, columns and labels of the dataset."
        )
    label, *others = np.unique(source.labels[train]).tolist()
    if source.label_names and not others:
        raise UserError(
            f"{where}: only one label, {source.label_names[label]!r}, has texts to train on;"
            " expected at least two; change dataset.labels, or add texts."
        )


def unscored(source: TextSource, train: ndarray) -> int:
    """Return how many texts of training samples have no class probability; 0 if no text has one."""
    if "eta" not in source.sentences:
        return 0
    rows = np.unique(source.rows[train])
    return int(source.sentences["eta"].isna()[rows].sum())
