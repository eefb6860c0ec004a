"""Write a study of the user's own data: fill in what the data reveal, and size it to fit a given
time.
"""

import contextlib
import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray

from trueneg.cli.columns import (
    FEWEST_OF_LABEL,
    LABELS,
    LOOKED_AT,
    NEGATIVE,
    NO_LABELS,
    POSITIVES,
    SCORES,
    SHOWN_RARE,
    Kind,
    UserTable,
    counts,
    is_group,
    known,
)
from trueneg.cli.new_study import HELD_OUT, SAMPLE, NewStudy
from trueneg.cli.planned_data import DECODED
from trueneg.data.cells import class_names, is_missing, truth
from trueneg.data.doubtful_labels import doubtful_names, merged, several_labels_of, spelling
from trueneg.data.image_files import EncodedImages, check_images
from trueneg.data.images.image_source import ListedImages
from trueneg.data.images.sources import image_folder, parquet
from trueneg.data.images.subsets import make_subset, refuse_reserved
from trueneg.data.leakage import without_leaks
from trueneg.data.pairs import image_table
from trueneg.data.pairs.pair_splits import official_subset
from trueneg.data.pairs.registry import first_look, source_module
from trueneg.data.skipping import SHARE
from trueneg.data.table_formats import SPACE
from trueneg.data.tables import refuse_several_labels
from trueneg.data.texts import beir, text_table
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.specs.pairs.image_table import NO_CAPTIONS
from trueneg.specs.sections import Section
from trueneg.text.cleaning import normalised, same_form
from trueneg.text.words import is_mostly_latin

UNSEEN_FROM = 10  # labels, from which some are kept for the test on labels of no run
SKEWED = 3  # times the median label; from there, balanced accuracy is primary
SMALL = 96  # pixels: side of small images in the frozen tower
USUAL = 160  # of other images
OF_SIZE = 50  # images whose size is looked at, of the
FIRST = 1000
ONE_PER_ROW = (
    "Expected a column with one text per row: give each text of a list its own row, such as with"
    " pandas' explode. Lists are read as positives (--positive) and as hard negatives (columns such"
    " as neg or negative_1)."
)
AUDIT = "`trueneg audit {}` says how many of the hard negatives are false (docs/audit.md)"
CHOOSE_TEXT = "If a column does contain texts, choose it with --text."
CHOOSE_LABEL = "Choose a column with --label or --positive, or add one."
# options that choose a column, if what is detected is not meant
SHARED_COLUMNS = {
    "text": "the texts",
    "group": "what is never in two splits, such as a patient or an author; none: nothing",
    "split": "your own splits (train, validation, test); none: splits are drawn",
}
TEXT_COLUMNS = SHARED_COLUMNS | {
    "label": "the labels",
    "positive": "the texts to pair with the first ones, instead of labels",
}
PAIR_COLUMNS = SHARED_COLUMNS | {"image": "the images' file names"}
Chosen = Mapping[str, Any]  # columns by their role, and what happens to labels


def init_text(path: Path, minutes: float, file: Path, chosen: Chosen) -> str:
    """Write a study of the texts in a table, which have labels or come in pairs.

    Args:
        path: the table.
        minutes: approximate time that the study may take on this machine.
        file: the configuration to write; rows that are kept, if not all of them, are written beside
            it.
        chosen: columns by their role: text, label, positive, group and split; others are found by
            their names and contents. ``matches``: which rows are pairs. ``merge_labels``: whether
            spellings of a label are one. ``leave_out``: labels. ``train``: a head, which is the
            default, or all layers.

    Returns:
        What was found in the data, and the next commands.

    Raises:
        UserError: if the data cannot show what a correction gains, columns are ambiguous, or a file
            exists.
    """
    of_pairs = next(filter(chosen.get, ("positive", "matches")), None)
    if chosen.get("label") and of_pairs:
        raise UserError(
            f"--label is {chosen['label']} and --{of_pairs} is {chosen[of_pairs]}; expected one of"
            " them: texts with labels, or pairs."
        )
    study = NewStudy("text", path, minutes, file, chosen.get("train", "head"))
    if path.is_dir():
        return _corpus(study, path, chosen)
    table = UserTable(path, chosen)
    study.found = table.found
    negatives = table.negatives()
    text = choose_text(table)
    table.leave_out(table.rows[text].map(is_missing), "without a text")
    fields: dict[str, Any] = {"text": text, "negatives": negatives}
    fields |= {"split": table.split(), "group": table.group("text")}
    column = choose_label(table, text)
    if column is None:
        if chosen.get("merge_labels") or chosen.get("leave_out"):
            raise UserError(
                f"{path} is read as pairs of texts, without labels; remove --merge-labels and"
                " --leave-out, or choose a column of labels with --label."
            )
        fields["positive"] = choose_positive(table, text)
    else:
        _labels(table, text, column)
    study.found += [table.unused(table.roles), *([AUDIT.format(path)] if negatives else [])]
    fields["table"] = study.rows(table, column)
    if vectors := study.compare(chosen.get("compare")):
        _vectors_of_rows(study, vectors, table, "positive" in fields)
    if column is None:
        return study.write("text_pairs", 3, _shared_texts, **fields)
    fields |= _label_sets(table.rows.loc[table.usable, column].value_counts())
    return study.write("text_labels", 4, _shared_texts, label=column, **fields)


