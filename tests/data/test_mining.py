"""Mined hard negatives: which texts are near, which of them are allowed and drawn, and their file.
The reference for the filters is sentence-transformers' ``mine_hard_negatives``.
"""

import os
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.util import mine_hard_negatives

from trueneg.data import mining
from trueneg.data.mining import (
    mine,
    mined_checksum,
    read_mined,
    write_false_shares,
    write_mined,
)
from trueneg.data.samples import Subset, write_subsets
from trueneg.data.stored_features import write_features
from trueneg.data.texts.hard_negatives import HardNegatives
from trueneg.data.texts.text_source import TextSource, write_texts
from trueneg.errors import UserError
from trueneg.specs.hard_negatives import HardNegativeSettings

NOTHING = np.empty(0, np.int64)
quick = settings(deadline=None, max_examples=15)
seeds = st.integers(0, 2**31 - 1)


class Vectors:
    """A model of sentence-transformers as far as mining uses it, with a vector for each text."""

    device = torch.device("cpu")

    def __init__(self, vectors):
        self._vectors = vectors

    def encode_query(self, texts, **kwargs):
        vectors = np.stack([self._vectors[text] for text in texts])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    encode_document = encode_query

    def similarity(self, first, second):
        # rounded, as what is mined is
        return (torch.as_tensor(first) @ torch.as_tensor(second).T).mul(1e4).round().div(1e4)

    def similarity_pairwise(self, first, second):
        return self.similarity(first, second).diagonal()


