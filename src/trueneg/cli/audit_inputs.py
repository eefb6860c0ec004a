"""What the user wants audited: texts in a table or a folder of queries and a corpus, images by
class, or images with captions.
"""

import itertools
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import yaml
from numpy import ndarray
from pandas import DataFrame, Series
from pydantic import TypeAdapter, ValidationError

from trueneg.audit.hard_negatives import FrozenTexts
from trueneg.audit.images import FrozenImages, about_images, contents
from trueneg.cli.columns import POSITIVES, UserTable, known
from trueneg.cli.init import (
    choose_image_and_text,
    choose_label,
    choose_positive,
    choose_text,
    classes_of,
    resolution_of,
    source_of_images,
)
from trueneg.data.cells import class_names, texts_of
from trueneg.data.doubtful_labels import doubtful_names
from trueneg.data.image_files import EncodedImages, ImageFiles
from trueneg.data.images.sources.parquet import IMAGE_COLUMNS, has_encoded_images
from trueneg.data.leakage import EXAMPLES, without_leaks
from trueneg.data.mining import normalised_vectors
from trueneg.data.mistakes import COPY_AGAIN
from trueneg.data.pairs import image_table
from trueneg.data.samples import Samples
from trueneg.data.tables import refuse_several_labels
from trueneg.data.texts import beir
from trueneg.data.texts.text_rows import (
    ANCHOR,
    NEGATIVE,
    POSITIVE,
    about_certain,
    fits_role,
    text_cells,
)
from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.legible import counted
from trueneg.specs.guides.encoder import ImageTower, TextTower
from trueneg.specs.sections import Section
from trueneg.text.cleaning import same_form

NO_IMAGE = -1
# by what is encoded: towers, those that a single name means, the default, and what messages expect
TOWERS: Mapping[str, tuple[Any, Section, str, str]] = {
    "text": (
        TextTower,
        {"name": "sentence_transformers", "truncate": True},
        "all-MiniLM-L6-v2",
        "a model of sentence-transformers",
    ),
    "image": (ImageTower, {"name": "timm"}, "tf_efficientnet_lite0", "a network of timm"),
}
OPTIONS = {
    "text": "--text",
    "positive": "--positive",
    "label": "--label",
    "negatives": "--negative",
    "matches": "--matches",
    "split": "--split",
    "image": "--image",
    "images": "--images",
}


class Audited(NamedTuple):
    """The user's texts or images.

    Attributes:
        about: what was read.
        cells: of :func:`~trueneg.data.texts.text_rows.text_cells`, with the ``number`` of each
            text; those that are equal when normalised have one. An image is a cell, too: its text
            is its name, and ``image`` its position.
        rows: ``group`` (its number; −1: none) and ``split`` of each row.
        images: all images; None: there are only texts.
        unreadable: ``image`` (its name) and ``problem`` of each image that cannot be read.
        forms: of all different texts, also of splits that are not audited.
    """

    about: str
    cells: DataFrame
    rows: DataFrame
    images: EncodedImages | None = None
    unreadable: DataFrame = DataFrame()
    forms: ndarray = np.empty(0)

    @property
    def unit(self) -> str:
        """What a row is."""
        return "row" if self.images is None else "image"

    @property
    def certain(self) -> str:
        """What is certain without a model."""
        return about_certain(self.cells) if self.images is None else about_images(self.cells)

    @property
    def different(self) -> DataFrame:
        """The first cell of each text or image, by number."""
        return self.cells.drop_duplicates("number").set_index("number")

    def positives(self) -> Mapping[int, str]:
        """Return a positive of each anchor, by number of the anchor."""
        return self._of_rows(ANCHOR, POSITIVE)

    def anchors(self) -> Mapping[int, str]:
        """Return an anchor of each positive, by number of the positive."""
        return self._of_rows(POSITIVE, ANCHOR)

    def _of_rows(self, role: str, other: str) -> Mapping[int, str]:
        ends = [self.cells[self.cells["role"] == each] for each in (role, other)]
        both = ends[0][["row", "number"]].merge(ends[1][["row", "text"]], on="row")
        return dict(both[["number", "text"]].itertuples(index=False))


