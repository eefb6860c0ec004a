"""The sample of pairs that a person rates, and their ratings."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.audit.sampling import draw, ranges_of
from trueneg.data.tables import NUMBER, Values, read_columns
from trueneg.errors import UserError
from trueneg.io.files import file_checksum, write_tables, write_text
from trueneg.randomness import rng_for
from trueneg.store.records import read_json

PAIRS, RECORD, SAMPLE = "pairs.parquet", "sample.json", "sample.csv"
FOR_JUDGE = "judge.jsonl"
VERDICTS = {"y": 1.0, "n": 0.0, "u": np.nan}  # whether the negative is false; unsure
EXPECTED = "y (a false negative), n or u (unsure)"
EXAMPLES = 3
DRAW = "Draw a sample first: trueneg audit FILE."


class RatedSample(NamedTuple):
    """A sample and its ratings.

    Attributes:
        pairs: all pairs from which it was drawn.
        record: what else :func:`write_sample` was given, and ``judged``: the pairs for a judge.
        rows: (n,) the rated pairs; empty without ratings.
        verdicts: (n,) of :data:`VERDICTS`.
    """

    pairs: DataFrame
    record: dict[str, Any]
    rows: ndarray
    verdicts: ndarray


def write_sample(
    folder: Path,
    file: Path,
    pairs: DataFrame,
    texts: DataFrame,
    count: int,
    judged: int,
    **about: Any,
) -> DataFrame:
    """Draw pairs to be rated, and write them as a csv to fill in, and with more pairs as JSON lines
    for a judge.

    Args:
        folder: folder to write.
        file: the user's file or folder.
        pairs: those that may be false: ``anchor``, ``group`` (−1: none), ``rank``, ``similarity``
            and what else is needed with ratings.
        texts: ``anchor``, ``positive`` and ``negative`` of each pair.
        count: number of pairs to draw.
        judged: number of other pairs to draw for a judge, all of which have the same chance.
        about: what else to record.

    Returns:
        The csv: ``sample`` (a checksum), ``pair`` (its row), the texts, and ``false``, empty.
    """
    ranges = ranges_of(pairs["rank"].to_numpy())
    anchors, groups, similarity = pairs[["anchor", "group", "similarity"]].to_numpy().T
    drawn = draw(anchors.astype(int), groups.astype(int), ranges, similarity, pairs=count)
    rows = np.random.default_rng(0).permutation(drawn.rows)  # raters do not see the ranks
    checksum = _checksum(file)
    name = hashlib.sha256(checksum.encode() + rows.tobytes()).hexdigest()[:12]
    sample = texts.iloc[rows].assign(false="")
    sample.insert(0, "sample", name)
    sample.insert(1, "pair", rows)
    all_pairs = np.arange(len(pairs))
    chosen = rng_for(0, "judge").permutation(all_pairs)[:judged]
    record = {"file": checksum, "sample": name, "rows": rows.tolist(), **about}
    record["judged"] = chosen.tolist()
    for_judge = texts.iloc[np.union1d(rows, chosen)].rename_axis("pair").reset_index()
    write_text(folder / FOR_JUDGE, for_judge.to_json(orient="records", lines=True))
    write_tables({folder / PAIRS: pairs})
    write_text(folder / RECORD, json.dumps(record))
    sample.to_csv(folder / SAMPLE, index=False, lineterminator="\r\n")
    return sample


def read_ratings(folder: Path, file: Path, paths: Sequence[Path]) -> RatedSample:
    """Read the ratings of a sample, by one or several raters.

    Args:
        folder: folder of the sample.
        file: the user's file or folder.
        paths: a csv of each rater; empty: nothing is rated.

    Raises:
        UserError: if the file has changed since the sample was drawn, a pair is not of the sample
            or has no rating, or raters disagree.
    """
    if file.exists() and not (folder / RECORD).exists():
        raise UserError(
            f"{folder} has no sample of {file}. Ratings are of the file from which their sample was"
            f" drawn: draw one with trueneg audit {file}, or name the sample's folder (--out of"
            " audit, --audit of clean)."
        )
    record: Any = read_json(folder / RECORD, remedy=DRAW)
    if not file.exists() or _checksum(file) != record["file"]:
        raise UserError(
            f"{file} has changed since the sample in {folder} was drawn. Restore it, or draw"
            " another sample with --out and rate that."
        )
    pairs = pd.read_parquet(folder / PAIRS)
    if not paths:
        return RatedSample(pairs, record, np.empty(0, int), np.empty(0))
    wanted = pd.Index(record["rows"])
    by_rater = []
    for path in paths:
        table = _read(path)
        if others := set(table["sample"]) - {record["sample"]}:
            raise UserError(
                f"{path} has ratings of the sample {min(others)}; expected {record['sample']}, that"
                f" in {folder}. Pass the ratings of that sample."
            )
        table = table[table["false"] != ""]
        ratings = table.set_index(table["pair"].astype(int))["false"].str.lower()
        other, lacking = ratings.index.difference(wanted), wanted.difference(ratings.index)
        if len(other):
            raise UserError(
                f"{path} rates {len(other)} pairs that the sample in {folder} does not have"
                f" ({_some(other)}). Remove them."
            )
        if len(lacking):
            raise UserError(
                f"{path} lacks {len(lacking)} of {len(wanted)} pairs ({_some(lacking)}). Rate all"
                " of them; u is for unsure."
            )
        by_rater.append(ratings[wanted])
    differs = wanted[DataFrame(by_rater).nunique() > 1]
    if len(differs):
        raise UserError(
            f"{' and '.join(map(str, paths))} disagree on {len(differs)} of {len(wanted)} pairs"
            f" ({_some(differs)}). Agree on one rating of each, and pass a single file."
        )
    verdicts = by_rater[0].map(VERDICTS).to_numpy()
    return RatedSample(pairs, record, wanted.to_numpy(), verdicts)


def _checksum(path: Path) -> str:
    """Return the checksum of a file, or of all files in a folder."""
    if path.is_file():
        return file_checksum(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    contents = "".join(f"{file.relative_to(path)} {file_checksum(file)}\n" for file in files)
    return hashlib.sha256(contents.encode()).hexdigest()


def _read(path: Path) -> DataFrame:
    """Return the columns sample, pair and false; spreadsheets save the last name in capitals."""
    names = map(str, read_columns(path, None))
    written = next((name for name in names if name.lower() == "false"), "false")
    columns: dict[str, Values | None] = {"sample": None, "pair": NUMBER._replace(unique=True)}
    table = read_columns(path, columns | {written: Values("[ynuYNU]?", EXPECTED)})
    return table.rename(columns={written: "false"})


def _some(pairs: pd.Index) -> str:
    return f"such as pair {', '.join(map(str, pairs[:EXAMPLES]))}"
