"""Write the user's file without what is false."""

import itertools
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.audit.cleaning import clean, different_forms, filtered, judged_false
from trueneg.audit.hard_negatives import FrozenTexts
from trueneg.audit.ratings import read_ratings
from trueneg.audit.row_files import AT_ONCE, JsonLinesFile, Row, reading_rows, row_file
from trueneg.cli.audit_inputs import text_roles, tower_of
from trueneg.cli.columns import UserTable, is_of_negatives
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.specs.hard_negatives import BOUNDS

LOOKED_AT = 10 * AT_ONCE  # rows by which columns are chosen


def clean_file(path: Path, out: Path, folder: Path, chosen: Mapping[str, Any]) -> str:
    """Write a file of texts without what is certainly false, what filters mark and what was judged
    false, and a csv of what was removed.

    Args:
        path: the file.
        out: file to write, in the same format.
        folder: folder of the sample that was rated.
        chosen: columns, as for :func:`trueneg.cli.audit_inputs.read_audited`; ``filter``,
            ``encoder``, ``ratings`` and ``audit``.

    Returns:
        What was removed.

    Raises:
        UserError: if a file cannot be read or written, or an option is wrong.
    """
    report = out.with_name(f"{out.name}.removed.csv")
    _refuse_options(path, out, report, chosen)
    roles, label, columns = _columns(path, chosen)
    marks = []
    if chosen["ratings"]:
        pairs, _, rows, verdicts = read_ratings(folder, path, chosen["ratings"])
        marks.append(judged_false(pairs["code"].to_numpy()[rows[verdicts == 1]]))
    if settings := filter_settings(chosen["filter"]):
        tower = tower_of(chosen["encoder"])
        forms = different_forms(path, roles) if "path" in tower else np.empty(0, np.uint64)
        marks.append(filtered(settings, FrozenTexts(tower, forms)))
    cleaned = clean(path, out, roles, label, marks)
    removed = cleaned.removed
    removed.to_csv(report, index=False)
    found = removed.assign(what=removed["column"].mask(removed["column"] == "", "row"))
    counts = found.value_counts(["what", "reason"]).reset_index().itertuples(index=False)
    listed = [f"{count:,} of {what}: {reason}" for what, reason, count in counts]
    if cleaned.negatives:
        unknown = "" if marks or label else f"; which of these are false, trueneg audit {out} asks"
        listed.append(
            f"{cleaned.left:,} of {counted(cleaned.negatives, 'hard negative')} are left; of"
            f" {counted(cleaned.rows, 'row')}, {cleaned.emptied:,} have lost all of theirs{unknown}"
        )
    wrote = f"Wrote {out}, and to {report} what was removed."
    return "\n".join([f"{path}: {columns}", counted(len(removed), "removal"), *listed, wrote])


def _refuse_options(path: Path, out: Path, report: Path, chosen: Mapping[str, Any]) -> None:
    for file in (out, report):
        if file.exists():
            raise UserError(f"{file} already exists and is not overwritten. Choose another --out.")
    if (ending := _ending(path)) != _ending(out):
        raise UserError(f"--out is {out}; expected the format of {path}: {ending}.")
    for option, reader in (("audit", "ratings"), ("encoder", "filter")):
        if chosen.get(option) and not chosen[reader]:
            raise UserError(f"--{option} is given without --{reader}, which reads it; add that.")
    if chosen.get("matches") not in (None, "all"):
        raise UserError("--matches of clean may only be all: each row is read as a pair.")


def _ending(path: Path) -> str:
    """Return the ending of a file's name, with that before .gz."""
    return "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])


def filter_settings(filters: Sequence[str]) -> dict[str, float]:
    """Return filters, as NAME=VALUE, by name.

    Raises:
        UserError: if there is no such filter. Ranks are none, because they change with what is
            removed.
    """
    settings = {}
    for text in filters:
        name, _, value = text.partition("=")
        try:
            settings[name] = float(value)
        except ValueError:
            name = ""
        if name not in BOUNDS or not math.isfinite(settings[name]):
            raise UserError(
                f"--filter is {text}; expected NAME=NUMBER with one of the names"
                f" {', '.join(BOUNDS)}."
            )
    return settings


def _columns(path: Path, chosen: Mapping[str, Any]) -> tuple[dict[str, str], str | None, str]:
    """Choose columns by the first rows, because the whole table may not fit into memory; return
    their roles, the column of labels, and a sentence about them.

    Raises:
        UserError: if columns are ambiguous, or hard negatives begin in a later row.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file; expected a table of texts. Images are not cleaned.")
    with tempfile.TemporaryDirectory() as folder:
        head = Path(folder) / path.name
        file = row_file(path)
        with reading_rows(path):
            rows = file.rows()
            first = list(itertools.islice(rows, LOOKED_AT))
            file.write(head, iter([[row.raw for row in first]]))
            if isinstance(file, JsonLinesFile):
                _refuse_later_negatives(path, first, rows)
        try:
            table = UserTable(head, chosen)
            roles, label = text_roles(table)
        except UserError as error:
            raise UserError(str(error).replace(str(head), str(path))) from error
    used = [f"{column} as {role}" for column, role in roles.items()]
    used += [f"{label} as label"] * (label is not None)
    return roles, label, f"{', '.join(used)}; {table.unused([*roles, label or ''])}"


def _refuse_later_negatives(path: Path, first: Sequence[Row], others: Iterable[Row]) -> None:
    known = set[str]().union(*(row.values for row in first))
    for row in others:
        for name in row.values.keys() - known:
            if is_of_negatives(name):
                raise UserError(
                    f"{path}: {row.place} has {name}, which none of the first {len(first):,} lines"
                    " has, by which columns are chosen. Move this line to the top."
                )
