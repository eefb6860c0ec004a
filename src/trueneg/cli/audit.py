"""Say how many negatives of the user's file are false, before anything is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from pandas import DataFrame, Series
from pydantic import TypeAdapter, ValidationError

from trueneg.audit import hard_negatives, rates
from trueneg.audit.hard_negatives import FrozenTexts, HardNegativePairs
from trueneg.audit.rates import Rate
from trueneg.audit.ratings import SAMPLE, read_ratings, write_sample
from trueneg.audit.sampling import ENDS, ranges_of
from trueneg.cli.columns import POSITIVES, UserTable, known
from trueneg.cli.init import choose_label, choose_positive, choose_text
from trueneg.data.cells import class_names, texts_of
from trueneg.data.texts.text_rows import (
    ANCHOR,
    NEGATIVE,
    POSITIVE,
    about_batches,
    about_certain,
    certain,
    known_pairs,
    pair_codes,
    text_cells,
)
from trueneg.errors import UserError
from trueneg.io.files import writable
from trueneg.report.audit_page import write_page, write_rating_page
from trueneg.specs.guides.encoder import TextTower
from trueneg.specs.sections import Section

SUSPECTS = 20
RATING_PAGE = "rate.html"
MARGINS = (0.0, 0.05, 0.1, 0.2, 0.3)  # relative ones whose precision and recall are estimated
NOT_RECOMMENDED = (
    "No filter is recommended: what a false negative costs, and what a lost true one, is not"
    " measured for data like these."
)


class TextFile(NamedTuple):
    """The user's texts.

    Attributes:
        table: their table.
        roles: anchor, positive or negative, by column.
        cells: of :func:`~trueneg.data.texts.text_rows.text_cells`, with the ``number`` of each
            text.
        texts: a text by number; those that are equal when normalised have one.
        groups: number of the group of each row; −1: none.
    """

    table: UserTable
    roles: Mapping[str, str]
    cells: DataFrame
    texts: Series
    groups: Series

    def positives(self) -> Mapping[int, str]:
        """Return a positive of each anchor, by number of the anchor."""
        ends = [self.cells[self.cells["role"] == role] for role in (ANCHOR, POSITIVE)]
        both = ends[0][["row", "number"]].merge(ends[1][["row", "text"]], on="row")
        return dict(both[["number", "text"]].itertuples(index=False))


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


def read_texts(path: Path, chosen: Mapping[str, Any]) -> TextFile:
    """Read a file of texts with labels, or of pairs of texts, with or without hard negatives.

    Args:
        path: the table.
        chosen: columns by their role, as for :func:`trueneg.cli.init.init_text`, and ``negatives``.

    Raises:
        UserError: if the file cannot be read, or its columns are ambiguous.
    """
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
    if len(rows) < 2:
        raise UserError(f"{path} has {len(rows)} usable rows; expected at least two.")
    cells = text_cells(rows, roles, None if label is None else class_names(rows[label]))
    cells["number"] = pd.factorize(cells["form"])[0]
    texts = cells.drop_duplicates("number").set_index("number")["text"]
    groups = np.full(len(rows), -1) if group is None else pd.factorize(rows[group])[0]
    return TextFile(table, roles, cells, texts, Series(groups))


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


def audit(path: Path, folder: Path, chosen: Mapping[str, Any]) -> str:
    """Look for false negatives in a file of texts, and write a page and tables; where it is not
    known which are false, also a sample to be rated.

    Args:
        path: the file.
        folder: a new folder.
        chosen: columns, as for :func:`read_texts`; ``encoder``, ``mine``, ``batch`` and ``pairs``.

    Returns:
        What was found.

    Raises:
        UserError: if the file or the folder cannot be used.
    """
    _refuse_options(folder, chosen)
    file = read_texts(path, chosen)
    lines = [f"{path}: {'; '.join(file.table.found)}", about_certain(file.cells)]
    lines.append(about_batches(file.cells, chosen["batch"]))
    if not (NEGATIVE in file.roles.values() or chosen["mine"]):
        lines.append("no hard negatives are given; --mine looks at those that would be mined")
        return "\n".join(lines)
    different = file.cells.drop_duplicates("number")
    encoder = FrozenTexts(tower_of(chosen["encoder"]), different["form"].to_numpy())
    vectors = encoder.vectors(different)
    if encoder.truncated:
        lines.append(f"{encoder} truncates {encoder.truncated:,} of {len(file.texts):,} texts")
    if chosen["mine"]:
        negatives = hard_negatives.mined(file.cells, vectors)
    else:
        reasons = certain(file.cells, known_pairs(file.cells))
        negatives = hard_negatives.given(file.cells, vectors, reasons)
    if negatives.pairs.empty:
        return "\n".join([*lines, "no other hard negatives are left to look at"])
    what = f"{'mined' if chosen['mine'] else 'given'} hard negatives"
    tables = _tables(file, negatives)
    lines += _about_negatives(what, tables)
    with writable(folder):
        folder.mkdir(parents=True)
    if negatives.pairs["is_false"].isna().any():
        _write_sample(folder, path, file, negatives, chosen["pairs"], what)
        lines.append(
            f"of the others, it is not known: rate a sample of them in {folder / RATING_PAGE} or"
            f" {folder / SAMPLE}, and pass it with --ratings"
        )
    write_page(folder, f"Hard negatives in {path.name}", lines, tables)
    lines.append(f"Wrote {folder}: open {folder / 'index.html'}.")
    return "\n".join(lines)


def _refuse_options(folder: Path, chosen: Mapping[str, Any]) -> None:
    if folder.exists():
        raise UserError(f"{folder} already exists. Choose another folder with --out, or remove it.")
    for option, least in (("batch", 2), ("pairs", 1)):
        if chosen[option] < least:
            raise UserError(f"--{option} is {chosen[option]}; expected at least {least}.")


def rated_audit(path: Path, folder: Path, ratings: Sequence[Path]) -> str:
    """Say how many negatives are false according to the ratings of a sample, and write a page.

    Args:
        path: the file.
        folder: folder of the sample, which :func:`audit` wrote.
        ratings: a csv of each rater.

    Raises:
        UserError: as :func:`trueneg.audit.ratings.read_ratings`.
    """
    pairs, record, rows, verdicts = read_ratings(folder, path, ratings)
    ranges = ranges_of(pairs["rank"].to_numpy())
    sizes = np.bincount(ranges)
    rated = verdicts, ranges[rows]
    rate = rates.rate(*rated, sizes)
    lines = [
        f"of {len(pairs):,} {record['what']} that may be false, {_interval(rate)} are"
        f" ({rate.pairs} rated, {rate.unsure} unsure; in brackets, 95 % intervals)",
        f"class_probability for a loss that corrects for them (DCL): {rate.share:.3g}, or"
        f" {rate.low:.3g} to {rate.high:.3g}",
    ]
    if record["candidates"]:
        bound = rates.in_batch_bound(*rated, sizes, record["candidates"])
        lines.append(f"of random in-batch negatives, at most {100 * bound:.3g} % are false")
    by_rank = []
    for number in np.flatnonzero(sizes):
        of_range = rates.rate(*rated, np.where(np.arange(len(sizes)) == number, sizes, 0))
        first = 1 if not number else ENDS[number - 1] + 1
        by_rank.append({"rank": f"{first}–{ENDS[number]}", "false": of_range.share})
        by_rank[-1] |= {"low": of_range.low, "high": of_range.high, "rated": of_range.pairs}
        lines.append(f"of ranks {first} to {ENDS[number]}: {_interval(of_range)}")
    # removed: all with a margin below; a score of at least the next number
    values = np.nextafter(np.negative(MARGINS), np.inf).tolist()
    found = rates.thresholds(-pairs["margin"].to_numpy(), ranges, rows, verdicts, values)
    by_threshold = []
    for margin, each in zip(MARGINS, found, strict=True):
        ends = {"precision": _interval(each.precision), "recall": _interval(each.recall)}
        by_threshold.append({"relative margin": margin, "removed": each.removed, **ends})
        lines.append(
            f"relative_margin={margin} removes {100 * each.removed:.3g} %; of these,"
            f" {ends['precision']} are false: {ends['recall']} of all false ones"
        )
    tables = {"by rank": DataFrame(by_rank), "thresholds": DataFrame(by_threshold)}
    lines.append(NOT_RECOMMENDED)
    write_page(folder / "rated", f"Rated hard negatives in {path.name}", lines, tables)
    return "\n".join([*lines, f"Wrote {folder / 'rated'}."])


def _interval(rate: Rate) -> str:
    if np.isnan(rate.share):
        return "an unknown share"
    return f"{100 * rate.share:.3g} % ({100 * rate.low:.2g} to {100 * rate.high:.2g})"


def _write_sample(
    folder: Path, path: Path, file: TextFile, negatives: HardNegativePairs, count: int, what: str
) -> None:
    """Write a sample of the pairs of which it is not known whether they are false."""
    is_false = negatives.pairs["is_false"]
    pairs = negatives.pairs[is_false.isna()].reset_index(drop=True)
    least = pairs["unit"].map({unit: values[0] for unit, values in negatives.positives.items()})
    anchors = file.cells[file.cells["role"] == ANCHOR].drop_duplicates("number")
    groups = anchors.set_index("number")["row"].map(file.groups)
    pairs["margin"] = (least - pairs["similarity"]) / least.abs()
    pairs["group"] = pairs["anchor"].map(groups)
    forms = file.cells.drop_duplicates("number").set_index("number")["form"]
    ends = (forms[pairs[end]].to_numpy() for end in ("anchor", "negative"))
    pairs["code"] = pair_codes(*ends)
    texts = DataFrame(
        {
            "anchor": pairs["anchor"].map(file.texts),
            "positive": pairs["anchor"].map(file.positives()),
            "negative": pairs["negative"].map(file.texts),
        }
    )
    candidates = len(anchors) * negatives.candidates
    sample = write_sample(folder, path, pairs, texts, count, what=what, candidates=candidates)
    write_rating_page(folder / RATING_PAGE, path.name, sample)


def _tables(file: TextFile, negatives: HardNegativePairs) -> dict[str, DataFrame]:
    """Return the shares of false negatives by rank and similarity, those that filters leave, and
    the most similar pairs.
    """
    pairs = negatives.pairs
    bands = {
        "by rank": hard_negatives.rank_bands(pairs["rank"]),
        "by similarity": hard_negatives.similarity_bands(pairs["similarity"]),
    }
    tables = {
        name: hard_negatives.false_by(pairs, band).reset_index() for name, band in bands.items()
    }
    chances = hard_negatives.chances(negatives)
    shown = hard_negatives.suspects(pairs, SUSPECTS)
    suspects = DataFrame(
        {
            "similarity": shown["similarity"],
            "rank": shown["rank"],
            "anchor": shown["anchor"].map(file.texts),
            "negative": shown["negative"].map(file.texts),
            **{f"left by {name}": chance[shown.index] for name, chance in chances.items() if name},
        }
    )
    by_filter = hard_negatives.by_filter(pairs, chances)
    return tables | {"by filter": by_filter, "most similar pairs": suspects}


def _about_negatives(what: str, tables: Mapping[str, DataFrame]) -> list[str]:
    by_rank = tables["by rank"]
    judged = by_rank["known"].sum()
    lines = [f"{by_rank['negatives'].sum():,} {what}; of {judged:,}, it is known if they are false"]
    for name in ("by rank", "by similarity"):
        bands = tables[name].dropna().itertuples(index=False)
        listed = ", ".join(f"{band}: {100 * false:.3g} %" for band, _, _, false in bands)
        lines += [f"share of false ones {name}: {listed}"] if listed else []
    for line in tables["by filter"].to_dict("records"):
        shares = {key: f"{100 * value:.3g} %" for key, value in line.items() if key != "filter"}
        of_known = (
            f", {shares['false']} of them false; removes {shares['false removed']} of the false and"
            f" {shares['true removed']} of the true ones"
        )
        lines.append(f"filter {line['filter']}: {shares['left']} left{of_known if judged else ''}")
    return [*lines, NOT_RECOMMENDED] if judged else lines