def _label_sets(sizes: pd.Series) -> dict[str, Any]:
    """Return which labels of a study are never trained on, and how classes are weighed."""
    common = len(sizes)
    unseen = common // 5 if common >= UNSEEN_FROM else 0
    sets = {"train": common - 2 * unseen, "validation_unseen": unseen, "test_unseen": unseen}
    balanced = "macro" if sizes.max() > SKEWED * sizes.median() else None
    return {"labels": sets if unseen else None, "balanced": balanced}


def _read_vectors(path: Path, count: int, what: str) -> ndarray:
    from trueneg.data.vector_files import read_vectors  # imports torch

    return read_vectors(path, None, count, what)


def _vectors_of_rows(study: NewStudy, path: Path, table: UserTable, is_paired: bool) -> None:
    """Compare with the user's vectors: one per row of the table or, of pairs, two, (rows, 2, D).

    Raises:
        UserError: if they do not fit the table.
    """
    vectors = _read_vectors(path, len(table.rows), "rows")
    if vectors.ndim != 2 + is_paired:
        raise UserError(
            f"{path} has the shape {vectors.shape}; expected"
            f" {'two vectors per pair, (rows, 2, D)' if is_paired else 'one vector per row'}."
        )
    target = study.new(study.file.with_name(f"{study.file.stem}_vectors.npy"))
    study.compared["text_encoder"]["path"] = str(target)

    def write(settings: Section) -> None:
        source = text_table.read_source(settings)
        places = source.pairs if is_paired else source.anchors
        if len(source.pairs) and source.pairs.shape[1] > 1 + is_paired:
            raise UserError(
                f"--compare is {path}, a file of vectors, but {study.place} has several positives"
                " or hard negatives in a row, for which it has none; name a model, or remove these"
                " columns."
            )
        values = np.empty((len(source.sentences), vectors.shape[-1]), np.float32)
        values[places] = vectors[table.usable.to_numpy()]
        np.save(target, values)

    study.beside[target] = write


def _shared_texts(settings: Section) -> str:
    """Return a sentence about texts and groups that the user's own splits share."""
    source = source_module(settings["source"]).read_source(settings)
    return without_leaks(source.samples, "leave_out")[1]


def _corpus(study: NewStudy, folder: Path, chosen: Chosen) -> str:
    """Write a study of queries and a corpus in a folder."""
    for option in (*TEXT_COLUMNS, "matches", "merge_labels", "leave_out"):
        if chosen.get(option):
            raise UserError(
                f"{folder} is read as queries and a corpus, whose columns are known; leave out"
                f" --{option.replace('_', '-')}."
            )
    if study.compare(chosen.get("compare")):
        raise UserError(
            f"--compare is {chosen['compare']}, a file of vectors, which are those of rows of one"
            f" table; name a model to compare it on {folder}."
        )
    splits = "official" if beir.has_splits(folder) else "drawn"
    settings = {"path": str(folder), "splits": splits, "candidates": "corpus"}
    rows, corpus, skipped = beir.read_rows(settings | {"restricted": False} | beir.SKIPPING)
    study.found.append(f"{len(rows):,} queries with right answers in {len(corpus):,} texts")
    if skipped:
        study.found.append(skipped)
    # none can be left out
    study.sample(pd.Series("", rows.index), pd.Series("test", rows.index), "queries")
    study.seconds -= SAMPLE["text"] * len(corpus)
    return study.write("text_corpus", 3, _shared_texts, folder=str(folder), splits=splits)


