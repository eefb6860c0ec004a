"""Compare the similarities by which a frozen text tower removes negatives with people's ratings of
captions of other photographs.

    snakemake figures --configfile config/studies/flickr8k_tuned.yaml
    python benchmarks/caption_mask.py results/pairs/flickr8k-*px-*.npz
    results/features/sentence_transformers-texts-*.npz

A row is a range of similarities between the captions of two photographs: which share of a batch's
negatives lies in it, how many pairs that people rated, and which share of these they called true (a
mean above 2.5 on a scale from 1 to 4). A rated pair is a test photograph and a caption of another
one; it counts once for each caption of the photograph, any of which a batch may draw, with equal
weights that add up to 1.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import beside, distinct_texts, read_pairs
from trueneg.data.pairs.pair_splits import official_subset
from trueneg.data.stored_features import read_features
from trueneg.evaluation.human_ratings import false_negatives
from trueneg.evaluation.implied_scores import captions_similarity
from trueneg.evaluation.rated_pairs import rated_pairs

EDGES = [-1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.01]
DRAWN = 100_000  # pairs of captions of two training photographs


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "pairs", type=Path, help="file of an image–text source with ratings beside it"
    )
    parser.add_argument("vectors", type=Path, help="vectors of its texts")
    options = parser.parse_args()
    source = read_pairs(options.pairs)
    subset = official_subset(source, pd.read_parquet(beside(options.pairs, "splits")), seed=0)
    rated = rated_pairs(source, pd.read_parquet(beside(options.pairs, "ratings")), subset.test)
    values = read_features(options.vectors, source.checksum).values[:, 0, :, 0]
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    row_of = {text: row for row, text in enumerate(distinct_texts(source))}

    table = source.sentences[source.sentences["report"].isin(source.reports[subset.train])]
    rows, reports = table["sentence"].map(row_of).to_numpy(), table["report"].to_numpy()
    first, second = np.random.default_rng(0).integers(len(rows), size=(2, DRAWN))
    negatives = (unit[rows[first]] * unit[rows[second]]).sum(1)[reports[first] != reports[second]]

    own = unit[[row_of[text] for text in rated.texts]]
    drawn = captions_similarity(own, rated.text, rated.own_texts[rated.image])
    true = np.repeat(false_negatives(rated.ratings), drawn.shape[1])
    print(f"{len(rated.image):,} rated pairs, of which people rate {true.mean():.1%} as true.\n")
    print(
        "| similarity | share of a batch's negatives | rated pairs | called true"
        " |\n|---|--:|--:|--:|"
    )
    for low, high in itertools.pairwise(EDGES):
        inside = ((drawn >= low) & (drawn < high)).ravel()
        share = ((negatives >= low) & (negatives < high)).mean()
        name = (
            f"below {high:g}"
            if low < 0
            else f"{low:g} or more"
            if high > 1
            else f"{low:g} to {high:g}"
        )
        called = f"{true[inside].mean():.1%}" if inside.any() else ""
        print(f"| {name} | {share:.2%} | {inside.sum() / drawn.shape[1]:,.0f} | {called} |")


if __name__ == "__main__":
    main()
