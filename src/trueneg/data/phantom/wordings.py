"""The wordings of the phantom's classes: a small grammar that gives each class its own set of
sentences.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.phantom.classes import FILLER, POSITIVE
from trueneg.randomness import rng_for

# part of a sentence (finding, severity, side, …) → value (edema, mild, left, …) → phrases for it
PHRASES: dict[Any, dict[Any, list[str]]] = {
    part: table.groupby("of", sort=False)["phrase"].agg(list).to_dict()
    for part, table in pd.read_csv(
        Path(__file__).with_name("phrases.csv"), keep_default_na=False
    ).groupby("part", sort=False)
}
Wordings = tuple[ndarray, ndarray]  # sentences and their probabilities
MOST_WORDINGS = 120
WORDS = 9.0  # approximate mean number of words per sentence, over classes
SPREAD = 3.0  # its standard deviation


def wordings_of(classes: DataFrame, entropy: ndarray, length: ndarray, seed: int) -> list[Wordings]:
    """Choose the distinct sentences of each class and their probabilities.

    The entropy score determines how many sentences a class has and how evenly they are used; the
    length score, how long they are.

    Args:
        classes: table with ``kind``, ``finding``, ``side``, ``zone``, ``severity``.
        entropy: (C,) standardised entropy scores.
        length: (C,) standardised length scores.
        seed: determines which of the grammar's sentences each class has.
    """
    generator = rng_for(seed, "phantom wordings")
    wordings = []
    for row, spread, size in zip(classes.itertuples(), entropy, length, strict=True):
        share = (1 + np.tanh(spread)) / 2  # 0 … 1
        texts = generator.permutation(np.array(_grammar(row), dtype=object))
        words = np.array([len(text.split()) for text in texts])
        count = int(np.clip(round(MOST_WORDINGS**share), 1, len(texts)))
        nearest = generator.permutation(
            np.argsort(np.abs(words - (WORDS + SPREAD * size)), kind="stable")[:count]
        )
        probability = np.arange(1, count + 1) ** -(1.5 - share)
        probability /= probability.sum()
        wordings.append((texts[nearest], probability))
    return wordings


def _grammar(row: Any) -> list[str]:
    """Return all sentences of a class; no two classes share a sentence."""
    if row.kind == FILLER:
        parts = [PHRASES["filler"][row.finding]]
    else:
        parts = [PHRASES["opening"][row.kind], PHRASES["finding"][row.finding]]
    if row.kind == POSITIVE:
        parts[1:1] = [PHRASES["severity"][row.severity], PHRASES["side"].get(row.side, [""])]
        parts.append(PHRASES["zone"].get(row.zone, [""]))
    combinations = itertools.product(PHRASES["frame"]["aside"], *parts, PHRASES["frame"]["tail"])
    texts = [" ".join(" ".join(words).split()) for words in combinations]
    return [f"{text[0].upper()}{text[1:]}." for text in texts]