def choose_text(table: UserTable) -> str:
    """Choose the column of texts, and say whether the encoder knows its script."""
    chosen = [table.chosen.get("positive"), table.chosen.get("label")]
    texts = [name for name in table.texts() if name not in chosen]
    partners = known(texts[1:], POSITIVES)
    text = table.choose("text", [name for name in texts if name not in partners])
    if text is None:
        raise UserError(
            f"{table.path} has no column of different texts with several words each"
            f" ({table.columns(table.kinds)}). {ONE_PER_ROW if table.has_lists else CHOOSE_TEXT}"
        )
    if not is_mostly_latin(table.rows[text].head(LOOKED_AT)):
        remedy = (
            "set the model of text_encoder to a multilingual one, such as"
            " paraphrase-multilingual-MiniLM-L12-v2"
        )
        table.found.append(
            f"most letters are not Latin, but all-MiniLM-L6-v2 is an English model: {remedy}"
        )
    return text


def choose_label(table: UserTable, text: str) -> str | None:
    """Choose the column of the labels; None if the texts come in pairs.

    Raises:
        UserError: if both are possible, or neither.
    """
    named = known(table.free(), LABELS)
    partners = known(table.free("text", "texts"), POSITIVES)
    if table.chosen.get("positive") or table.chosen.get("matches"):
        return None
    if table.chosen.get("label"):
        return table.choose("label", [])
    if named and partners:
        raise UserError(
            f"{table.path} has labels in {named[0]}, and texts that may be paired with {text} in"
            f" {partners[0]}. Choose what belongs together with --label {named[0]} or --positive"
            f" {partners[0]}."
        )
    if partners:
        return None
    others = [
        name for name in table.free("label") if not (known([name], NO_LABELS) or is_group(name))
    ]
    if not named and len(others) > 1:
        raise UserError(
            f"{table.path} has several columns that may contain labels: {', '.join(others)}. Choose"
            " one with --label."
        )
    label = table.choose("label", named or others)
    if label is None:
        texts = ", ".join(table.texts())
        possible = f"; possible columns of positives: {texts}" if texts else ""
        raise UserError(
            f"{table.path} has texts in {text}, but no labels, so it is unknown which texts belong"
            f" together ({table.unused(table.roles)}{possible})."
            f" {ONE_PER_ROW if table.has_lists else CHOOSE_LABEL}"
        )
    return label


def _labels(table: UserTable, text: str, label: str) -> None:
    """Read the labels as the study does, and leave out those that cannot be used."""
    table.rows[label] = class_names(table.rows[label])
    table.leave_out(table.rows[label] == "", f"without a {label}")
    labels = table.rows.loc[table.usable, label]
    refuse_several_labels(table.path, label, labels.unique())
    labels, unwanted = _wanted(table.path, labels, table.chosen, table.found)
    table.rows.loc[labels.index, label] = labels
    table.leave_out(unwanted, "of labels that are left out on request")
    if labels[~unwanted].nunique() < 2:
        raise UserError(
            f"{table.path}: {label} has the same label in all rows; expected at least two labels."
        )
    texts = table.rows.loc[table.usable, text].map(normalised).groupby(labels).nunique()
    for name in texts[(texts == 1) & (labels.value_counts() > 1)].index:
        table.leave_out(table.rows[label] == name, f"of {label} {name}, whose texts are all equal")
    rare, few = _rare(table.path, table.rows.loc[table.usable, label], "label", "row")
    table.leave_out(table.rows[label].isin(rare), f"of {few}")
    labels = table.rows.loc[table.usable, label]
    texts = table.rows.loc[table.usable, text]
    table.found += several_labels_of(
        labels, texts.map(same_form).to_numpy(object), texts.to_numpy(object), "texts"
    )
    sizes = labels.value_counts()
    if len(sizes):
        between = f"{sizes.min():,} to {sizes.max():,} rows"
        table.found.append(f"{len(sizes):,} labels of {between}: {counts(labels)}")


