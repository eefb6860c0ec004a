"""Objectives of image–text training: from the similarities of a batch, and what is known of its pairs, to a loss."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS, PairSource
from trueneg.errors import UserError
from trueneg.losses import ContrastiveTerms, CrossModalLoss, Debiased, Estimator, Removed, Uncorrected, build
from trueneg.training.pair_data import PairData, Pairs

DIRECTIONS = {"text": ("text",), "image": ("image",), "both": ("text", "image")}
ON_EMBEDDINGS = ("reco", "oc")
SYMMETRIC = ("clip", "biovil")
WITH_SIMILARITY = ("remove", "resample", "reweight")
LEFT_OUT, POSITIVES = "left out", "positives"


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

    ``oracle`` leaves out the images of which the anchor's sentence is true (:mod:`trueneg.data.pairs.statements`). ``clip`` and
    ``biovil`` are InfoNCE in both directions; the masked words of ``biovil`` are the training's affair.

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
        self._data, self._source, self._text_features = data, source, text_features
        values = dict(settings)
        self.name = values.pop("name")
        self._directions = DIRECTIONS["both" if self.name in SYMMETRIC else values.pop("directions", "text")]
        self._by, self._mode = values.pop("by", None), values.pop("mode", LEFT_OUT)
        bound_gradient = values.pop("bound_gradient", False)
        self._switch, number = self._probability(values.pop("switched_off_by", None), "switched_off_by")
        switch = None if self._switch is None and number is None else Debiased(number)
        if "class_probability" in values:
            self._eta, values["class_probability"] = self._probability(values["class_probability"], "class_probability")
        else:
            self._eta = None
        self._refuse(values, aggregation)
        self._embedding_loss = build({"name": self.name, **values}) if self.name in ON_EMBEDDINGS else None
        self._loss = (
            None
            if self.name in ON_EMBEDDINGS
            else CrossModalLoss(self._estimator(values), directions="text", bound_gradient=bound_gradient)
        )
        self._switch_loss = None if switch is None else CrossModalLoss(switch, directions="text")

    @property
    def on_embeddings(self) -> bool:
        """Whether :meth:`of_embeddings` is meant, in place of :meth:`of_similarities`."""
        return self._embedding_loss is not None

    @staticmethod
    def needs_text_features(settings: Mapping[str, Any]) -> bool:
        """Whether an objective wants the sentences under the text encoder at initialisation."""
        return settings["name"] in WITH_SIMILARITY and settings["by"] == "text"

    def of_similarities(self, similarity: Tensor, scale: Tensor, pairs: Pairs) -> ObjectiveTerms:
        """The loss of a batch.

        Args:
            similarity: (B, B), s(text, image), not scaled.
            scale: the present logit scale.
            pairs: what is known of the batch's sentences and images.
        """
        relation, losses, bounds = self._relation(pairs), [], []
        for direction in self._directions:
            turned = direction == "image"
            matrix = similarity.mT if turned else similarity
            known = relation if relation is None or not turned else relation.mT
            eta = None if self._eta is None else self._eta[pairs.sentences]
            terms = self._loss.terms(matrix, scale, eta, known)
            if self._switch_loss is not None:
                terms = self._switched(terms, matrix, scale, pairs)
            elif self.name == "same_sentence" and self._mode == POSITIVES:
                terms = _of_all_positives(terms, matrix * scale, known > 0)
            losses.append(terms.loss)
            bounds.append(terms.at_bound)
        return ObjectiveTerms(torch.stack(losses).mean(), torch.stack(bounds).float().mean(0))

    def of_embeddings(self, texts: Tensor, images: Tensor) -> ObjectiveTerms:
        """The loss of (B, D) embeddings: ReCo and the orthogonality constraint, which know no bound."""
        return ObjectiveTerms(self._embedding_loss(texts, images), texts.new_zeros(len(texts)))

    def _switched(self, terms: ContrastiveTerms, matrix: Tensor, scale: Tensor, pairs: Pairs) -> ContrastiveTerms:
        with torch.no_grad():
            eta = None if self._switch is None else self._switch[pairs.sentences]
            off = self._switch_loss.terms(matrix, scale, eta).at_bound
        own = functional.softplus(terms.log_negative_mass - terms.positive[:, 0])
        # Divided by all anchors: what is switched off must not make the others' steps larger.
        return terms._replace(loss=own.masked_fill(off, 0).mean(), at_bound=off)

    def _relation(self, pairs: Pairs) -> Tensor | None:
        """(B, B): what the estimator must know of text i and image j; not symmetric for ``oracle`` and ``same_sentence``."""
        data = self._data
        if self.name == "oracle":
            classes = data.class_of[pairs.sentences]
            true = data.shown[pairs.images][:, classes.clamp(min=0)].T
            return (true & (classes >= 0)[:, None]).float()
        if self.name == "same_sentence":
            texts = data.text_of[pairs.sentences]
            return (data.said[pairs.images][None] == texts[:, None, None]).any(2).float()
        if self.name not in WITH_SIMILARITY:
            return None
        if self._by == "labels":
            positive = (data.labels[pairs.images] == 1).float()
            return ((positive @ positive.T) > 0).float()
        features = self._text_features[data.text_of[pairs.sentences]]
        return features @ features.T

    def _estimator(self, values: dict[str, Any]) -> Estimator:
        if self.name in SYMMETRIC:
            return Uncorrected()
        if self.name in ("oracle", "same_sentence"):
            return Removed(0.5)  # of the relation of 0 and 1
        return build({"name": self.name, **values}, directions="text").estimator

    def _probability(self, given: float | str | None, key: str) -> tuple[Tensor | None, float | None]:
        """η of every training sentence where a name is given, else the number."""
        if given is None or not isinstance(given, str):
            return None, given
        known = self._source.class_probabilities
        if given not in known:
            raise UserError(
                f"objective {self.name}: {key} is {given!r}, which source {self._source.name} does not hold; expected a number, "
                f"or one of those that it holds: {', '.join(known) or 'none'} (of {', '.join(PROBABILITY_COLUMNS)})."
            )
        return self._data.class_probability(given), None

    def _refuse(self, values: Mapping[str, Any], aggregation: str) -> None:
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
        if self.name in WITH_SIMILARITY and self._by == "labels" and not self._data.labels.shape[1]:
            raise UserError(f"objective {self.name}: by is 'labels', but source {self._source.name} has none; take 'text'.")
        if self.name in ("oracle", "same_sentence", *SYMMETRIC) and values:
            raise UserError(f"objective {self.name}: has no setting {', '.join(sorted(values))}.")


def _of_all_positives(terms: ContrastiveTerms, logits: Tensor, same: Tensor) -> ContrastiveTerms:
    r"""The mean over each anchor's positives of :math:`-\log e^p / (e^p + N g)`, N·g over what is no positive.

    Args:
        terms: of the loss that leaves the further positives out of the negatives.
        logits: (B, B), anchors by candidates.
        same: (B, B) bool, which candidates are positives besides an anchor's own.
    """
    positives = same | torch.eye(len(same), dtype=torch.bool, device=same.device)
    each = functional.softplus(terms.log_negative_mass[:, None] - logits.float()).masked_fill(~positives, 0)
    return terms._replace(loss=(each.sum(1) / positives.sum(1)).mean())


def data_checksum(source: PairSource, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """A checksum of what a run learns from: the source, and those class probabilities that its objective names."""
    values = (settings["objective"].get(key) for key in ("class_probability", "switched_off_by"))
    named = [value for value in values if value in source.class_probabilities]
    parts = [source.checksum, *(f"{name} {source.probability_checksum(name)}" for name in named)]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
