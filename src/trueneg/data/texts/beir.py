"""Queries and a corpus, in the layout of BEIR (Thakur et al., 2021).

``corpus.jsonl`` has texts with ``_id``, ``text`` and optionally ``title``, which comes first;
``queries.jsonl`` has ``_id`` and ``text``; ``qrels/train.tsv``, ``dev.tsv`` and ``test.tsv``, or
one ``qrels.tsv``, have ``query-id``, ``corpus-id`` and ``score``, above 0 for a right answer.
"""

from pathlib import Path

import pandas as pd
from pandas import DataFrame, Series

from trueneg.data.cells import identifier, is_missing, split_name
from trueneg.data.tables import Rows, first_places, read_columns, read_table, single_spaced
from trueneg.data.texts.text_files import TextFiles, source_of_rows
from trueneg.data.texts.text_source import TextSource
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section
from trueneg.text.cleaning import normalised

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
# Of folders that are first looked at: many public ones have more queries without a right answer
# than others.
SKIPPING = {"skip_incomplete": 0.99}


def read_source(settings: Section) -> TextSource:
    """Read and check the folder.

    Raises:
        UserError: names the file and line of up to two mistakes of each kind: a missing or repeated
            id, a missing text, an unknown id in qrels, or a query without a right answer; also if
            there are no official splits.
    """
    rows, corpus, skipped = read_rows(settings)
    return source_of_rows(settings, rows, skipped, corpus.tolist())


def read_rows(settings: Section) -> tuple[DataFrame, Series, str]:
    """Read the queries with a right answer.

    Returns:
        One row per query and split: ``text``, ``positives`` and ``negatives`` (lists of texts),
            ``split`` and ``label`` (empty). The texts of the corpus to search, by id. Sentences
            about what is left out; empty if nothing.
    """
    folder = Path(settings["path"]).expanduser()
    corpus, *said = _texts(settings, folder / CORPUS)
    asked, *also = _texts(settings, folder / QUERIES)
    documents, queries = (each.set_index("_id")["text"] for each in (corpus, asked))
    parts = [_judged(settings, file, split, queries, documents) for file, split in _files(settings)]
    judged = pd.concat([part for part, _ in parts])
    right = judged[judged["score"].astype(float) > 0]
    rows = Rows(folder / QUERIES, asked, settings)
    is_lonely = ~asked["_id"].isin(right["query-id"])
    expected = "the id of a query with a right answer in qrels; add one, or remove the query"
    rows.check("_id", is_lonely, expected, "without a right answer")
    said += [*also, *(sentence for _, sentence in parts), _said(rows)]
    repeated = corpus[corpus["text"].map(normalised).duplicated()]
    if len(repeated):
        said.append(
            f"{len(repeated):,} texts of {CORPUS} repeat an earlier one ({first_places(repeated)});"
            " equal texts are one candidate."
        )
    if settings["candidates"] == "judged":
        documents = documents[documents.index.isin(judged["corpus-id"])]
    return _with_lists(right, queries, documents), documents, " ".join(filter(None, said))


def _texts(settings: Section, file: Path) -> tuple[DataFrame, str]:
    """Return the ids and texts of a file, and a sentence about rows left out."""
    cells = read_table(file, None, restricted=settings["restricted"]).cells
    if lacking := {"_id", "text"} - set(cells):
        raise UserError(
            f"{file} has no {' and no '.join(sorted(lacking))}; expected one object per line with"
            " _id and text. Rename its keys."
        )
    titles = cells.get("title", "")
    text = single_spaced(titles + " " + cells["text"])
    rows = Rows(file, DataFrame({"_id": cells["_id"].map(identifier), "text": text}), settings)
    rows.check_ids("_id", "an id", "without an id")
    is_repeated = rows["_id"].duplicated()
    rows.check("_id", is_repeated, "an id that no earlier row has", "that repeat an id")
    lacks = rows["text"].map(is_missing)
    rows.check("text", lacks, "a text; fill it in, or remove the row", "without a text")
    return rows.usable()[0], _said(rows)


def _said(rows: Rows) -> str:
    """Return a sentence about rows of a file that are left out; empty if none are."""
    skipped = rows.usable()[1]
    return skipped and f"{Path(rows.file).name}: {skipped}"


def _files(settings: Section) -> list[tuple[Path, str]]:
    """Return the files of judgements, and the split of each; empty: it is drawn."""
    folder = Path(settings["path"]).expanduser()
    files = _judgements(folder)
    if settings["splits"] == "drawn" and files:
        return [(file, "") for file in files]
    if not has_splits(folder):
        found = ", ".join(file.name for file in files) or "none"
        raise UserError(
            f"{folder}: the files of judgements are {found}; expected qrels/train.tsv, test.tsv"
            " and, if there is one, dev.tsv. Rename them, or set dataset.splits: drawn."
        )
    return [(file, split_name(file.stem)) for file in files]


def has_splits(folder: Path) -> bool:
    """Return whether the files of judgements are official splits, one file each."""
    splits = [split_name(file.stem) for file in _judgements(folder)]
    return sorted(splits) in (["test", "train"], ["test", "train", "validation"])


def _judged(
    settings: Section, file: Path, split: str, queries: Series, documents: Series
) -> tuple[DataFrame, str]:
    """Return the judgements of a file, and a sentence about those left out."""
    columns = ["query-id", "corpus-id", "score"]
    table = read_columns(file, columns, restricted=settings["restricted"]).map(identifier)
    rows = Rows(file, table.assign(split=split), settings)
    rows.check("score", pd.to_numeric(rows["score"], errors="coerce").isna(), "a number")
    texts = {"query-id": (queries, QUERIES), "corpus-id": (documents, CORPUS)}
    for column, (known, where) in texts.items():
        is_unknown = ~rows[column].isin(known.index)
        rows.check(column, is_unknown, f"an id of {where}", f"with an unknown {column}")
    asked, answers = (
        rows[column].map(known).map(normalised, na_action="ignore")
        for column, (known, _) in texts.items()
    )
    expected = "a text that differs from the query's, also after normalisation; remove the row"
    rows.check("corpus-id", asked == answers, expected, "whose text is the query's")
    return rows.usable()[0], _said(rows)


def _with_lists(right: DataFrame, queries: Series, documents: Series) -> DataFrame:
    """Return one row per query and split, with the texts of its right answers."""
    answers = right.assign(answer=documents[right["corpus-id"]].to_numpy(object))
    lists = answers.groupby(["split", "query-id"], sort=False)["answer"].agg(list)
    rows = lists.map(lambda texts: list(dict.fromkeys(texts))).rename("positives").reset_index()
    rows["text"] = queries[rows["query-id"]].to_numpy(object)
    rows["negatives"] = [[] for _ in rows.index]
    return rows.drop(columns="query-id").assign(label="")


def _judgements(folder: Path) -> list[Path]:
    return sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels.tsv")])


FILES = TextFiles(read_source, "a folder with corpus.jsonl, queries.jsonl and qrels")
read_texts = FILES.read_texts
check_table = FILES.check_table
missing_files = FILES.missing_files


def user_files(settings: Section) -> UserFiles:
    """Return the files of the folder, and those of rated pairs."""
    folder = Path(settings["path"]).expanduser()
    files = [folder / CORPUS, folder / QUERIES, *_judgements(folder)]
    return UserFiles([*FILES.user_files(settings).files, *files])
