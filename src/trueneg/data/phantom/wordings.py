"""How the phantom's classes are put into words: a small grammar, and for each class its own wordings of it."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.randomness import seed_for

# part of a sentence (finding, severity, side, …) → what is said (edema, mild, left, …) → ways to say it
PHRASES: dict[Any, dict[Any, list[str]]] = {
    part: table.groupby("of", sort=False)["phrase"].agg(list).to_dict()
    for part, table in pd.read_csv(Path(__file__).with_name("phrases.csv"), keep_default_na=False).groupby("part", sort=False)
}
MOST_WORDINGS = 120
WORDS, SPREAD = 9.0, 3.0  # of a sentence: mean and standard deviation over classes, about


class Wordings(NamedTuple):
    """The sentences of one class.

    Attributes:
        texts: different ones.
        probability: of each.
        entropy: of the choice among them, in nats.
        mean_length: in words, weighted.
    """

    texts: tuple[str, ...]
    probability: np.ndarray
    entropy: float
    mean_length: float


def wordings_of(classes: pd.DataFrame, entropy: np.ndarray, length: np.ndarray, seed: int) -> list[Wordings]:
    """For each class: as many wordings, as evenly used, as its entropy score asks for, and as long as its length score asks for.

    Args:
        classes: ``kind``, ``finding``, ``side``, ``zone``, ``severity``.
        entropy: (C,) standard scores.
        length: (C,) standard scores.
        seed: which of the grammar's sentences each class has.
    """
    generator = np.random.default_rng(seed_for(seed, "phantom wordings"))
    found = []
    for (_, row), spread, size in zip(classes.iterrows(), entropy, length, strict=True):
        share = (1 + np.tanh(spread)) / 2  # 0 … 1
        texts = generator.permutation(np.array(_grammar(row), dtype=object))
        words = np.array([len(text.split()) for text in texts])
        count = int(np.clip(round(MOST_WORDINGS**share), 1, len(texts)))
        nearest = generator.permutation(np.argsort(np.abs(words - (WORDS + SPREAD * size)), kind="stable")[:count])
        probability = np.arange(1, count + 1) ** -(1.5 - share)
        probability /= probability.sum()
        nats = -(probability * np.log(probability)).sum()
        found.append(Wordings(tuple(texts[nearest]), probability, float(nats), float(probability @ words[nearest])))
    return found


def _grammar(row: pd.Series) -> list[str]:
    """All sentences of a class; no two classes share one."""
    aside, tail = PHRASES["frame"]["aside"], PHRASES["frame"]["tail"]
    if row["kind"] == "filler":
        parts = [PHRASES["filler"][row["finding"]]]
    else:
        parts = [PHRASES["opening"][row["kind"]], PHRASES["finding"][row["finding"]]]
    if row["kind"] == "positive":
        side, zone = PHRASES["side"].get(row["side"], [""]), PHRASES["zone"].get(row["zone"], [""])
        parts = [parts[0], PHRASES["severity"][row["severity"]], side, parts[1], zone]
    texts = [" ".join(" ".join(words).split()) for words in itertools.product(aside, *parts, tail)]
    return [f"{text[0].upper()}{text[1:]}." for text in texts]
