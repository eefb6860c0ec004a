"""Simulate audits of 120 ratings where the truth is known: how often do the 95 % intervals cover
it, and how wide are they, compared with simple random sampling of as many pairs?

python benchmarks/audit.py drawn
python benchmarks/audit.py banking77 FILE.csv --vectors FOLDER
python benchmarks/audit.py clinc150 data_full.json --vectors FOLDER
python benchmarks/audit.py medquad FILE.csv.gz --vectors FOLDER

The table of pairs holds the 100 nearest candidates of each text. A pair is a false negative if both
have the same label (of MedQuAD, if the answer is of the question's concept and type). No two rated
pairs have the anchor in common, nor the concept of the question.
"""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trueneg.audit.rates import limits, rate, rate_with_judge, thresholds
from trueneg.audit.sampling import ENDS, Frame, owners_of, ranges_of

PAIRS = 120
DEPTH = 100
RATES = (0, 0.005, 0.02, 0.1, 0.5, 0.75)
ANCHORS = 3_000  # of drawn data
BATCH = 50  # audits at once
QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.98)  # of the similarity, as thresholds
JUDGED = 2_000
RIGHT = {True: 0.85, False: 0.97}  # of a judge's opinions, by the truth
RATES_HEADER = ["data", "ranks", "rate", "coverage", "median width", "ratio", "of means"]
THRESHOLDS_HEADER = ["data", "removed", "precision", "recall", "coverage of all"]
THRESHOLDS_HEADER += ["width of precision", "width of recall"]
ENCODER = {
    "model": "all-MiniLM-L6-v2",
    "revision": None,
    "offline": True,
    "maximum_tokens": 128,
}


class Table:
    """Candidate pairs, by anchor from the nearest; C of each of A anchors.

    Args:
        similarity: (A, C).
        groups: (A,), −1: none.
        false: by name, (A, C) bool.
    """

    def __init__(self, similarity, groups, false):
        count, depth = similarity.shape
        anchors = np.arange(count).repeat(depth)
        self.ranges = ranges_of(np.tile(np.arange(1, depth + 1), count))
        self.similarity = similarity.ravel()
        self.frame = Frame(owners_of(anchors, groups.repeat(depth)), self.ranges, self.similarity)
        self.sizes = self.frame.sizes
        self.false = {name: values.ravel() for name, values in false.items()}