def _wanted(
    place: Path, labels: pd.Series, chosen: Chosen, found: list[str]
) -> tuple[pd.Series, pd.Series]:
    """Say which labels are doubtful; return the labels, merged on request, and whether each is to
    be left out.

    Raises:
        UserError: if a label to be left out does not exist.
    """
    found += doubtful_names(labels)
    if chosen.get("merge_labels"):
        found.append(f"merged: {labels.nunique():,} labels are {merged(labels).nunique():,}")
        labels = merged(labels)
    forms = labels.map(spelling)
    names = chosen.get("leave_out", ())
    for name in names:
        if spelling(name) not in set(forms):
            raise UserError(
                f"--leave-out is {name}; expected a label of {place}: {counts(labels, SHOWN_RARE)}."
            )
    return labels, forms.isin(list(map(spelling, names)))


def _rare(place: Path, labels: pd.Series, label: str, unit: str) -> tuple[pd.Index, str]:
    """Return the labels with too few samples, and a phrase about them.

    Raises:
        UserError: if a single other label is left.
    """
    sizes = labels.value_counts()
    rare = sizes.index[sizes < FEWEST_OF_LABEL]
    if len(sizes) == len(rare) + 1:
        raise UserError(
            f"{place} has one {label} with {FEWEST_OF_LABEL} {unit}s or more; expected at least"
            " two."
        )
    few = f"{counted(len(rare), label)} with fewer than {FEWEST_OF_LABEL} {unit}s"
    return rare, f"{few}: {counts(labels[labels.isin(rare)], SHOWN_RARE)}"


def choose_positive(table: UserTable, text: str) -> str:
    """Choose the column of positives, and leave out the rows that are no pairs.

    Raises:
        UserError: if it is unknown which rows are pairs.
    """
    listed = known(table.free("text", "texts"), POSITIVES)
    positive = table.choose("positive", listed or table.texts())
    if positive is None:
        raise UserError(
            f"{table.path} has no second column of texts ({table.unused(table.roles)})."
            f" {CHOOSE_LABEL}"
        )
    table.leave_out(table.rows[positive].map(is_missing), f"without a {positive}")
    possible = [*known(table.free(), SCORES), *table.free("truth", "number")]
    judges = [name for name in dict.fromkeys(possible) if not is_group(name)]
    matches = table.chosen.get("matches")
    if judges and matches is None:
        raise UserError(
            f"{table.path}: it is unknown whether {text} and {positive} belong together in every"
            f" row, because there are other columns: {table.columns(judges)}. Choose the rows whose"
            f" texts belong together with --matches {judges[0]}=VALUE (of scores with decimals, at"
            f" least this; of others, '{judges[0]}>=NUMBER'), or all of them with --matches all."
        )
    if matches not in (None, "all"):
        _leave_out_mismatches(table, matches)
    equal = table.rows[text].map(normalised) == table.rows[positive].map(normalised)
    table.leave_out(equal, "with equal texts")
    return positive


def _leave_out_mismatches(table: UserTable, matches: str) -> None:
    """Leave out the rows without the value of COLUMN=VALUE, or below the number of COLUMN>=NUMBER;
    a number with decimals is such a bound, too, and so is one of a column that has decimals.
    """
    column, _, value = matches.rpartition("=")
    is_bound = column not in table.rows and column.endswith(">")
    column = column.removesuffix(">") if is_bound else column
    wished = pd.to_numeric(truth(value), errors="coerce")
    if column not in table.rows or (is_bound and math.isnan(wished)):
        raise UserError(
            f"--matches is {matches}; expected all, COLUMN=VALUE or COLUMN>=NUMBER with one of the"
            f" columns {', '.join(map(str, table.rows))}."
        )
    table.roles[column] = "matches"
    cells = table.rows[column].map(truth)
    numbers = pd.to_numeric(cells, errors="coerce")
    # whole numbers may be classes, such as those of natural-language inference
    is_bound |= not math.isnan(wished) and bool((numbers % 1 > 0).any() or wished % 1 > 0)
    is_pair = numbers >= wished if is_bound else (cells == truth(value)) | (numbers == wished)
    said = f"pairs: rows whose {column} is {'at least ' * is_bound}{value}"
    if not is_bound and numbers.max() > max(wished, 1):
        said += f" (if those above it are, too: --matches '{column}>={value}')"
    table.found.append(said)
    table.leave_out(~is_pair, "that are no pairs")