def read_audited(path: Path, chosen: Mapping[str, Any]) -> Audited:
    """Read what is trained on of a file of texts with labels, or of pairs of texts, with or without
    hard negatives; a folder in the layout of BEIR; images by class, as
    :func:`trueneg.cli.init.init_images`; or a table of images with captions.

    Args:
        path: the table or the folder.
        chosen: columns by their role, as for :func:`trueneg.cli.init.init_text`, ``negatives`` and
            ``image``; ``images``: the folder of the images in a table.

    Raises:
        UserError: if it cannot be read, columns are ambiguous, or an option has no meaning for it.
    """
    form = _form_of(path, chosen)
    for name in OPTIONS.keys() - form.options:
        if chosen.get(name):
            raise UserError(f"{path} is read as {form.name}; leave out {OPTIONS[name]}.")
    audited = form.read(path, chosen)
    cells = audited.cells
    texts = cells if audited.images is None else cells[cells["role"] != ANCHOR]
    if not len(audited.forms):
        audited = audited._replace(forms=texts["form"].unique())
    if (audited.rows["split"] != "train").any():
        audited = _of_training(audited)
    if len(audited.rows) < 2:
        raise UserError(
            f"{path} has {len(audited.rows)} usable {audited.unit}s; expected at least two"
            f" ({audited.about})."
        )
    cells = audited.cells.assign(number=pd.factorize(audited.cells["form"])[0])
    return audited._replace(about=f"{path}: {audited.about}", cells=cells)


def _of_training(audited: Audited) -> Audited:
    """Leave out the rows that a study with the user's own splits does not train on."""
    cells = audited.cells
    rows = audited.rows
    anchors = cells[cells["role"] == ANCHOR]
    if audited.images is None:
        what = "texts"
        contents = cells[cells["role"] != NEGATIVE]
        values = contents["text"].map(same_form)
    else:
        what = "images"
        contents = anchors
        values = contents["form"]
    placed = DataFrame({"row": contents["row"], "value": pd.factorize(values)[0]})
    placed["place"] = placed.groupby("row").cumcount()
    table = placed.pivot(index="row", columns="place", values="value").ffill(axis=1)
    groups: dict[str, ndarray] = {what: table.to_numpy()}
    if (rows["group"] >= 0).any():
        groups["groups"] = rows["group"].to_numpy()
    split = rows["split"].to_numpy(object)
    no_labels = np.full(len(rows), -1)
    names = anchors["text"].to_numpy(object)
    samples = Samples("", "", split, no_labels, groups, names=names)
    kept, shared = without_leaks(samples, "leave_out")
    others = counted(int((split != "train").sum()), audited.unit)
    found = [audited.about, f"not audited: {others} of other splits", shared]
    rows = rows[kept == "train"]
    cells = cells[cells["row"].isin(rows.index)].reset_index(drop=True)
    return audited._replace(about="; ".join(filter(None, found)), cells=cells, rows=rows)


class Form(NamedTuple):
    """How a file or a folder is read, what messages call it, and which options it has."""

    read: Callable[[Path, Mapping[str, Any]], Audited]
    name: str
    options: Collection[str] = ()


def _form_of(path: Path, chosen: Mapping[str, Any]) -> Form:
    if _has_classes(path) and not (path.is_file() and chosen.get("text")):
        return Form(_read_images, "images by class, which has no columns")
    if path.is_dir():
        return Form(_read_folder, "a folder of texts, which has no columns")
    if chosen.get("images"):
        options = {"text", "image", "images", "split"}
        return Form(_read_captions, "images with captions", options)
    options = OPTIONS.keys() - {"image", "images"}
    return Form(_read_table, "texts (images with captions need --images FOLDER)", options)


def _has_classes(path: Path) -> bool:
    """Return whether a folder or a parquet file has images by class."""
    if path.is_dir():
        return not (path / beir.CORPUS).exists() and not (path / beir.QUERIES).exists()
    if path.suffix != ".parquet" or not path.is_file():
        return False
    with reading(path, "a parquet file", COPY_AGAIN):
        schema = pq.read_schema(path)
    names = [name for name in IMAGE_COLUMNS if name in schema.names]
    return any(has_encoded_images(schema.field(name).type) for name in names)


def _read_folder(folder: Path, chosen: Mapping[str, Any]) -> Audited:
    settings = {
        "path": str(folder),
        "splits": "official" if beir.has_splits(folder) else "drawn",
        "candidates": "judged",
        "restricted": False,
    }
    rows, documents, skipped = beir.read_rows(settings | beir.SKIPPING)
    about = f"{len(rows):,} queries with right answers among {len(documents):,} judged texts"
    rows["positives"] = rows["positives"].map(json.dumps)
    cells = text_cells(rows, {"text": ANCHOR, "positives": POSITIVE}, None)
    about = "; ".join(filter(None, [about, skipped.removesuffix(".")]))
    return Audited(about, cells, _rows(rows["split"]))


