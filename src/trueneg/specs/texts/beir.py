"""Queries, a corpus, and which of its texts answer them."""

from typing import ClassVar, Literal

from trueneg.specs.settings import Boolean, PathText, Settings, SkipIncomplete, Technical
from trueneg.specs.texts.base import TextPairSettings


class BeirFolder(Settings):
    """A folder as BEIR has it: corpus.jsonl, queries.jsonl, and qrels/*.tsv or qrels.tsv."""

    source: Literal["beir"]
    path: Technical[PathText]
    """the folder"""
    splits: Literal["official", "drawn"] = "official"
    """official: qrels/train.tsv, test.tsv and, if there is one, dev.tsv; drawn: each seed draws
    splits of all queries
    """
    candidates: Literal["corpus", "judged"] = "corpus"
    """what retrieval searches: corpus: all texts, which every encoder must then embed; judged:
    those in qrels
    """
    restricted: Boolean = False
    """true: texts are never shown, and only you can read their files"""
    skip_incomplete: SkipIncomplete = False
    """true: leave out and count texts without an id or a text, queries without a right answer and
    judgements of unknown ids, up to a tenth of each file; a number or a share: at most this many;
    false: refuse them
    """


class BeirSettings(BeirFolder, TextPairSettings):
    """A folder as BEIR has it; texts of the corpus with a score above 0 are right answers."""

    labelled: ClassVar[bool] = False

    positives: Literal["given"] = "given"

    @property
    def tested(self) -> bool:
        """Whether the test queries are the official ones."""
        return self.splits == "official"
