"""A language model's sentence embeddings as the guide."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trueneg.training.guides.base import Guide, GuideBatch, Rated
from trueneg.training.text_similarity import SAMPLE, TextSimilarity, embeddings_of

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class SentenceGuide(Guide):
    """Similarity of sentences (:class:`~trueneg.training.text_similarity.TextSimilarity`); the
    loss's threshold is a quantile.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        data = run.data
        drawn = data.epoch(run.training.get("unit"), run.generator("similarity of texts"))
        embeddings = embeddings_of(data.source, data.texts, run.device)
        self._threshold: float | None = None
        self.similarity = TextSimilarity(
            embeddings, data.text_of, drawn.anchors[:SAMPLE].to(run.device)
        )

    def rate(self, batch: GuideBatch) -> Rated:
        texts: Any = batch.texts
        return Rated(self.similarity(*texts))

    def loss_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        if "threshold" not in settings:
            return settings
        threshold = self.similarity.threshold(settings["threshold"])
        self._threshold = threshold
        return settings | {"threshold": threshold}

    def measured(self) -> dict[str, float]:
        return {} if self._threshold is None else {"similarity threshold": self._threshold}