def _read_table(path: Path, chosen: Mapping[str, Any]) -> Audited:
    table = UserTable(path, chosen)
    roles, label = text_roles(table)
    is_readable = Series(True, table.rows.index)
    for column, role in roles.items():
        texts = table.rows[column].map(texts_of)
        table.leave_out(texts.isna(), f"whose {column} is a list that cannot be read")
        is_readable &= fits_role(texts, role)
        if role != NEGATIVE:
            table.leave_out(texts.str.len() == 0, f"without a {column}")
        if role == ANCHOR:
            table.leave_out(texts.str.len() > 1, f"with several texts in {column}")
    table.split()
    group = table.group("text")
    table.found.append(table.unused(table.roles))
    rows = table.rows[table.usable]
    labels = None
    if label is not None:
        labels = class_names(rows[label])
        refuse_several_labels(path, label, labels.unique())
    # a file of vectors has the texts that trueneg clean reads, also those that are left out here
    cells = text_cells(table.rows[is_readable], roles, None)
    forms = cells["form"].unique()
    is_used = table.usable[is_readable].to_numpy()
    cells = cells[is_used[cells["row"]]].reset_index(drop=True)
    cells["row"] = (is_used.cumsum() - 1)[cells["row"]]
    if labels is not None:
        cells["label"] = labels.to_numpy()[cells["row"]]
    of_rows = _rows(table.splits[table.usable], rows.get(group))
    return Audited("; ".join(table.found), cells, of_rows, forms=forms)


def _read_images(path: Path, chosen: Mapping[str, Any]) -> Audited:
    listed = source_of_images(path).listed(path)
    classes, split, found = classes_of(listed)
    found += doubtful_names(classes)
    cells, unreadable = _image_cells(listed.images, classes)
    found += _about_unreadable(unreadable)
    rows = _rows(split).loc[cells["row"]]
    return Audited("; ".join(found), cells, rows, listed.images, unreadable)


def _read_captions(path: Path, chosen: Mapping[str, Any]) -> Audited:
    folder = chosen["images"]
    table = UserTable(path, chosen, ("text", "texts"))
    image, text = choose_image_and_text(table, folder)
    is_list = table.rows[text].map(texts_of).isna()
    table.leave_out(is_list, f"whose {text} is a list that cannot be read")
    table.split()
    group = table.group("image")
    table.found.append(table.unused(table.roles))
    if "negative" in table.roles.values():
        table.found.append("hard negatives are not looked at: the audit compares images")
    rows = table.rows[table.usable]
    places, names = pd.factorize(rows[image])
    files = image_table.files_of(folder, names)
    images = ImageFiles(tuple(files[name][0] for name in names))
    no_labels = Series("", range(len(images)))
    cells, unreadable = _image_cells(images, no_labels)
    captions = text_cells(rows, {text: POSITIVE}, None).assign(image=NO_IMAGE)
    captions["row"] = places[captions["row"]]
    captions = captions[captions["row"].isin(cells["row"])]
    several = counted(int((captions["row"].value_counts() > 1).sum()), "image")
    found = [*table.found, f"{several} with several texts", *_about_unreadable(unreadable)]
    of_rows = _rows(table.splits[table.usable], rows.get(group))
    of_images = of_rows.groupby(places).first().loc[cells["row"]]
    cells = pd.concat([cells, captions], ignore_index=True)
    return Audited("; ".join(found), cells, of_images, images, unreadable)


def _rows(split: Series, group: Series | None = None) -> DataFrame:
    """Return the group and the split of each row; those without splits are all trained on."""
    groups = -1 if group is None else pd.factorize(group)[0]
    return DataFrame({"split": split.replace("", "train").to_numpy(object), "group": groups})


def _image_cells(images: EncodedImages, labels: Series) -> tuple[DataFrame, DataFrame]:
    """Return a cell per image that can be read, which is an anchor, and a table of the others."""
    codes, problems = contents(images)
    names = Series([images.name(position) for position in range(len(images))], dtype=object)
    cells = DataFrame({"row": codes.index, "text": names[codes.index], "form": codes})
    cells = cells.assign(role=ANCHOR, label=labels[codes.index], image=codes.index)
    unreadable = DataFrame({"image": names[problems.index], "problem": problems})
    return cells.reset_index(drop=True), unreadable