def init_images(folder: Path, minutes: float, file: Path, chosen: Chosen) -> str:
    """Write a study of the images in class folders or parquet files, as :func:`init_text`; if only
    some are kept, or classes are merged, they are linked or copied in a folder next to it.
    """
    study = NewStudy("images", folder, minutes, file)
    source = source_of_images(folder)
    every = source.listed(folder)
    listed = _usable_images(study, every)
    found, split, about = classes_of(listed)
    study.found = [*about, *study.found]
    classes = _usable_classes(study, found, listed.is_test, chosen)
    kept = study.sample(classes, split[classes.index], "images")
    study.found.append(f"{len(kept):,} of {len(every.images):,} images are used")
    # a class may have no usable image
    if not kept.equals(found) or every.classes() != listed.classes():
        folder = study.new(file.with_name(f"{file.stem}_images"))
        places = split[kept.index] + "/" + kept
        study.beside[folder] = lambda _: listed.images.copy(places.to_dict(), folder)
    if vectors := study.compare(chosen.get("compare")):
        if len(kept) < len(split):
            raise UserError(
                f"--compare is {vectors}, but {len(split) - len(kept):,} of {len(split):,} images"
                " are left out, so its rows would not match; use a folder of the images that are"
                " used, more --minutes, or the model itself."
            )
        _read_vectors(vectors, len(split), "images")
    resolution = resolution_of(listed.images)
    numbers, names = pd.factorize(kept, sort=True)
    part = listed.part(kept.index.tolist())._replace(labels=numbers, class_names=tuple(names))
    shared = _about_contents(study, part, resolution, len(every.images) <= DECODED)
    sizes = kept[~part.is_test].value_counts()
    unusable = len(every.images) - len(listed.images)
    test = None if part.is_test.any() else study.held_out["test"]
    return study.write(
        "images",
        4,
        source=source.__name__.rpartition(".")[2],
        folder=str(folder),
        leakage="leave_out" if shared else None,
        group="macro" if sizes.max() > 1.5 * sizes.min() else None,
        resolution=resolution,
        test=test,
        validation=round(study.held_out["validation"] / (1 - (test or 0)), 4),
        skip_incomplete=unusable if unusable > SHARE * len(every.images) else True,
    )


def _usable_images(study: NewStudy, listed: ListedImages) -> ListedImages:
    """Leave out the images that cannot be decoded or, of many, opened; say how many and why."""
    decode = len(listed.images) <= DECODED
    usable, skipped = check_images(listed.images, study.place, 1.0, decode=decode)
    if skipped:
        study.found.append(f"left out: {skipped.replace(' are skipped', '').rstrip('.')}")
    return listed.part(usable)


def _usable_classes(
    study: NewStudy, classes: pd.Series, is_test: ndarray, chosen: Chosen
) -> pd.Series:
    """Return the classes, merged on request, of the images that are used; say what is left out."""
    classes, unwanted = _wanted(study.place, classes, chosen, study.found)
    if unwanted.any():
        study.found.append(f"left out: {counted(int(unwanted.sum()), 'image')} on request")
    classes = classes[~unwanted]
    rare, few = _rare(study.place, classes[~is_test[classes.index]], "class folder", "image")
    if len(rare):
        study.found.append(f"left out: {counted(int(classes.isin(rare).sum()), 'image')} of {few}")
    classes = classes[~classes.isin(rare)]
    refuse_reserved(study.place, classes.unique().tolist())
    return classes


def source_of_images(folder: Path) -> Any:
    """Return the module that lists the images of a folder or a parquet file; a table beside class
    folders has no images.
    """
    name = "train*.parquet" if any(folder.glob("[!.]*/")) else "*.parquet"
    return parquet if folder.is_file() or any(folder.glob(name)) else image_folder


