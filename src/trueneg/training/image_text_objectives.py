"""Objectives of image–text training: the library's losses, with what is known of the pairs of a batch."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS, PairSource
from trueneg.errors import UserError
from trueneg.losses import ContrastiveTerms, CrossModalLoss, Debiased, build
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.training.pair_data import PairData, Pairs

ON_EMBEDDINGS = ("reco", "oc")
SYMMETRIC = ("clip", "biovil")
# What the library calls an objective whose own name says which pairs, directions or further terms it has.
IN_LIBRARY = {"clip": "cl", "biovil": "cl", "same_sentence": "oracle"}


class ObjectiveTerms(NamedTuple):
    """A batch's loss, and what happened to its pairs.

    Attributes:
        loss: scalar.
        at_bound: (B,) share of a pair's anchors (of all directions) whose estimate is at its lower bound, or that are switched
            off: their negatives get no gradient.
    """

    loss: Tensor
    at_bound: Tensor


class ImageTextObjective:
    """An objective by its settings, with what it must know of the training pairs.

    Besides what :func:`trueneg.losses.build` takes for the names ``cl``, ``dcl``, ``hcl``, ``bcl``, ``remove``, ``resample``,
    ``reweight``, ``reco`` and ``oc``:

    =================  ==========================================================================================
    setting            meaning
    =================  ==========================================================================================
    directions         ``text``: texts are the anchors, images the negatives; ``image``; ``both``: mean of the two
    class_probability  a number, or a name: the η of the anchor's sentence in the source. An image as anchor has
                       the η of the sentence that it is paired with
    by                 of ``remove``, ``resample`` and ``reweight``: how alike two pairs are. ``text``: cosine of their
                       sentences under the text encoder at initialisation; ``labels``: 1 where their images share a
                       positive label, else 0
    switched_off_by    of ``cl``: a class probability; anchors whose DCL estimate with it is at its bound get no
                       gradient, and nothing is subtracted from the others
    bound_gradient     of ``dcl`` and ``hcl``: as for :class:`~trueneg.losses.CrossModalLoss`
    mode               of ``same_sentence``: pairs whose image's report holds the anchor's very sentence are
                       ``left out`` of the negatives; or are ``positives`` besides: the loss is the mean over an
                       anchor's positives, each against the negatives that remain
    =================  ==========================================================================================

    ``oracle`` leaves out the images of which the anchor's sentence is true (:mod:`trueneg.data.pairs.statements`); it and
    ``same_sentence`` are the library's :class:`~trueneg.losses.Oracle` with what is known of the pairs. ``clip`` and ``biovil``
    are InfoNCE in both directions; the masked words of ``biovil`` are the training's affair.

    Args:
        settings: of the objective, ``name`` among them.
        source: whose class probabilities and classes are known.
        data: the training pairs.
        aggregation: of the similarity.
        text_features: (U, H) of the different sentences at initialisation, of length 1; for ``by: text``.

    Raises:
        UserError: if the source does not hold what the objective needs, or settings do not go together.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        source: PairSource,
        data: PairData,
        aggregation: str,
        text_features: Tensor | None = None,
    ):
        self._data, self._source = data, source
        self._text_features: Any = text_features
        values = dict(settings)
        self.name = values.pop("name")
        self._by, self._all_positives = values.pop("by", None), values.pop("mode", None) == "positives"
        self._refuse(aggregation)
        directions = "both" if self.name in SYMMETRIC else values.pop("directions", "text")
        bound_gradient = values.pop("bound_gradient", False)
        self._eta, self._switch = (
            self._probability(values.pop(key, None), key) for key in ("class_probability", "switched_off_by")
        )
        self._loss: Any = build({"name": IN_LIBRARY.get(self.name, self.name), **values}, directions=directions)
        if not self.on_embeddings:
            self._loss.bound_gradient = bound_gradient
        self._debiased = CrossModalLoss(Debiased(), directions)

    @property
    def on_embeddings(self) -> bool:
        """Whether :meth:`of_embeddings` is meant, in place of :meth:`of_similarities`."""
        return self.name in ON_EMBEDDINGS

    def of_similarities(self, similarity: Tensor, scale: Tensor, pairs: Pairs) -> ObjectiveTerms:
        """The loss of a batch.

        Args:
            similarity: (B, B), s(text, image), not scaled.
            scale: the present logit scale.
            pairs: what is known of the batch's sentences and images.
        """
        estimator = self._loss.estimator
        same: Any = self._same_class(pairs) if estimator.needs_labels else None
        alike = self._alike(pairs) if estimator.needs_similarity else None
        terms = self._loss.terms(similarity, scale, _of_batch(self._eta, pairs), alike, same_class=same)
        if self._switch is not None:
            with torch.no_grad():
                off = self._debiased.terms(similarity, scale, _of_batch(self._switch, pairs)).at_bound
            own = functional.softplus(terms.log_negative_mass - terms.positive[:, 0])
            # Divided by all anchors: what is switched off must not make the others' steps larger.
            terms = terms._replace(loss=own.masked_fill(off, 0).mean(), at_bound=off)
        elif self._all_positives:
            positives = same | torch.eye(len(same), dtype=torch.bool, device=same.device)
            ways = DIRECTIONS[self._loss.directions]
            by_anchor = [
                torch.cat([each if way == "text" else each.mT for way in ways]) for each in (similarity * scale, positives)
            ]
            terms = _of_all_positives(terms, *by_anchor)
        return ObjectiveTerms(terms.loss, terms.at_bound.view(-1, len(similarity)).float().mean(0))

    def of_embeddings(self, texts: Tensor, images: Tensor) -> ObjectiveTerms:
        """The loss of (B, D) embeddings: ReCo and the orthogonality constraint, which know no bound."""
        return ObjectiveTerms(self._loss(texts, images), texts.new_zeros(len(texts)))

    def _same_class(self, pairs: Pairs) -> Tensor:
        """(B, B) bool: whether image j's report holds sentence i (``same_sentence``), or i is true of it (``oracle``)."""
        data = self._data
        if self.name == "same_sentence":
            return (data.said[pairs.images] == data.text_of[pairs.sentences][:, None, None]).any(2)
        classes = data.class_of[pairs.sentences]
        return data.shown[pairs.images][:, classes.clamp(min=0)].T & (classes >= 0)[:, None]

    def _alike(self, pairs: Pairs) -> Tensor:
        """(B, B): how alike two pairs are known to be."""
        if self._by == "labels":
            positive = (self._data.labels[pairs.images] == 1).float()
            return ((positive @ positive.T) > 0).float()
        features = self._text_features[self._data.text_of[pairs.sentences]]
        return features @ features.T

    def _probability(self, given: float | str | None, key: str) -> Tensor | float | None:
        """η of every training sentence where a name is given, else the number."""
        if not isinstance(given, str):
            return given
        known = self._source.class_probabilities
        if given not in known:
            raise UserError(
                f"objective {self.name}: {key} is {given!r}, which source {self._source.name} does not hold; expected a number, "
                f"or one of those that it holds: {', '.join(known) or 'none'} (of {', '.join(PROBABILITY_COLUMNS)})."
            )
        return self._data.class_probability(given)

    def _refuse(self, aggregation: str) -> None:
        """Refuse an objective that the similarity does not go with, or that must know what the source does not."""
        if self.name in (*ON_EMBEDDINGS, "biovil") and aggregation != "global":
            raise UserError(
                f"objective {self.name}: works on one embedding an image, but similarity.aggregation is {aggregation!r}; "
                "set it to global."
            )
        if self.name == "oracle" and not self._data.shown.shape[1]:
            raise UserError(
                f"objective oracle: source {self._source.name} does not tell which sentences are true of which images; leave the "
                "objective out."
            )
        if self._by == "labels" and not self._data.labels.shape[1]:
            raise UserError(f"objective {self.name}: by is 'labels', but source {self._source.name} has none; take 'text'.")


def _of_batch(eta: Tensor | float | None, pairs: Pairs) -> Tensor | float | None:
    return eta[pairs.sentences] if isinstance(eta, Tensor) else eta


def _of_all_positives(terms: ContrastiveTerms, logits: Tensor, positives: Tensor) -> ContrastiveTerms:
    r"""The mean over each anchor's positives of :math:`-\log e^p / (e^p + N g)`, N·g over what is no positive.

    Args:
        terms: of the loss that leaves the further positives out of the negatives.
        logits: (A, B), anchors by candidates.
        positives: (A, B) bool, an anchor's own positive among them.
    """
    each = functional.softplus(terms.log_negative_mass[:, None] - logits.float()).masked_fill(~positives, 0)
    return terms._replace(loss=(each.sum(1) / positives.sum(1)).mean())


def data_checksum(source: PairSource, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """A checksum of what a run learns from: the source, and those class probabilities that its objective names."""
    values = (settings["objective"].get(key) for key in ("class_probability", "switched_off_by"))
    named = [value for value in values if value in source.class_probabilities]
    parts = [source.checksum, *(f"{name} {source.probability_checksum(name)}" for name in named)]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