def _about_unreadable(unreadable: DataFrame) -> list[str]:
    """Return a sentence about images that cannot be read, or none."""
    if unreadable.empty:
        return []
    named = itertools.islice(unreadable.itertuples(index=False), EXAMPLES)
    examples = "; ".join(f"{image} {problem}" for image, problem in named)
    more = len(unreadable) - EXAMPLES
    others = f"; and {more:,} more" if more > 0 else ""
    return [
        f"left out: {counted(len(unreadable), 'image')} that cannot be read: {examples}{others}"
    ]


def text_roles(table: UserTable) -> tuple[dict[str, str], str | None]:
    """Choose the columns of texts and of labels.

    Args:
        table: the table; ``negatives`` among what was chosen: columns of hard negatives, else
            found by their names.

    Returns:
        The role of each column of texts, anchors first, and the column of labels.

    Raises:
        UserError: if columns are ambiguous.
    """
    try:
        return _text_roles(table)
    except UserError as error:
        if not table.free("image"):
            raise
        hint = "Images with captions are audited with --images FOLDER, and not cleaned."
        raise UserError(f"{error} {hint}") from error


def _text_roles(table: UserTable) -> tuple[dict[str, str], str | None]:
    for name in table.chosen.get("negatives") or ():
        table.choose("negative", [name])
    negatives = [*table.roles] or table.negatives()
    text = choose_text(table)
    roles = {text: ANCHOR}
    if any(map(table.chosen.get, ("positive", "matches"))) or known(
        table.free("text", "texts"), POSITIVES
    ):
        roles[choose_positive(table, text)] = POSITIVE
        label = table.choose("label", [])
    else:
        label = choose_label(table, text)
    return roles | dict.fromkeys(negatives, NEGATIVE), label


def tower_of(encoder: str | None, of: str = "text") -> Section:
    """Return the settings of a tower: the name of a model, or settings as YAML.

    Args:
        encoder: the name or the settings; None: the default.
        of: ``text`` or ``image``.

    Raises:
        UserError: if there is no such tower.
    """
    towers, of_name, default, model = TOWERS[of]
    try:
        settings = yaml.safe_load(encoder or default)
        if not isinstance(settings, dict):
            settings = {**of_name, "model": encoder or default}
        validated: Any = TypeAdapter(towers).validate_python(settings)
    except (yaml.YAMLError, ValidationError) as error:
        raise UserError(
            f"--encoder is {encoder}; expected the name of {model}, or settings of a tower of"
            f" {of}s of docs/encoders.md as YAML."
        ) from error
    tower: Section = validated.model_dump(mode="json")
    return tower


def vectors_of(file: Audited, encoder: str | None) -> tuple[ndarray, list[str]]:
    """Return the vectors of all different texts and images, by number, and sentences about them.

    Captions are compared with the image by a network of open_clip; by any other one, with the mean
    of the vectors of the image's own captions.

    Raises:
        UserError: if the encoder cannot be built, or does not fit.
    """
    different = file.different
    if file.images is not None and not (file.cells["role"] == POSITIVE).any():
        settings = tower_of(encoder, "image")
        if encoder is None:
            settings = {**settings, "resolution": resolution_of(file.images)}
        tower = FrozenImages(settings, file.images)
        return tower.vectors(different["image"].tolist()), [f"images are compared by {tower}"]
    is_image = Series(False, different.index)
    if file.images is not None:
        is_image = different["image"] != NO_IMAGE
    settings = tower_of(encoder)
    texts = FrozenTexts(settings, file.forms)
    of_texts = texts.vectors(different[~is_image])
    found = []
    if texts.truncated:
        found.append(f"{texts} truncates {texts.truncated:,} of {len(of_texts):,} texts")
    if file.images is None:
        return of_texts, found
    vectors = np.zeros((len(different), of_texts.shape[1]), of_texts.dtype)
    vectors[~is_image] = of_texts
    if settings["name"] == "open_clip":
        model = {key: settings[key] for key in ("name", "model", "weights")}
        tower = FrozenImages(tower_of(json.dumps(model), "image"), file.images)
        vectors[is_image] = tower.vectors(different.loc[is_image, "image"].tolist())
        return vectors, [f"images are compared with texts by {texts}", *found]
    rows = [file.cells[file.cells["role"] == role] for role in (ANCHOR, POSITIVE)]
    own = rows[0][["row", "number"]].merge(rows[1][["row", "number"]], on="row")
    np.add.at(vectors, own["number_x"], vectors[own["number_y"]])
    about = (
        f"an image is compared by the mean of its texts' vectors, by {texts}; a network of"
        " open_clip (--encoder) would compare the image itself"
    )
    return normalised_vectors(vectors), [about, *found]
