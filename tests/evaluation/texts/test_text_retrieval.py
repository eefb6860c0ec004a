"""Retrieval of positives and of texts with the same label."""

import itertools
import math

import numpy as np
import pytest
import pytrec_eval
import torch
from sklearn.metrics import average_precision_score, ndcg_score

from tests.evaluation.texts.embedded import embedded_run, labelled_run, paired_run, values
from trueneg.evaluation.texts import retrieval
from trueneg.stats.measurement import Measurement

KS = (1, 3, 10)
SETTINGS = {"retrieval": {"ks": KS, "all_answers": True}}


def expected(scores, relevant):
    """Compute every metric query by query; among equal scores, irrelevant candidates come first."""
    ranks, ndcgs, averages, r_precisions, recalls = [], [], [], [], []
    for row, is_relevant in zip(scores, relevant, strict=True):
        order = sorted(range(len(row)), key=lambda place: (-row[place], is_relevant[place]))
        places = [position for position, place in enumerate(order, start=1) if is_relevant[place]]
        ranks.append(places[0])
        averages.append(sum(n / place for n, place in enumerate(places, start=1)) / len(places))
        r_precisions.append(sum(place <= len(places) for place in places) / len(places))
        recalls.append([sum(place <= k for place in places) / len(places) for k in KS])
        gain = sum(1 / math.log2(1 + place) for place in places if place <= 10)
        ndcgs.append(
            gain / sum(1 / math.log2(1 + place) for place in range(1, min(10, len(places)) + 1))
        )
    metrics = {("R", k): sum(rank <= k for rank in ranks) / len(ranks) for k in KS}
    return metrics | {
        ("MRR", None): sum(1 / rank for rank in ranks) / len(ranks),
        ("MRR", 10): sum(1 / rank for rank in ranks if rank <= 10) / len(ranks),
        **{("recall", k): mean for k, mean in zip(KS, np.mean(recalls, axis=0), strict=True)},
        ("nDCG", 10): sum(ndcgs) / len(ndcgs),
        ("MAP", None): sum(averages) / len(averages),
        ("R-precision", None): sum(r_precisions) / len(r_precisions),
    }


def by_trec_eval(scores, relevant):
    """Compute the metrics of several right answers with NIST's program."""
    run, truth = (
        {f"q{q}": {f"c{c}": kind(each) for c, each in enumerate(row)} for q, row in enumerate(rows)}
        for kind, rows in ((float, scores), (int, relevant))
    )
    first = {
        query: dict(sorted(of_query.items(), key=lambda pair: -pair[1])[:10])
        for query, of_query in run.items()
    }
    measures = {"map", "Rprec", "ndcg_cut.10", f"recall.{','.join(map(str, KS))}"}
    found = pytrec_eval.RelevanceEvaluator(truth, measures).evaluate(run)
    at_ten = pytrec_eval.RelevanceEvaluator(truth, {"recip_rank"}).evaluate(first)
    names = {"map": ("MAP", None), "Rprec": ("R-precision", None), "ndcg_cut_10": ("nDCG", 10)}
    names |= {f"recall_{k}": ("recall", k) for k in KS}
    means = {
        name: np.mean([of_query[measure] for of_query in found.values()])
        for measure, name in names.items()
    }
    ranks = [of_query["recip_rank"] for of_query in at_ten.values()]
    return means | {("MRR", 10): np.mean(ranks)}


def of_part(found, split, labels):
    """Return the values of one part by metric and k, except chance."""
    rows = {
        (one.metric, one.k): value
        for (where, one), value in found.items()
        if (where, one.labels) == (split, labels)
    }
    return {key: value for key, value in rows.items() if key[0] != "chance"}


@pytest.fixture(params=[2**23, 100])
def block(request, monkeypatch):
    monkeypatch.setattr(retrieval, "BLOCK", request.param)


@pytest.mark.usefixtures("block")
def test_texts_with_the_label_of_the_query_are_relevant():
    run = labelled_run()
    found, subset = values(retrieval, run, SETTINGS), run.subset
    for split, labels in itertools.product(("validation", "test"), ("seen", "unseen")):
        bank = subset.bank if labels == "seen" else getattr(subset, f"{split}_unseen_bank")
        queries = getattr(subset, split if labels == "seen" else f"{split}_unseen")
        scores = (run.anchors[queries] @ run.anchors[bank].T).numpy()
        relevant = run.source.labels[queries][:, None] == run.source.labels[bank]
        part = of_part(found, split, labels)
        assert part == pytest.approx(expected(scores.tolist(), relevant.tolist()))
        # no scores are equal
        judged = by_trec_eval(scores, relevant)
        assert len(judged) == 4 + len(KS)
        assert {key: part[key] for key in judged} == pytest.approx(judged)
        assert part["nDCG", 10] == pytest.approx(ndcg_score(relevant, scores, k=10))
        averages = [
            average_precision_score(*of_query) for of_query in zip(relevant, scores, strict=True)
        ]
        assert part["MAP", None] == pytest.approx(np.mean(averages))
        assert 0.2 < part["nDCG", 10] < 1


