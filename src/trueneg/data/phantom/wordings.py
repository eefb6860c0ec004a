"""How the phantom's classes are put into words: a small grammar, and for each class its own wordings of it."""

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.randomness import seed_for

NAMES = {
    "cardiomegaly": ("cardiomegaly", "enlargement of the heart", "cardiac enlargement", "enlargement of the cardiac silhouette"),
    "edema": ("pulmonary edema", "interstitial edema", "fluid overload", "pulmonary vascular congestion with edema"),
    "effusion": ("pleural effusion", "pleural fluid", "layering effusion", "fluid in the pleural space"),
    "pneumonia": ("pneumonia", "airspace consolidation", "infectious consolidation", "infiltrate suspicious for infection"),
    "pneumothorax": ("pneumothorax", "pleural air", "air in the pleural space", "collapse with free pleural air"),
    "atelectasis": ("atelectasis", "subsegmental atelectasis", "volume loss", "streaky atelectatic change"),
    "nodule": ("pulmonary nodule", "nodular opacity", "rounded density", "lung nodule"),
    "granuloma": ("calcified granuloma", "calcified nodule", "dense granuloma", "sequela of granulomatous disease"),
    "rib fracture": ("rib fracture", "fracture of a rib", "cortical break of a rib", "rib injury with cortical disruption"),
}
DEGREES = {
    "mild": ("mild", "slight"),
    "moderate": ("moderate", "moderately extensive"),
    "severe": ("severe", "marked"),
    "small": ("small", "minor"),
    "large": ("large", "sizeable"),
}
SIDES = {"left": ("left", "left-sided"), "right": ("right", "right-sided"), "bilateral": ("bilateral", "bilateral and symmetric")}
ZONES = {
    "upper": ("in the upper zone", "near the apex"),
    "middle": ("in the middle zone", "at the level of the hilum"),
    "lower": ("in the lower zone", "at the base"),
}
AFFIRMING = ("", "there is", "again seen is", "the image shows", "findings are consistent with", "we note")
DENYING = ("no", "no evidence of", "there is no", "there is no evidence of", "without", "negative for")
TAILS = (
    "",
    "unchanged from the prior study",
    "as described above",
    "better seen on the lateral view",
    "which may be followed with a repeat examination",
    "in comparison with the most recent radiograph that is available",
    "although evaluation is limited by the position of the patient and low lung volumes",
)
FILLERS = {
    "technique": ("frontal and lateral views were obtained", "two views of the chest", "single portable view of the chest"),
    "comparison": ("comparison is made with the prior study", "no prior study is available", "compared with the earlier film"),
    "bones": (
        "the bones are intact",
        "osseous structures are unremarkable",
        "degenerative change of the spine is typical for age",
    ),
    "mediastinum": (
        "mediastinal contours are normal",
        "the mediastinum is unremarkable",
        "hilar contours are within normal limits",
    ),
    "devices": (
        "a central line ends in the superior vena cava",
        "a feeding tube is in place",
        "leads of a pacemaker are in place",
    ),
    "volumes": ("lung volumes are low", "the lungs are well expanded", "inspiratory effort is adequate"),
    "abdomen": ("the upper abdomen is unremarkable", "bowel gas is normal", "there is no free air under the diaphragm"),
    "advice": ("clinical correlation is advised", "follow-up is recommended", "results were discussed by telephone"),
}
ASIDES = ("", "of note,", "overall,", "on this examination,", "as far as can be seen,", "in summary,")
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
    if row["kind"] == "filler":
        heads = FILLERS[row["finding"]]
    elif row["kind"] == "negated":
        heads = [f"{opening} {name}" for opening, name in itertools.product(DENYING, NAMES[row["finding"]])]
    else:
        parts = (AFFIRMING, DEGREES[row["severity"]], SIDES.get(row["side"], ("",)), NAMES[row["finding"]])
        heads = [" ".join(words) for words in itertools.product(*parts, ZONES.get(row["zone"], ("",)))]
    texts = (" ".join(f"{aside} {head} {tail}".split()) for aside, head, tail in itertools.product(ASIDES, heads, TAILS))
    return [f"{text[0].upper()}{text[1:]}." for text in texts]
