"""Labels as guides."""

from torch import Tensor
from torch.nn import functional

from trueneg.training.guides.base import Guide, GuideBatch, Rated


class LabelGuide(Guide):
    """Whether two images have the same class or, with several labels, the cosine of the masks of
    their positive labels.
    """

    def rate(self, batch: GuideBatch) -> Rated:
        anchors, columns = batch.samples
        return rate_labels(self.run.data.labels[anchors], self.run.data.labels[columns])


class SharedLabelGuide(Guide):
    """1 if two images share a positive label, otherwise 0."""

    def rate(self, batch: GuideBatch) -> Rated:
        anchors, columns = batch.samples
        labels = self.run.data.labels
        if labels.dim() == 1:  # one class each
            return Rated(rate_labels(labels[anchors], labels[columns]).negative_similarity)
        first, second = ((labels[rows] == 1).float() for rows in (anchors, columns))
        return Rated((first @ second.T > 0).float())


def rate_labels(anchors: Tensor, labels: Tensor) -> Rated:
    """Rate samples by (B,) and (K,) classes: 1 if equal. With (B, C) labels: the cosine of the
    masks of positive labels.
    """
    if labels.dim() == 1:
        same = (anchors[:, None] == labels).float()
        return Rated(same, same.new_ones(len(anchors)))
    units = [functional.normalize((each == 1).float(), dim=-1) for each in (anchors, labels)]
    similarity = (units[0] @ units[1].mT).clamp(max=1)  # rounding can make a cosine exceed 1
    similarity.fill_diagonal_(1)  # even without positive labels
    return Rated(similarity, similarity.new_ones(len(anchors)))