@pytest.mark.usefixtures("block")
def test_positives_of_all_anchors_with_the_same_text_are_relevant():
    run = paired_run()
    found = values(retrieval, run, SETTINGS)
    assert {one.labels for _, one in found} == {"seen"}
    anchors = [0, *range(3, 20)]  # rows 1 and 2 have the text of row 0
    candidates = [place for place in range(40, 60) if place != 43]  # row 43 has the text of row 40
    scores = (run.anchors[anchors] @ run.positives[candidates].T).tolist()
    positives = {anchor: {40 + anchor} for anchor in anchors} | {0: {40, 41, 42}, 3: {40}}
    relevant = [[place in positives[anchor] for place in candidates] for anchor in anchors]
    assert of_part(found, "test", "seen") == pytest.approx(expected(scores, relevant))
    own = (run.anchors[20:40] @ run.positives[60:].T).tolist()
    assert of_part(found, "validation", "seen") == pytest.approx(
        expected(own, np.eye(20, dtype=bool).tolist())
    )


@pytest.mark.usefixtures("block")
def test_other_answers_with_the_label_are_right_if_judged_by_label():
    generator = np.random.default_rng(5)
    vectors = generator.standard_normal((24, 6))
    labels = np.repeat([0, 1, 2, 2, 1, 0], 4)
    labels[[11, 23]] = -1  # unlabelled queries are asked by their own answer only
    pairs = [(row, row + 12) for row in range(12)]
    labels[12:] = labels[:12]
    pairs.append((0, 1))  # a query that answers another one is no answer to itself
    run = embedded_run(vectors, labels=labels, pairs=pairs, validation=[0], test=range(13))
    found = values(retrieval, run, SETTINGS)
    candidates = [*range(12, 24), 1]
    scores = (run.anchors[:12] @ run.anchors[candidates].T).numpy()
    own = np.zeros((12, 13), bool)
    own[range(12), range(12)] = own[0, 12] = True
    scores[1, 12] = -np.inf  # itself
    assert of_part(found, "test", "seen") == pytest.approx(expected(scores.tolist(), own.tolist()))
    same = own | ((labels[:12, None] == labels[candidates]) & (labels[:12, None] >= 0))
    same[1, 12] = False
    asked = labels[:12] >= 0
    by_label = of_part(found, "test", "seen by label")
    assert by_label == pytest.approx(expected(scores[asked].tolist(), same[asked].tolist()))
    for part, queries, relevant in (
        (of_part(found, "test", "seen"), slice(None), own),
        (by_label, asked, same),
    ):
        judged = by_trec_eval(scores[queries], relevant[queries])
        assert {key: part[key] for key in judged} == pytest.approx(judged)


@pytest.mark.usefixtures("block")
def test_all_positives_of_a_text_are_relevant_among_the_whole_corpus():
    vectors = np.random.default_rng(6).standard_normal((30, 6))
    # three answers each, the first in place of missing ones; row 26 repeats the text of row 11
    pairs = [(row, 10 + row, 14 + row, 10 + row) for row in range(4)]
    pairs += [(row, 10 + row, 14 + row, 18 + row) for row in range(4, 8)]
    labels = np.full(30, -1)
    labels[:26] = np.tile([0, 1], 13)
    texts = [f"text {row}" for row in range(30)]
    texts[26], vectors[26] = "Text 11!", vectors[11]
    run = embedded_run(
        vectors,
        labels=labels,
        texts=texts,
        pairs=pairs,
        several=3,
        corpus=range(26, 30),
        validation=[0],
        test=range(8),
    )
    found = values(retrieval, run, SETTINGS)
    candidates = [*range(10, 26), *range(27, 30)]
    scores = (run.anchors[:8] @ run.anchors[candidates].T).tolist()
    own = [[place in pair[1:] for place in candidates] for pair in pairs]
    searched = {place for pair in pairs for place in pair[1:]} | set(range(27, 30))
    kept = [column for column, place in enumerate(candidates) if place in searched]

    def of_kept(rows):
        return [[row[column] for column in kept] for row in rows]

    part = of_part(found, "test", "seen")
    assert part == pytest.approx(expected(of_kept(scores), of_kept(own)))
    same = [
        [labels[row] == labels[place] and place < 26 for place in candidates] for row in range(8)
    ]
    by_label = of_part(found, "test", "seen by label")
    assert by_label == pytest.approx(expected(of_kept(scores), of_kept(same)))