def classes_of(listed: ListedImages) -> tuple[pd.Series, pd.Series, list[str]]:
    """Return the class and the split of each image, and sentences about them."""
    classes = pd.Series(listed.labels).map(dict(enumerate(listed.class_names)))
    split = (
        pd.Series("train", classes.index)
        .mask(listed.is_validation, "validation")
        .mask(listed.is_test, "test")
    )
    sizes = classes[~listed.is_test].value_counts()
    between = f"{sizes.min():,} to {sizes.max():,} each"
    found = [
        f"{len(split):,} images of {len(sizes):,} classes with {between} (without test images):"
        f" {counts(classes)}"
    ]
    if split.nunique() > 1:
        found.append(f"splits of your own: {counts(split)}")
    if listed.images.unused:
        found.append(f"not used: {', '.join(listed.images.unused)}")
    return classes, split, found


def _about_contents(
    study: NewStudy, listed: ListedImages, resolution: int, is_decoded: bool
) -> bool:
    """Say which images occur with different labels, and which ones the folder's own splits share;
    return whether some are, which are to be left out of training.

    Args:
        study: the study, with its sentences about the data.
        listed: the images that are used.
        resolution: at which their pixels are compared, unless they are many.
        is_decoded: whether all have been decoded before, not only opened.

    Raises:
        UserError: if a class then has too few images.
    """
    from trueneg.data.images.pixels import decoded_source, undecoded_source

    if len(listed.images) > DECODED:
        source = undecoded_source("images", listed)
    else:
        how: Any = {"resolution": resolution, "skip_incomplete": float(not is_decoded)}
        source = decoded_source("images", listed, place=study.place, **how)
    contents = source.samples.groups["images"]
    classes = pd.Series(np.array(source.class_names)[source.labels])
    study.found += several_labels_of(classes, contents, source.names, "images")
    if not (listed.is_test.any() or listed.is_validation.any()):
        return False
    shared = make_subset(source, seed=0, leakage="leave_out").leakage
    if shared:
        study.found.append(f"WARNING {shared}")
    return bool(shared)


def resolution_of(images: EncodedImages) -> int:
    """Return the resolution at which a frozen tower sees images: by the median of the longer sides
    of the readable ones in an even sample of the first ones.
    """
    from trueneg.data.decoding import UnreadableImageError, open_image

    sides = []
    last = min(len(images), FIRST) - 1  # of parquet files, all rows up to it are read
    chosen = np.linspace(0, last, min(len(images), OF_SIZE)).astype(int)
    for content in images.part(chosen.tolist()).read():
        with contextlib.suppress(UnreadableImageError):
            sides.append(max(open_image(content).size))
    return SMALL if sides and np.median(sides) <= SMALL else USUAL


def init_pairs(path: Path, folder: Path, minutes: float, file: Path, chosen: Chosen) -> str:
    """Write a study of the images in a folder and their texts in a table, as :func:`init_text`.

    Args:
        path: the table.
        folder: the images.
        minutes, file: as in :func:`init_text`.
        chosen: columns by their role: image, text, group and split.
    """
    study = NewStudy("pairs", path, minutes, file)
    table = UserTable(path, chosen, ("text", "texts"))
    study.found = table.found
    image, text = choose_image_and_text(table, folder)
    split = table.split()
    group = table.group("image")
    labels = [name for name in table.free("truth") if _is_label(table, name, image, group or image)]
    table.roles |= dict.fromkeys(labels, "label")
    table.found += [f"labels: {', '.join(labels) or 'none'}", table.unused(table.roles)]
    if vectors := study.compare(chosen.get("compare")):
        raise UserError(
            f"--compare is {vectors}; expected an open_clip model for images with texts, such as"
            " ViT-B-32,openai (for vectors, see docs/encoders.md)."
        )
    usable = set(table.rows.loc[table.usable, image])
    rows = study.rows(table, unit=image)
    if rare := [name for name in labels if not _is_label(table, name, image, group or image)]:
        labels = [name for name in labels if name not in rare]
        table.found.append(f"not used, too rare in the images that are drawn: {', '.join(rare)}")
    used = table.rows.loc[table.usable, image]
    images = used.nunique()
    negatives = [name for name, role in table.roles.items() if role == "negative"]
    not_drawn = usable.difference(used)
    lost = sum(int(_named(table, name, folder).isin(not_drawn).sum()) for name in negatives)
    if lost:
        table.found.append(f"{lost:,} hard negatives are images that are left out to save time")
    return study.write(
        "pairs",
        3,
        lambda settings: _shared_pairs(settings, images),
        folder=str(folder),
        table=rows,
        image=image,
        text=text,
        patient=group,
        split=split,
        labels=labels,
        negatives=negatives or None,
    )


