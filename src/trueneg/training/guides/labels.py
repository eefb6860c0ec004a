"""Labels as guides."""

from torch import Tensor

from trueneg.training.guides.base import Batch, Guide, Rated, rate_features


class LabelGuide(Guide):
    """Whether two images have the same class or, with several labels, the cosine of the masks of
    their positive labels.
    """

    def rate(self, batch: Batch) -> Rated:
        return rate_labels(
            *(self.run.data.labels[batch.rows[key]] for key in (self.run.SAMPLE_KEY, "images"))
        )


class SharedLabelGuide(Guide):
    """1 if two images share a positive label, otherwise 0."""

    def rate(self, batch: Batch) -> Rated:
        labels = self.run.data.labels[batch.rows["images"]]
        if labels.dim() == 1:  # one class each
            return Rated(
                rate_labels(
                    self.run.data.labels[batch.rows[self.run.SAMPLE_KEY]], labels
                ).negative_similarity
            )
        positive = (labels == 1).float()
        return Rated(((positive @ positive.T) > 0).float())


def rate_labels(anchors: Tensor, labels: Tensor) -> Rated:
    """Rate samples by (B,) and (K,) classes: 1 if equal. With (B, C) labels: the cosine of the
    masks of positive labels.
    """
    if labels.dim() == 1:
        same = (anchors[:, None] == labels).float()
        return Rated(same, same.new_ones(len(anchors)))
    rated = rate_features((labels == 1).float())
    rated.negative_similarity.fill_diagonal_(1)  # even without positive labels
    return rated
