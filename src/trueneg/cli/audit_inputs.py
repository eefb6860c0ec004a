"""What the user wants audited: texts in a table, or in a folder of queries and a corpus."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from pandas import DataFrame, Series
from pydantic import TypeAdapter, ValidationError

from trueneg.cli.columns import POSITIVES, UserTable, known
from trueneg.cli.init import choose_label, choose_positive, choose_text
from trueneg.data.cells import class_names, texts_of
from trueneg.data.texts import beir
from trueneg.data.texts.text_rows import ANCHOR, NEGATIVE, POSITIVE, text_cells
from trueneg.errors import UserError
from trueneg.specs.guides.encoder import TextTower
from trueneg.specs.sections import Section


class Audited(NamedTuple):
    """The user's texts.

    Attributes:
        about: what was read.
        cells: of :func:`~trueneg.data.texts.text_rows.text_cells`, with the ``number`` of each
            text; those that are equal when normalised have one.
        groups: number of the group of each row; −1: none.
    """

    about: str
    cells: DataFrame
    groups: Series

    @property
    def different(self) -> DataFrame:
        """The first cell of each text, by number."""
        return self.cells.drop_duplicates("number").set_index("number")

    def positives(self) -> Mapping[int, str]:
        """Return a positive of each anchor, by number of the anchor."""
        ends = [self.cells[self.cells["role"] == role] for role in (ANCHOR, POSITIVE)]
        both = ends[0][["row", "number"]].merge(ends[1][["row", "text"]], on="row")
        return dict(both[["number", "text"]].itertuples(index=False))


def read_audited(path: Path, chosen: Mapping[str, Any]) -> Audited:
    """Read a file of texts with labels, or of pairs of texts, with or without hard negatives; or a
    folder in the layout of BEIR.

    Args:
        path: the table or the folder.
        chosen: columns by their role, as for :func:`trueneg.cli.init.init_text`, and ``negatives``.

    Raises:
        UserError: if it cannot be read, or columns are ambiguous.
    """
    read = _read_folder if path.is_dir() else _read_table
    about, cells, groups = read(path, chosen)
    if len(groups) < 2:
        raise UserError(f"{path} has {len(groups)} usable rows; expected at least two.")
    cells["number"] = pd.factorize(cells["form"])[0]
    return Audited(f"{path}: {about}", cells, groups)


def _read_folder(folder: Path, chosen: Mapping[str, Any]) -> tuple[str, DataFrame, Series]:
    settings = {
        "path": str(folder),
        "splits": "drawn",
        "candidates": "judged",
        "restricted": False,
        "skip_incomplete": True,
    }
    rows, documents, skipped = beir.read_rows(settings)
    about = f"{len(rows):,} queries with right answers among {len(documents):,} judged texts"
    rows["positives"] = rows["positives"].map(json.dumps)
    cells = text_cells(rows, {"text": ANCHOR, "positives": POSITIVE}, None)
    return f"{about}. {skipped}".strip(), cells, Series(-1, rows.index)


def _read_table(path: Path, chosen: Mapping[str, Any]) -> tuple[str, DataFrame, Series]:
    table = UserTable(path, chosen)
    roles, label = text_roles(table)
    for column, role in roles.items():
        texts = table.rows[column].map(texts_of)
        table.leave_out(texts.isna(), f"whose {column} is a list that cannot be read")
        if role != NEGATIVE:
            table.leave_out(texts.str.len() == 0, f"without a {column}")
    group = table.group("text")
    table.found.append(table.unused(table.roles))
    rows = table.rows[table.usable]
    labels = None if label is None else class_names(rows[label])
    groups = np.full(len(rows), -1) if group is None else pd.factorize(rows[group])[0]
    return "; ".join(table.found), text_cells(rows, roles, labels), Series(groups)


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


def tower_of(encoder: str) -> Section:
    """Return the settings of a text tower: the name of a model of sentence-transformers, or
    settings as YAML.

    Raises:
        UserError: if there is no such tower.
    """
    try:
        settings = yaml.safe_load(encoder)
        if not isinstance(settings, dict):
            settings = {"name": "sentence_transformers", "model": encoder, "truncate": True}
        validated: Any = TypeAdapter(TextTower).validate_python(settings)
    except (yaml.YAMLError, ValidationError) as error:
        raise UserError(
            f"--encoder is {encoder}; expected the name of a model of sentence-transformers, or"
            " settings of a text tower of docs/encoders.md as YAML."
        ) from error
    tower: Section = validated.model_dump(mode="json")
    return tower