@pytest.mark.usefixtures("block")
def test_a_text_is_no_wrong_answer_to_itself():
    vectors = np.random.default_rng(3).standard_normal((8, 5))
    vectors[4:] = vectors[:4] + 0.01  # duplicates of one another, listed in both orders
    pairs = [(first, (first + 4) % 8) for first in range(8)]
    run = embedded_run(vectors, pairs=[*pairs, (0, 1)], validation=[0], test=range(9))
    found = values(retrieval, run, SETTINGS)
    relevant = np.eye(8, dtype=bool)[[place for _, place in pairs]]
    relevant[0, 1] = True
    scores = (run.anchors @ run.anchors.T).masked_fill(torch.eye(8, dtype=torch.bool), -torch.inf)
    assert of_part(found, "test", "seen") == pytest.approx(
        expected(scores.tolist(), relevant.tolist())
    )
    assert of_part(found, "test", "seen")["R", 1] == 1
    by_chance = found["test", Measurement("retrieval", "chance", "seen", k=1)]
    assert by_chance == pytest.approx((7 * 1 / 7 + 2 / 7) / 8)  # seven other texts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_similarities_count_against_the_encoder(dtype):
    labels = [0, 0, 1, 1, 1, 0, 1]
    run = embedded_run(
        np.ones((7, 2), dtype), labels, bank=range(5), validation=[5, 6], test=[5, 6]
    )
    part = of_part(values(retrieval, run, SETTINGS), "test", "seen")
    relevant = [[True, True, False, False, False], [False, False, True, True, True]]
    assert part == pytest.approx(expected(np.ones((2, 5)).tolist(), relevant))
    assert part["R", 1] == 0
    assert part["MRR", None] == pytest.approx((1 / 4 + 1 / 3) / 2)


def test_chance_is_the_mean_over_all_orders_of_the_candidates():
    run = embedded_run(
        np.random.default_rng(0).standard_normal((7, 3)),
        [0, 0, 1, 1, 1, 0, 1],
        bank=range(5),
        validation=[5],
        test=[5, 6],
    )
    found = values(retrieval, run, SETTINGS)
    for k in KS:
        hits = [
            any(place in order[:k] for place in own)
            for order in itertools.permutations(range(5))
            for own in ((0, 1), (2, 3, 4))
        ]
        assert found["test", Measurement("retrieval", "chance", "seen", k=k)] == pytest.approx(
            np.mean(hits)
        )
    precisions = [
        average_precision_score([place in own for place in order], range(5, 0, -1))
        for order in itertools.permutations(range(5))
        for own in ((0, 1), (2, 3, 4))
    ]
    chance = found["test", Measurement("retrieval", "chance", "seen")]
    assert chance == pytest.approx(np.mean(precisions))


def test_texts_whose_label_no_training_text_has_are_left_out_and_counted(caplog):
    run = embedded_run(
        np.eye(6), [0, 0, 1, 2, 0, 2], bank=[0, 1, 2], validation=[4], test=[3, 4, 5]
    )
    counted = embedded_run(np.eye(6), [0, 0, 1, 2, 0, 2], bank=[0, 1, 2], validation=[4], test=[4])
    assert values(retrieval, run, SETTINGS) == values(retrieval, counted, SETTINGS)
    assert caplog.messages == [
        "retrieval: left out 2 held-out texts whose label no training text has"
    ]


def test_a_split_without_a_query_that_can_be_answered_is_not_measured(caplog):
    settings = {"retrieval": SETTINGS["retrieval"] | {"all_answers": True}}
    run = embedded_run(np.eye(6), [0, 0, 1, 0, 2, 2], bank=[0, 1, 2], validation=[3], test=[4, 5])
    assert {split for split, _ in values(retrieval, run, settings)} == {"validation"}
    assert caplog.messages[-1] == "retrieval, test split, seen: no query has a right answer"


def test_one_pair_is_retrieved_at_once():
    run = embedded_run(np.eye(4), pairs=[(0, 1), (2, 3)], validation=[0], test=[1])
    assert {*of_part(values(retrieval, run, SETTINGS), "test", "seen").values()} == {1.0}


def test_texts_without_pairs_and_labels_have_nothing_to_retrieve():
    run = embedded_run(torch.eye(4).numpy(), bank=[0, 1], validation=[2], test=[3])
    assert values(retrieval, run, SETTINGS) == {}