def _shared_pairs(settings: Section, images: int) -> str:
    """Return a sentence about groups and images that the user's own splits share; of many images,
    files are compared.
    """
    if settings.get("split_column") is None:
        return ""
    with tempfile.TemporaryDirectory() as cache:
        decoded = math.inf if images <= DECODED else DECODED
        looked: Any = first_look(settings, Path(cache), decoded)
        source, official = looked
        return official_subset(source, official, 0, "leave_out", HELD_OUT["validation"]).leakage


def choose_image_and_text(table: UserTable, folder: Path) -> tuple[str, str]:
    """Choose the columns of images, texts and hard negatives, and leave out the rows that are no
    pairs or repeat one.

    Returns:
        The columns of images and of texts; those of hard negative images have a role.

    Raises:
        UserError: if there are no such columns or no such images.
    """
    if not folder.is_dir():
        raise UserError(f"--images is {folder}; expected the folder of the images in {table.path}.")
    image = _choose_image(table, folder)
    negatives = table.negatives("image")
    text = choose_text(table)
    cells = table.rows[text].str.strip(SPACE)
    table.leave_out(cells.map(is_missing), "without a text")
    repeated = table.rows.assign(text=cells)[table.usable].duplicated([image, "text"])
    in_one_row = " (all hard negatives of a text belong in one row, as a list)" if negatives else ""
    table.leave_out(repeated[repeated], f"that repeat an image and its text{in_one_row}")
    of_rows = set(table.rows.loc[table.usable, image])
    for name in negatives:
        if of_rows.isdisjoint(_named(table, name, folder)):
            table.roles[name] = "not used"
            table.found.append(
                f"{name} is not used, no cell names the image of a usable row: {NO_CAPTIONS}"
            )
    return image, text


def _named(table: UserTable, column: str, folder: Path) -> pd.Series:
    """Return the images that the cells of the usable rows name."""
    cells = table.rows.loc[table.usable, [column]]
    return image_table.named_images(cells, folder).explode().dropna()


def _choose_image(table: UserTable, folder: Path) -> str:
    """Choose the column of images, and leave out the rows whose image is not in the folder."""
    images = [name for name in table.free("image") if not re.fullmatch(NEGATIVE, name.lower())]
    if len(images) > 1 and not table.chosen.get("image"):
        raise UserError(
            f"{table.path} has several columns of images: {', '.join(images)}. Choose one with"
            " --image."
        )
    image = table.choose("image", images)
    if image is None:
        raise UserError(
            f"{table.path} has the columns {table.columns(table.kinds)}; expected a column of image"
            " file names, such as 2024/0017.png. Add one (docs/own-data.md)."
        )
    # as the study reads names
    names = table.rows[image].map(lambda name: image_table.relative(name, folder))
    table.rows[image] = names
    table.leave_out(names == "", "without an image")
    found = image_table.files_of(folder, filter(None, names.unique()))
    lacking = [name for name, files in found.items() if not files]
    if len(lacking) == len(found):
        elsewhere = [name for name in lacking if re.match(image_table.ELSEWHERE, name)]
        remedy = image_table.SHORTEN if elsewhere else "fix --images"
        raise UserError(
            f"{folder} lacks all {len(found):,} images in {table.path}, such as"
            f" {next(iter(found), 'none')}; {remedy}."
        )
    example = next(iter(lacking), "")
    table.leave_out(names.isin(lacking), f"whose image is not in {folder}, such as {example}")
    table.found.append(f"{len(found) - len(lacking):,} images")
    return image


def _is_label(table: UserTable, column: str, image: str, group: str) -> bool:
    """Whether a column of 1, 0 or nothing is the same in all rows of an image, and has each of 1
    and 0 in two groups or more; if not, say so.
    """
    rows = table.rows[table.usable]
    cells = rows[column].map(truth)
    groups = rows[group].groupby(cells).nunique()
    problem = ""
    if cells.groupby(rows[image]).nunique().max() > 1:
        problem = "differs between rows of an image"
    elif min(groups.get("0", 0), groups.get("1", 0)) < 2:
        problem = "has one of them in fewer than two groups"
    table.kinds[column] = Kind("truth", f"{table.kinds[column].phrase}; {problem}")
    return not problem and column != ""
