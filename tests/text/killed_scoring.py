"""Scores a folder's sentences slowly, for a test that kills it: `python -m tests.text.killed_scoring FOLDER`."""

import sys
import time
from pathlib import Path

from tests.text import corpus
from trueneg.text import pseudo_likelihood
from trueneg.text.scorers import PlainBert
from trueneg.text.scoring import score_sentences

original = PlainBert.log_probabilities


def slowly(self, batch):
    time.sleep(0.02)
    return original(self, batch)


if __name__ == "__main__":
    PlainBert.log_probabilities = slowly
    pseudo_likelihood.FIRST, pseudo_likelihood.SECONDS = 16, 0.05
    folder = Path(sys.argv[1])
    score_sentences(
        folder / "sentences.parquet",
        models=folder / "models.json",
        settings=corpus.SCORING,
        cache=folder / "scored",
        likelihoods=folder / "likelihoods.parquet",
    )
