"""Hard negatives and what filters leave of them, beside plain loops over all pairs of texts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trueneg.cli.main import main
from trueneg.text.cleaning import normalised

COLUMNS = ["filter", "left", "false", "false removed", "true removed"]
MARGINS = {"absolute_margin=0.1": (0, 0.1), "relative_margin=0.05": (0.05, 0)}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def audit(capsys, *arguments):
    """Run an audit with the vectors of a file; return what it prints."""
    encoder = "{name: vectors, path: vectors.npy}"
    assert main(["audit", "texts.csv", "--encoder", encoder, *arguments]) == 0
    return capsys.readouterr().out


def vectors_of(texts, generator):
    """Vectors of different texts, written in their order; those of equal ones are equal."""
    different = list(dict.fromkeys(map(normalised, texts)))
    values = generator.normal(size=(len(different), 5)).astype(np.float32) + 0.7
    np.save("vectors.npy", values)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    return dict(zip(different, unit.tolist(), strict=True))


def cosine(vectors, first, second):
    pairs = zip(vectors[normalised(first)], vectors[normalised(second)], strict=True)
    return round(sum(one * other for one, other in pairs), 4)


def filtered(pairs):
    """The table of filters, from similarity, rank, whether false, and similarities of positives."""
    chances = {"none": [1 for _ in pairs]}
    if max(rank for _, rank, _, _ in pairs) > 30:
        window = [30 < rank <= 100 for _, rank, _, _ in pairs]
        chances["range_min=30, range_max=100"] = window
    for name, (factor, margin) in MARGINS.items():
        chances[name] = [
            np.mean([similarity <= own - factor * abs(own) - margin for own in positives])
            for similarity, _, _, positives in pairs
        ]
    lines = []
    for name, chance in chances.items():
        false = [weight for weight, pair in zip(chance, pairs, strict=True) if pair[2]]
        true = [weight for weight, pair in zip(chance, pairs, strict=True) if not pair[2]]
        share = sum(false) / (sum(false) + sum(true)) if sum(chance) else np.nan
        lines.append((name, np.mean(chance), share, 1 - np.mean(false), 1 - np.mean(true)))
    return pd.DataFrame(lines, columns=COLUMNS)


def test_mined_negatives_of_labelled_texts_are_the_nearest_other_texts(capsys):
    generator = np.random.default_rng(0)
    texts = [f"question number {number}" for number in range(60)]
    labels = [f"topic {number}" for number in generator.integers(0, 4, len(texts))]
    pd.DataFrame({"text": texts, "label": labels}).to_csv("texts.csv", index=False)
    vectors = vectors_of(texts, generator)
    printed = audit(capsys, "--mine")
    pairs = []
    for text, label in zip(texts, labels, strict=True):
        near = sorted((-cosine(vectors, text, other), other) for other in texts if other != text)
        positives = [
            cosine(vectors, text, other)
            for other, theirs in zip(texts, labels, strict=True)
            if other != text and theirs == label
        ]
        pairs += [
            (-distance, rank, labels[texts.index(other)] == label, positives)
            for rank, (distance, other) in enumerate(near, 1)
        ]
    by_filter = pd.read_csv("texts_audit/by_filter.csv")
    pd.testing.assert_frame_equal(by_filter, filtered(pairs), atol=1e-3)  # ties
    by_rank = pd.read_csv("texts_audit/by_rank.csv", index_col="rank")
    expected = np.mean([is_false for _, rank, is_false, _ in pairs if 6 <= rank <= 10])
    assert by_rank.loc["6–10"].tolist() == pytest.approx([300, 300, expected])
    by_similarity = pd.read_csv("texts_audit/by_similarity.csv", index_col="similarity")
    inside = [is_false for similarity, _, is_false, _ in pairs if 0.5 <= similarity < 0.6]
    assert by_similarity.loc[0.5].tolist() == pytest.approx([len(inside)] * 2 + [np.mean(inside)])
    assert printed.count("\n") <= 15
    similar = pd.read_csv("texts_audit/most_similar_pairs.csv")
    most = max(similarity for similarity, _, is_false, _ in pairs if not is_false)
    assert len(similar) == 20
    assert similar["similarity"].iloc[0] == pytest.approx(most, abs=1e-4)
    in_batch = np.mean(
        [
            labels[first] == labels[second]
            for first in range(60)
            for second in range(60)
            if first != second
        ]
    )
    assert f"{100 * in_batch:.3g} % of an anchor's 59 negatives" in printed


def test_given_negatives_are_judged_by_the_labels_of_their_texts(capsys):
    generator = np.random.default_rng(1)
    topics = {f"answer number {number}": number % 5 for number in range(40)}
    rows = [
        (f"question number {number}", answer, f"t{topic}", generator.choice(list(topics), 3))
        for number, (answer, topic) in enumerate(topics.items())
    ]
    table = pd.DataFrame(
        {
            "anchor": [row[0] for row in rows],
            "positive": [row[1] for row in rows],
            "topic": [row[2] for row in rows],
            "negatives": [json.dumps(row[3].tolist()) for row in rows],
        }
    )
    table.to_csv("texts.csv", index=False)
    vectors = vectors_of([*table["anchor"], *table["positive"]], generator)
    printed = audit(capsys, "--label", "topic")
    pairs = []
    for anchor, positive, topic, negatives in rows:
        own = cosine(vectors, anchor, positive)
        near = sorted((-cosine(vectors, anchor, text), text) for text in set(negatives))
        pairs += [
            (-distance, rank, f"t{topics[text]}" == topic, [own])
            for rank, (distance, text) in enumerate(near, 1)
        ]
    by_filter = pd.read_csv("texts_audit/by_filter.csv")
    pd.testing.assert_frame_equal(by_filter, filtered(pairs), atol=1e-3)  # ties
    assert f"{len(pairs):,} given hard negatives" in printed
    assert "--ratings" not in printed


def test_margins_of_texts_without_positives_are_from_a_similarity_of_one(capsys):
    generator = np.random.default_rng(2)
    texts = [f"text number {number}" for number in range(60)]
    labels = [*"abc", ""] * 15
    negatives = [texts[(place + 1 + place % 7) % 60] for place in range(60)]
    table = pd.DataFrame({"text": texts, "label": labels, "negative_1": negatives})
    table.to_csv("texts.csv", index=False)
    vectors = vectors_of(texts, generator)
    audit(capsys)
    sample = pd.read_parquet("texts_audit/pairs.parquet")
    expected = {
        round(1 - cosine(vectors, text, negative), 4)
        for text, negative, own, other in zip(
            texts,
            negatives,
            labels,
            np.array(labels)[list(map(texts.index, negatives))],
            strict=True,
        )
        if not (own and other)
    }
    assert set(sample["margin"].round(4)) == expected


def test_texts_of_other_splits_are_not_audited(capsys):
    texts = [f"question number {number}" for number in range(40)]
    table = pd.DataFrame({"text": texts, "label": [*"ab"] * 20, "patient": [*range(8)] * 5})
    table["split"] = np.where(table["patient"] < 6, "train", "test")
    table.loc[0, "text"] = texts[6].upper()  # a test text
    table.loc[1, "patient"] = 7  # a test group
    table.to_csv("texts.csv", index=False)
    vectors_of(table["text"], np.random.default_rng(3))
    printed = audit(capsys, "--mine")
    assert "not audited: 10 rows of other splits" in printed
    assert "1 of 10 test samples have the same texts as samples of train" in printed
    assert "5 of 10 test samples have the same groups as samples of train" in printed
    assert "left out: 2 of train" in printed
    assert f"in a random batch of 28, {100 * 13 / 27:.3g} %" in printed
    similar = pd.read_csv("texts_audit/most_similar_pairs.csv")
    kept = table.loc[2:].query("split == 'train'")
    assert similar[["anchor", "negative"]].isin([*kept["text"]]).all(axis=None)
    printed = audit(capsys, "--mine", "--split", "none", "--out", "all")
    assert "in a random batch of 40" in printed


def test_an_audit_overwrites_nothing_and_refuses_unknown_encoders(capsys):
    texts = [f"text number {number}" for number in range(12)]
    pd.DataFrame({"text": texts, "label": [*"aab"] * 4}).to_csv("texts.csv", index=False)
    for arguments, named in (
        (["--encoder", "{name: made_up}"], "made_up"),
        (["--encoder", "{name: vectors, path: none.npy}"], "none.npy"),
        (["--encoder", "{name: "], "{name: "),
        (["--out", "."], ". already exists"),
        (["--batch", "1"], "--batch is 1"),
        (["--pairs", "0"], "--pairs is 0"),
        (["--judged", "0"], "--judged is 0"),
    ):
        assert main(["audit", "texts.csv", "--mine", *arguments]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert named in line


def test_a_folder_of_queries_and_a_corpus_is_audited_and_rated(tmp_path, capsys):
    generator = np.random.default_rng(2)
    queries = [f"question number {number}" for number in range(40)]
    answers = [f"answer number {number}" for number in range(50)]
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("queries", queries), ("corpus", answers)):
        lines = [{"_id": f"{name[0]}{n}", "text": text} for n, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    right = {(f"q{number}", f"c{number}") for number in range(40)} | {("q0", "c1"), ("q7", "c3")}
    judged = pd.DataFrame(sorted(right), columns=["query-id", "corpus-id"]).assign(score=1)
    judged.to_csv(folder / "qrels/test.tsv", sep="\t", index=False)
    order = [queries[int(query[1:])] for query in judged["query-id"].unique()]
    given = judged["corpus-id"].str[1:].astype(int).map(lambda number: answers[number])
    vectors = vectors_of([*order, *given], generator)
    arguments = ["--encoder", "{name: vectors, path: vectors.npy}", "--mine", "--pairs", "20"]
    assert main(["audit", "beir", *arguments]) == 0
    printed = capsys.readouterr().out
    known = 2 * (1 + 1 / 2) / (40 * 39)  # the second answers, each of which is drawn half the time
    assert f"{100 * known:.3g} % of an anchor's 39 negatives" in printed
    similar = pd.read_csv("beir_audit/most_similar_pairs.csv")
    pairs = [
        cosine(vectors, query, answer)
        for number, query in enumerate(queries)
        for place, answer in enumerate(answers[:40])
        if (f"q{number}", f"c{place}") not in right
    ]
    assert similar["similarity"].tolist() == pytest.approx(sorted(pairs)[:-21:-1], abs=1e-4)
    sample = pd.read_csv("beir_audit/sample.csv").assign(false="n")
    sample.to_csv("rated.csv", index=False)
    assert main(["audit", "beir", "--ratings", "rated.csv"]) == 0
    assert "20 rated" in capsys.readouterr().out
    is_test = judged["query-id"] < "q2"
    for name, part in (("test", judged[is_test]), ("train", judged[~is_test])):
        part.to_csv(folder / f"qrels/{name}.tsv", sep="\t", index=False)
    assert main(["audit", "beir", "--out", "training"]) == 0
    printed = capsys.readouterr().out
    assert f"not audited: {judged['query-id'][is_test].nunique()} rows of other splits" in printed
    assert "in a random batch of 28" in printed
    (folder / "qrels/test.tsv").write_text("changed")
    assert main(["audit", "beir", "--ratings", "rated.csv"]) == 1
    assert "beir has changed" in capsys.readouterr().err
    assert main(["clean", "beir", "--out", "cleaned"]) == 1
    assert "beir" in capsys.readouterr().err
    for wrong, named in (
        (["--negative", "neg", "--out", "other"], "--negative"),
        (["--out", "beir/audit"], "beir/audit"),
    ):
        assert main(["audit", "beir", *arguments, *wrong]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert named in line
    assert not (folder / "audit").exists()


def test_texts_without_a_label_are_no_positives_of_each_other(capsys):
    generator = np.random.default_rng(3)
    texts = [f"text number {number}" for number in range(40)]
    labels = ["a", ""] * 20
    pd.DataFrame({"text": texts, "label": labels}).to_csv("texts.csv", index=False)
    vectors = vectors_of(texts, generator)
    audit(capsys, "--mine")
    by_filter = pd.read_csv("texts_audit/by_filter.csv", index_col="filter")["left"]
    kept = []
    for text, label in zip(texts, labels, strict=True):
        own = [
            cosine(vectors, text, other)
            for other, theirs in zip(texts, labels, strict=True)
            if label and other != text and theirs == label
        ] or [1.0]
        kept += [
            np.mean([cosine(vectors, text, other) <= each - 0.1 for each in own])
            for other in texts
            if other != text
        ]
    assert by_filter["absolute_margin=0.1"] == pytest.approx(np.mean(kept), abs=1e-3)
    assert ">nan<" not in Path("texts_audit/rate.html").read_text(encoding="utf-8")


def test_shares_of_few_known_negatives_count_no_pair_that_is_known_because_it_is_false(capsys):
    rows = [
        (f"query number {number}", f"reply number {number}", f"reply number {number}")
        for number in range(30)
    ]
    table = pd.DataFrame(rows, columns=["query", "positive", "negative_1"])
    table["negative_2"] = [f"reply number {(number + 1) % 30}" for number in range(30)]
    table["topic"] = ["red", "blue", *[""] * 28]
    table.to_csv("texts.csv", index=False)
    vectors_of([*table["query"], *table["positive"]], np.random.default_rng(4))
    printed = audit(capsys, "--label", "topic")
    # of row 0: its own reply, and that of another topic; of row 1: its own
    assert "it is known of 3 of them whether they are false" in printed
    assert "32 given hard negatives" in printed


def test_a_bound_for_random_negatives_needs_that_none_is_known(capsys):
    texts = [f"text number {number}" for number in range(40)]
    labels = [*"aabb"] * 5 + [""] * 20
    pd.DataFrame({"text": texts, "label": labels}).to_csv("texts.csv", index=False)
    vectors_of(texts, np.random.default_rng(5))
    audit(capsys, "--mine", "--pairs", "10")
    sample = pd.read_csv("texts_audit/sample.csv").assign(false="n")
    sample.to_csv("rated.csv", index=False)
    assert main(["audit", "texts.csv", "--ratings", "rated.csv"]) == 0
    assert "of random in-batch negatives, at most" not in capsys.readouterr().out