def pairs_of(generator, count, several):
    """Queries with documents; some have several, and some documents answer several queries."""
    queries = [f"query {number}" for number in range(count)]
    documents = [f"document {number}" for number in range(count)]
    both = [(number, number) for number in range(count)]
    if several:
        both += [tuple(generator.integers(0, count, 2).tolist()) for _ in range(count // 2)]
    both = list(dict.fromkeys(both))
    return [(queries[q], documents[d]) for q, d in both]


def source_of_pairs(pairs):
    texts = sorted({text for pair in pairs for text in pair})
    rows = np.array([[texts.index(text) for text in pair] for pair in pairs])
    sentences = pd.DataFrame({"sentence": texts, "class": -1, "split": ""})
    return TextSource("made up", sentences, rows, ()), texts


def source_of_labels(classes):
    sentences = pd.DataFrame(
        {"sentence": [f"text {n}" for n in range(len(classes))], "class": classes, "split": ""}
    )
    return TextSource("made up", sentences, np.empty((0, 2), np.int64), ("a", "b", "c"))


def whole(source):
    return Subset(0, source.checksum, np.arange(len(source.rows)), NOTHING)


def drawing(source, vectors, **changes):
    """What draws from what was mined, and places of texts are their rows."""
    wanted = HardNegativeSettings(**changes).model_dump()
    mined = mine(source, whole(source), vectors)
    pairs = torch.from_numpy(source.pairs) if len(source.pairs) else None
    labels = source.sentences["class"].to_numpy(np.int64)
    rows = np.arange(len(source.sentences))
    return HardNegatives(wanted, mined, rows, vectors, labels, pairs)


@quick
@given(
    seeds,
    st.booleans(),
    st.integers(0, 4),
    st.integers(6, 12),
    st.sampled_from(
        [
            {},
            {"absolute_margin": 0.1},
            {"relative_margin": 0.05},
            {"max_score": 0.5, "relative_margin": -0.2},
        ]
    ),
)
def test_the_same_are_mined_as_by_sentence_transformers(seed, several, first, last, filters):
    generator = np.random.default_rng(seed)
    pairs = pairs_of(generator, 24, several)
    source, texts = source_of_pairs(pairs)
    vectors = generator.normal(size=(len(texts), 6)).astype(np.float32)
    columns = {"anchor": [pair[0] for pair in pairs], "positive": [pair[1] for pair in pairs]}
    expected = mine_hard_negatives(
        Dataset.from_dict(columns),
        Vectors(dict(zip(texts, vectors, strict=True))),
        range_min=first,
        range_max=last,
        num_negatives=2,
        sampling_strategy="top",
        output_format="n-tuple",
        verbose=False,
        **filters,
    )
    found = drawing(
        source,
        vectors,
        range_min=first,
        range_max=last,
        num_negatives=2,
        sampling="top",
        **filters,
    )
    anchors, positives = torch.from_numpy(source.rows).T
    drawn = found.draw(anchors, positives, torch.Generator())
    ours = {
        (texts[a], texts[p]): [texts[n] for n in negatives]
        for a, p, negatives in zip(anchors, positives, drawn.tolist(), strict=True)
        if a not in negatives
    }
    theirs = {
        (row["anchor"], row["positive"]): [row["negative_1"], row["negative_2"]] for row in expected
    }
    # it looks at the first `last` + positives only, ours refills from further ranks
    assert theirs.items() <= ours.items()
    if not filters:
        assert theirs


@quick
@given(seeds, st.booleans())
def test_the_nearest_texts_are_found_and_no_positive_is_one(seed, several):
    generator = np.random.default_rng(seed)
    source, texts = source_of_pairs(pairs_of(generator, 30, several))
    vectors = generator.normal(size=(len(texts), 5)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mined = mine(source, whole(source), vectors)
    documents = set(source.rows[:, 1].tolist())
    assert mined.anchors.tolist() == sorted(set(source.rows[:, 0].tolist()))
    for anchor, candidates, similarity in zip(*mined, strict=True):
        known = set(source.rows[source.rows[:, 0] == anchor, 1].tolist())
        found = candidates[candidates >= 0]
        assert set(found.tolist()) == documents - known
        assert np.allclose(similarity[: len(found)], unit[anchor] @ unit[found].T, atol=1e-4)
        assert (np.diff(similarity[: len(found)]) <= 0).all()
        assert (similarity[len(found) :] == -np.inf).all()


def test_only_the_training_split_is_seen_and_blocks_change_nothing(monkeypatch):
    generator = np.random.default_rng(0)
    source = source_of_labels([0, 1, 2] * 20)
    vectors = generator.normal(size=(60, 4)).astype(np.float32)
    subset = Subset(0, source.checksum, np.arange(0, 60, 2), NOTHING)
    mined = mine(source, subset, vectors)
    assert set(mined.anchors.tolist()) == set(range(0, 60, 2))
    assert set(mined.candidates.ravel().tolist()) <= {-1, *range(0, 60, 2)}
    monkeypatch.setattr(mining, "BLOCK", 64)
    assert mine(source, subset, vectors).checksum == mined.checksum


def test_texts_that_equal_the_anchor_are_no_candidates():
    sentences = pd.DataFrame(
        {"sentence": ["Lost card", "lost card!", "Top up", "Where"], "class": 0, "split": ""}
    )
    source = TextSource("made up", sentences, np.empty((0, 2), np.int64), ("a", "b"))
    mined = mine(source, whole(source), np.eye(4, dtype=np.float32))
    found = {
        anchor: set(candidates[candidates >= 0].tolist())
        for anchor, candidates in zip(mined.anchors.tolist(), mined.candidates, strict=True)
    }
    assert found == {0: {2, 3}, 1: {2, 3}, 2: {0, 3}, 3: {0, 2}}


def draws(found, count, generator):
    """All draws of each anchor as sets of pairs, with a random positive."""
    anchors = torch.arange(count)
    positives = torch.randint(count, (count,), generator=generator)
    return anchors, positives, found.draw(anchors, positives, generator)


@quick
@given(seeds, st.sampled_from([0.0, 0.1, 0.75]))
def test_controls_have_the_wished_share_of_false_ones_at_equal_similarity(seed, share):
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 3, 180)
    source = source_of_labels(classes)
    vectors = generator.normal(size=(180, 3)).astype(np.float32)
    torch_generator = torch.Generator().manual_seed(seed)
    wished = {"range_max": 20, "num_negatives": 4}
    plain = drawing(source, vectors, **wished)
    draws(plain, 180, torch_generator)
    control = drawing(source, vectors, **wished, false_share=share)
    _, _, drawn = draws(control, 180, torch_generator)
    is_false = classes[drawn.numpy()] == classes[:, None]
    assert control.measured["share of false hard negatives"] == pytest.approx(is_false.mean())
    assert abs(is_false.mean() - share) <= 4 * np.sqrt(share * (1 - share) / is_false.size)
    similar = [each.measured["similarity of hard negatives"] for each in (plain, control)]
    assert abs(similar[0] - similar[1]) < 0.03
    assert all(len(set(row)) == 4 for row in drawn.tolist())


def test_without_positives_no_label_is_shared_and_ranks_count_what_is_allowed():
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 3, 90)
    source = source_of_labels(classes)
    vectors = generator.normal(size=(90, 3)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = drawing(
        source, vectors, without_positives=True, range_min=2, range_max=5, num_negatives=3
    )
    drawn = draws(found, 90, torch.Generator().manual_seed(0))
    for anchor, positive, negatives in zip(*(each.tolist() for each in drawn), strict=True):
        others = np.flatnonzero((classes != classes[anchor]) & (np.arange(90) != positive))
        ranked = others[np.argsort(-(unit[others] @ unit[anchor]).round(4), kind="stable")]
        assert set(negatives) <= set(ranked[2:5].tolist())


def test_missing_ones_are_the_anchor_itself_and_counted():
    source = source_of_labels([0, 1, 2] * 4)
    vectors = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    found = drawing(source, vectors, max_score=-1.5, num_negatives=2)
    anchors, _, drawn = draws(found, 12, torch.Generator())
    assert (drawn == anchors[:, None]).all()
    assert found.measured["share of missing hard negatives"] == 1


def test_more_hard_negatives_than_texts_are_refused():
    source = source_of_labels([0, 1, 2])
    with pytest.raises(UserError, match="num_negatives is 4, but there are 3 texts"):
        drawing(source, np.eye(3, dtype=np.float32))


def test_shuffled_ones_are_those_of_other_anchors():
    source = source_of_labels([0, 1, 2] * 20)
    vectors = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    plain, shuffled = (
        drawing(source, vectors, sampling="top", range_max=5, shuffled=each)
        for each in (False, True)
    )
    positives = torch.arange(60).roll(1)
    first, second = (
        each.draw(torch.arange(60), positives, torch.Generator().manual_seed(0))
        for each in (plain, shuffled)
    )
    assert sorted(first.tolist()) == sorted(second.tolist())
    assert (first == second).all(1).float().mean() < 0.2


def test_missing_ones_are_the_new_anchor_itself_if_shuffled():
    source = source_of_labels([0, 1, 2] * 20)
    vectors = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    found = drawing(source, vectors, max_score=-0.8, range_max=8, shuffled=True)
    anchors, _, drawn = draws(found, 60, torch.Generator().manual_seed(0))
    share = found.measured["share of missing hard negatives"]
    assert 0 < share < 1
    assert (drawn == anchors[:, None]).float().mean().item() == pytest.approx(share)


def test_controls_without_a_text_of_the_wished_label_are_counted():
    source = source_of_labels([0, 0, 1, 1, 1])
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    found = drawing(source, vectors, num_negatives=2, false_share=0.999)
    positives = torch.tensor([1, 0, 3, 4, 2])
    drawn = found.draw(torch.arange(5), positives, torch.Generator().manual_seed(0))
    assert (drawn != positives[:, None]).all()
    assert (drawn != torch.arange(5)[:, None]).all()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    # the only text with the label of texts 0 and 1 is their positive; of the others, one is left
    share = found.measured["share of hard negatives without the wished label"]
    assert share == pytest.approx(0.7)


def test_controls_without_any_text_left_are_missing():
    source = source_of_labels([0, 1, 1, 1])
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    found = drawing(source, vectors, num_negatives=3, false_share=0.5)
    drawn = found.draw(torch.arange(4), torch.tensor([1, 0, 3, 2]), torch.Generator())
    assert [sorted(row) for row in drawn.tolist()] == [[0, 2, 3], [1, 2, 3], [0, 1, 2], [0, 1, 3]]
    assert found.measured["share of missing hard negatives"] == pytest.approx(1 / 3)


def test_the_share_of_false_ones_by_rank_is_counted():
    classes = np.random.default_rng(0).integers(-1, 3, 60)
    source = source_of_labels(classes)
    mined = mine(source, whole(source), np.random.default_rng(1).normal(size=(60, 3)))
    found = mining.false_by_rank(mined, classes)
    assert list(found) == ["1", "5", "10", "30", "100"]
    for rank, share in found.items():
        pairs = [
            (classes[anchor], classes[candidate])
            for anchor, candidates, _ in zip(*mined, strict=True)
            for candidate in candidates[: int(rank)]
            if candidate >= 0
        ]
        known = [first == second for first, second in pairs if min(first, second) >= 0]
        assert share == pytest.approx(sum(known) / len(known))


def shares_of(mined, classes):
    """Pairs with known labels and the share of them with equal labels, by rank and similarity, pair
    by pair.
    """
    pairs = [
        (rank, round(10_000 * float(cosine)), classes[anchor] == classes[candidate])
        for anchor, candidates, cosines in zip(*mined, strict=True)
        for rank, (candidate, cosine) in enumerate(zip(candidates, cosines, strict=True), 1)
        if candidate >= 0 and min(classes[anchor], classes[candidate]) >= 0
    ]
    chosen = {
        ("rank", last): [pair for pair in pairs if pair[0] <= last] for last in (1, 5, 10, 30, 100)
    }
    for first in range(-10_000, 10_001, 500):
        middle = (first + 250) / 10_000
        chosen["similarity", middle] = [pair for pair in pairs if first <= pair[1] < first + 500]
    return {
        key: (len(found), sum(pair[2] for pair in found) / len(found))
        for key, found in chosen.items()
        if found
    }


def test_the_share_of_false_ones_is_counted_by_rank_and_similarity():
    generator = np.random.default_rng(0)
    classes = generator.integers(-1, 3, 60)
    source = source_of_labels(classes)
    # few directions, so that some similarities are ends of intervals: 1, 0 and −1
    mined = mine(source, whole(source), generator.integers(-1, 2, (60, 2)).astype(np.float32))
    found = mining.false_shares(mined, classes)
    expected = shares_of(mined, classes)
    assert {("similarity", at) for at in (0.025, 0.975, 1.025, -0.975)} & expected.keys()
    assert {
        (by, at): (pairs, share)
        for by, at, pairs, share in found[["by", "at", "pairs", "share"]].itertuples(index=False)
    } == expected


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    source = source_of_labels([0, 1, 2] * 10)
    write_texts(source, tmp_path / "texts.npz")
    vectors = generator.normal(size=(30, 1, 4, 1)).astype(np.float32)
    made_of = {"tower": {}, "weights": "w", "data": source.checksum}
    write_features(
        tmp_path / "vectors.npz",
        tmp_path / "cache",
        made_of,
        30,
        lambda chosen: vectors[chosen],
        grid=None,
        at_once=10,
        restricted=False,
    )
    subsets = [
        Subset(seed, source.checksum, *map(np.sort, np.split(generator.permutation(30), [20])))
        for seed in (3, 4)
    ]
    write_subsets(subsets, tmp_path / "subsets.parquet")
    write_mined(
        tmp_path / "texts.npz",
        tmp_path / "subsets.parquet",
        tmp_path / "vectors.npz",
        tmp_path / "mined/seed3-4.npz",
    )
    return source, subsets, vectors, tmp_path / "mined/seed3-4.npz"


def test_what_was_mined_is_read_as_written(files):
    source, subsets, vectors, path = files
    mined = read_mined(path, source.checksum)
    # stored vectors are those of the distinct texts in alphabetical order
    order = pd.Index(sorted(source.sentences["sentence"])).get_indexer(
        pd.Index(source.sentences["sentence"])
    )
    for subset in subsets:
        expected = mine(source, subset, vectors[order, 0, :, 0])
        assert mined[subset.seed].checksum == expected.checksum
        assert mined_checksum(path.parent, subset.seed) == expected.checksum
    assert mined_checksum(path.parent, 5) is None


def test_shares_of_all_seeds_and_miners_are_written(files, tmp_path):
    source, _, _, path = files
    (other := tmp_path / "other/seed3-4.npz").parent.mkdir()
    other.write_bytes(path.read_bytes())
    shares = tmp_path / "text_table.parquet"
    write_false_shares(tmp_path / "texts.npz", {str(path): "one", str(other): "two"}, shares)
    table = pd.read_parquet(shares)
    assert set(table["dataset"]) == {"text_table"}
    classes = source.sentences["class"].to_numpy()
    for seed, mined in read_mined(path, source.checksum).items():
        for miner in ("one", "two"):
            rows = table[(table["seed"] == seed) & (table["miner"] == miner)]
            assert dict(
                zip(
                    zip(rows["by"], rows["at"], strict=True),
                    zip(rows["pairs"], rows["share"], strict=True),
                    strict=True,
                )
            ) == shares_of(mined, classes)


def killed(place, seed, number):
    """Mine in another process, which kills itself before a seed's piece of this number."""
    real = mining.resumed_array

    def until(folder, made_of, count, compute, at_once):
        def piece(chosen):
            if (folder.name, chosen.start) == (str(seed), number * at_once):
                os.kill(os.getpid(), signal.SIGKILL)
            return compute(chosen)

        return real(folder, made_of, count, piece, at_once)

    if (child := os.fork()) == 0:
        mining.resumed_array = until
        write_mined(*place)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_mining_resumes_to_the_same_bytes(files, tmp_path, monkeypatch):
    path = files[3]
    once = path.read_bytes()
    path.unlink()
    monkeypatch.setattr(mining, "BLOCK", 80)  # four anchors at once, of twenty
    place = [tmp_path / name for name in ("texts.npz", "subsets.parquet", "vectors.npz")]
    assert killed([*place, path], 4, 3) == -signal.SIGKILL
    assert not path.exists()
    real, pieces = mining.resumed_array, []

    def counted(folder, made_of, count, compute, at_once):
        def piece(chosen):
            pieces.append((folder.name, chosen.start))
            return compute(chosen)

        return real(folder, made_of, count, piece, at_once)

    monkeypatch.setattr(mining, "resumed_array", counted)
    write_mined(*place, path)
    assert pieces == [("4", 12), ("4", 16)]
    assert path.read_bytes() == once
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_was_begun_with_other_vectors_is_mined_again(files, tmp_path, monkeypatch):
    source, subsets, _, _ = files
    monkeypatch.setattr(mining, "BLOCK", 80)
    several = np.random.default_rng(5).normal(size=(2, 30, 4))
    for vectors in several:
        found = mine(source, subsets[0], vectors, tmp_path / "begun").checksum
        assert found == mine(source, subsets[0], vectors).checksum


def test_damage_and_other_data_are_refused(files):
    source, _, _, path = files
    with pytest.raises(UserError, match="mined from other data"):
        read_mined(path, "0" * 64)
    content = bytearray(path.read_bytes())
    place = content.index(b"3 similarity.npy") + 300
    content[place] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match="mined hard negatives"):
        read_mined(path, source.checksum)


def test_bounds_of_settings_are_checked():
    with pytest.raises(ValueError, match="range_max"):
        HardNegativeSettings(range_max=1001)
    with pytest.raises(ValueError, match="ranks between them"):
        HardNegativeSettings(range_min=8, range_max=[20, 11])
    with pytest.raises(ValueError, match="remove one of them"):
        HardNegativeSettings(without_positives=True, false_share=0.1)
