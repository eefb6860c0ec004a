"""Score a folder's sentences, and wait after three chunks to be killed: `python -m
tests.text.killed_scoring FOLDER`.
"""

import sys
import time
from pathlib import Path

from tests.text import corpus
from trueneg.text import chunks, pseudo_likelihood
from trueneg.text.scorers import PlainBert
from trueneg.text.scoring import score_sentences

original = PlainBert.log_probabilities


def until_three_chunks(self, batch):
    time.sleep(0.02)
    while len(list(Path(sys.argv[1]).glob("scored/*/[!.]*.parquet"))) >= 3:
        time.sleep(1)
    return original(self, batch)


if __name__ == "__main__":
    PlainBert.log_probabilities = until_three_chunks
    pseudo_likelihood.PART, chunks.FLUSH = 16, 0.05
    folder = Path(sys.argv[1])
    score_sentences(
        folder / "sentences.parquet",
        models=folder / "models.json",
        settings=corpus.SCORING,
        cache=folder / "scored",
        likelihoods=folder / "likelihoods.parquet",
    )