def drawn():
    """Return a table with false negatives at random: more of them at low ranks, and of some anchors
    many, with a third of the anchors in groups of five.
    """
    rng = np.random.default_rng(0)
    ranks = np.log(np.arange(1, DEPTH + 1))
    anchors = rng.normal(size=(ANCHORS, 1))
    similarity = 0.8 - 0.1 * ranks + 0.05 * anchors + np.zeros((ANCHORS, DEPTH))
    scores = 2 * anchors - ranks + rng.logistic(size=(ANCHORS, DEPTH))
    groups = np.where(np.arange(ANCHORS) % 3 == 0, np.arange(ANCHORS) // 15, -1)
    false = {
        f"drawn, {rate:.1%}": scores > (np.quantile(scores, 1 - rate) if rate else np.inf)
        for rate in RATES
    }
    return Table(similarity, groups, false)


def nearest(name, anchors, candidates, labels, groups):
    """Return the table of the nearest candidates; candidate i is the positive of anchor i, and its
    label is that of the anchor.
    """
    cosines = anchors @ candidates.T
    np.fill_diagonal(cosines, -np.inf)
    found = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
    similarity = np.take_along_axis(cosines, found, axis=1)
    return Table(similarity, groups, {name: labels[found] == labels[:, None]})


def vectors_of(texts, folder):
    """Return unit vectors of the packaged tower; those in the folder are reused."""
    path = folder / f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:16]}.npy"
    if not path.exists():
        from trueneg.models.towers.sentence_transformers_tower import SentenceTransformerTower

        tower = SentenceTransformerTower.build(ENCODER)
        vectors = np.empty((len(texts), tower.dimensions), np.float32)
        order = np.argsort([len(text) for text in texts])
        with torch.inference_mode():
            for batch in np.array_split(order, 1 + len(texts) // 64):
                prepared = tower.prepare([texts[row] for row in batch])
                vectors[batch] = tower(prepared).pooled.numpy()
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    vectors = np.load(path)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def read_texts(name, path, count):
    """Return texts, their candidates (None: the texts themselves), labels and groups of a sample of
    a data set.
    """
    if name == "medquad":
        table = pd.read_csv(path)
        concept = table["cui"].fillna(table["focus"]).fillna(table["question"])
        concepts = pd.Series(concept.unique()).sample(frac=1, random_state=0)
        place = pd.Series(np.arange(len(concepts)), concepts)
        table = table.assign(group=concept.map(place)).sort_values("group", kind="stable")[:count]
        labels = table["group"].astype(str) + table["qtype"].astype(str)
        return list(table["question"]), list(table["answer"]), labels, table["group"].to_numpy()
    if name == "clinc150":
        table = pd.DataFrame(json.loads(path.read_bytes())["train"], columns=["text", "category"])
    else:
        table = pd.read_csv(path)
    table = table.sample(min(count, len(table)), random_state=0)
    return list(table["text"]), None, table["category"], np.full(len(table), -1)


def of_texts(name, path, count, folder):
    """Return the table of a data set."""
    texts, answers, labels, groups = read_texts(name, path, count)
    anchors = vectors_of(texts, folder)
    candidates = anchors if answers is None else vectors_of(answers, folder)
    return nearest(name, anchors, candidates, pd.factorize(labels)[0], groups)


def described(name, part, truth, found, reference):
    """Return a row: coverage, median width, and ratios of widths to those of the reference."""
    low, high = found
    covers = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    widths, others = high - low, reference[1] - reference[0]
    ratios = [f"{each(widths) / each(others):.2f}" for each in (np.median, np.mean)]
    cells = [f"{truth:.2%}", f"{covers.mean():.2%}", f"{np.median(widths):.2%}"]
    return [name, part, *cells, *ratios]


def simple(truth, total, pairs, audits, rng):
    """Return the exact intervals of simple random samples of pairs."""
    hits = rng.hypergeometric(round(truth * total), total - round(truth * total), pairs, audits)
    counts, places = np.unique(hits, return_inverse=True)
    one = np.ones(1)
    ends = limits(counts[:, None], pairs * one, one)
    return [end[places] for end in ends]


def rates_of(table, name, drawn_rows, rng):
    """Yield the rows of a truth's rates: by range of ranks, and of all pairs."""
    false, sizes = table.false[name], table.sizes
    ranges = table.ranges[drawn_rows]
    in_range = ranges[..., None] == np.arange(len(sizes))
    rated = (in_range & (drawn_rows >= 0)[..., None]).sum(1)
    hits = (in_range & (false[drawn_rows] & (drawn_rows >= 0))[..., None]).sum(1)
    counts, places = np.unique(np.concatenate([hits, rated], axis=1), axis=0, return_inverse=True)
    hits, rated = np.split(counts, 2, axis=1)
    parts = {"all": np.arange(len(sizes))}
    for at, end in enumerate(ENDS[: len(sizes)]):
        parts[f"{ENDS[at - 1] + 1 if at else 1}–{end}"] = [at]
    for part, columns in parts.items():
        size = sizes[columns]
        is_part = np.isin(table.ranges, columns)
        truth = false[is_part].mean()
        ends = [end[places.ravel()] for end in limits(hits[:, columns], rated[:, columns], size)]
        pairs = int(np.median(rated[places.ravel()][:, columns].sum(1)))
        reference = simple(truth, size.sum(), pairs, len(drawn_rows), rng)
        yield described(name, f"{part} ({pairs} pairs)", truth, ends, reference)


def further(table, name, drawn_rows, rng):
    """Return rows of what is estimated one audit at a time: the rate with a judge, and thresholds,
    which must all be covered together.
    """
    false, sizes = table.false[name], table.sizes
    values = np.quantile(table.similarity, QUANTILES)
    removed = table.similarity >= values[:, None]
    hits = (removed & false).sum(1)
    precision, recall = hits / removed.sum(1), hits / max(false.sum(), 1)
    opinion = np.where(
        false, rng.random(len(false)) < RIGHT[True], rng.random(len(false)) > RIGHT[False]
    )
    covers, widths, judged_ends, alone = [], [], [], []
    for rows in drawn_rows:
        rows = rows[rows >= 0]
        verdicts, ranges = false[rows].astype(float), table.ranges[rows]
        found = thresholds(table.similarity, table.ranges, rows, verdicts, values)
        pairs = [*zip(precision, (each.precision for each in found), strict=True)]
        pairs += zip(recall, (each.recall for each in found), strict=True) if false.any() else []
        covers.append(all(each.low - 1e-12 <= t <= each.high + 1e-12 for t, each in pairs))
        widths.append([each[at].high - each[at].low for each in found for at in (2, 3)])
        more = rng.choice(len(false), JUDGED)
        judged = np.bincount(2 * table.ranges[more] + opinion[more], minlength=2 * len(sizes))
        judged_ends.append(
            rate_with_judge(verdicts, opinion[rows], ranges, sizes, judged.reshape(-1, 2))[1:3]
        )
        alone.append(rate(verdicts, ranges, sizes)[1:3])
    judged = described(
        name, "all, with a judge", false.mean(), np.transpose(judged_ends), np.transpose(alone)
    )
    middle = np.median(widths, axis=0).reshape(-1, 2)
    by_threshold = []
    for at, value in enumerate(QUANTILES):
        shares = precision[at], recall[at], np.mean(covers), *middle[at]
        by_threshold.append([name, f"nearest {1 - value:.0%}", *(f"{each:.2%}" for each in shares)])
    return judged, by_threshold


def show(*rows):
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
        if row in (RATES_HEADER, THRESHOLDS_HEADER):
            print(f"|---|---|{'--:|' * (len(row) - 2)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", choices=["drawn", "banking77", "clinc150", "medquad"])
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--vectors", type=Path, default=Path("."), help="folder to keep them in")
    parser.add_argument("--texts", type=int, default=3_000)
    parser.add_argument("--audits", type=int, default=10_000)
    parser.add_argument("--further", type=int, default=1_000, help="audits of thresholds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.data == "drawn":
        table = drawn()
    else:
        table = of_texts(options.data, options.path, options.texts, options.vectors)
    rng = np.random.default_rng(0)
    counts = [BATCH] * -(-options.audits // BATCH)
    rows = np.concatenate([table.frame.drawn(PAIRS, rng, count) for count in counts])
    show(RATES_HEADER)
    for name in table.false:
        show(*rates_of(table, name, rows[: options.audits], rng))
    later = [further(table, name, rows[: options.further], rng) for name in table.false]
    for judged, _ in later:
        show(judged)
    print()
    show(THRESHOLDS_HEADER)
    for _, by_threshold in later:
        show(*by_threshold)


if __name__ == "__main__":
    main()
