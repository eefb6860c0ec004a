"""A folder as BEIR has it becomes a source; mistakes are named by file and line."""

import json

import pytest

from trueneg.data.texts import beir
from trueneg.data.texts.text_source import read_texts, write_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.errors import UserError
from trueneg.specs.texts import TEXT_PAIRS

CORPUS = [
    {"_id": f"d{n}", "title": f"Title {n}" if n % 2 else "", "text": f"text  of {n}"}
    for n in range(12)
]
QUERIES = [{"_id": str(n), "text": f"query {n}", "metadata": {"url": n}} for n in range(6)]
QRELS = {
    "train": [("0", "d0", 1), ("0", "d1", 2), ("1", "d2", 1), ("1", "d9", 0), ("2", "d3", 1)],
    "dev": [("3", "d4", 1)],
    "test": [("4", "d5", 1), ("5", "d6", 1), ("5", "d7", 1)],
}
HEADER = ("query-id", "corpus-id", "score")


def write_folder(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, **changes):
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, rows in qrels.items():
        lines = ["\t".join(map(str, row)) for row in (HEADER, *rows)]
        (folder / f"qrels/{name}.tsv").write_text("\n".join(lines))
    settings = TEXT_PAIRS["beir"](source="beir", path=str(folder), **changes)
    return settings.model_dump(mode="json")


def answers_of(source):
    texts = source.sentences["sentence"].to_numpy(object)
    return {texts[row[0]]: set(texts[row[1:]]) for row in source.matching}


def test_queries_have_all_their_right_answers_and_the_official_splits(tmp_path):
    settings = write_folder(tmp_path / "a")
    source = beir.read_source(settings)
    assert answers_of(source) == {
        "query 0": {"text of 0", "Title 1 text of 1"},
        "query 1": {"text of 2"},
        "query 2": {"Title 3 text of 3"},
        "query 3": {"text of 4"},
        "query 4": {"Title 5 text of 5"},
        "query 5": {"text of 6", "Title 7 text of 7"},
    }
    subset = text_subset(source, settings, 0)
    names = source.samples.names
    assert set(names[subset.train]) == {"query 0", "query 1", "query 2"}
    assert (set(names[subset.validation]), set(names[subset.test])) == (
        {"query 3"},
        {"query 4", "query 5"},
    )
    searched = source.sentences["sentence"].to_numpy(object)[source.corpus]
    assert sorted(searched) == sorted(
        " ".join(f"{each['title']} {each['text']}".split()) for each in CORPUS
    )
    write_texts(source, tmp_path / "a.npz")
    again = read_texts(tmp_path / "a.npz")
    assert (again.checksum, again.positives) == (source.checksum, 2)
    judged = beir.read_source(settings | {"candidates": "judged"})
    assert len(judged.corpus) == len({row[1] for rows in QRELS.values() for row in rows})


def test_splits_are_drawn_of_all_queries_on_request(tmp_path):
    settings = write_folder(
        tmp_path / "a", qrels={"test": [row for rows in QRELS.values() for row in rows]}
    )
    with pytest.raises(UserError, match=r"judgements are test\.tsv; expected .*splits: drawn"):
        beir.read_source(settings)
    source = beir.read_source(settings | {"splits": "drawn"})
    assert answers_of(source) == answers_of(beir.read_source(write_folder(tmp_path / "b")))
    assert set(source.samples.split) == {""}


def test_mistakes_are_named_or_skipped_and_counted(tmp_path):
    corpus = [*CORPUS, CORPUS[0], {"_id": "d20", "text": " "}, {"_id": "d21", "text": "Text of 2!"}]
    queries = [*QUERIES, {"_id": "6", "text": "query 6"}, {"_id": "7", "text": "Text of 8"}]
    train = [*QRELS["train"], ("6", "d99", 1), ("9", "d0", 1), ("7", "d8", 1)]
    settings = write_folder(tmp_path / "a", corpus, queries, QRELS | {"train": train})
    with pytest.raises(
        UserError, match=r"corpus\.jsonl: line 13: _id is 'd0'.*no earlier"
    ) as error:
        beir.read_source(settings)
    assert "corpus.jsonl: line 14: text is ''" in str(error.value)
    with pytest.raises(UserError, match=r"train\.tsv: line 8: query-id is '9'") as error:
        beir.read_source(write_folder(tmp_path / "b", CORPUS, queries, QRELS | {"train": train}))
    assert "line 7: corpus-id is 'd99'; expected an id of corpus.jsonl" in str(error.value)
    with pytest.raises(UserError, match=r"queries\.jsonl: line 7: _id is '6'.*right answer"):
        beir.read_source(write_folder(tmp_path / "c", CORPUS, queries))
    skipped = beir.read_source(settings | {"skip_incomplete": 3}).skipped
    for fact in (
        "corpus.jsonl: 2 of 15 rows are skipped: 1 that repeat an id (line 13), 1 without a text",
        "train.tsv: 3 of 8 rows",
        "1 with an unknown query-id (line 8)",
        "1 with an unknown corpus-id (line 7)",
        "1 whose text is the query's (line 9)",
        "queries.jsonl: 2 of 8 rows are skipped: 2 without a right answer (line 7, line 8)",
        "1 texts of corpus.jsonl repeat an earlier one (line 15)",
    ):
        assert fact in skipped
