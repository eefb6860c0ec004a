"""Objectives of image–text training: the library's losses combined with labels and similarities of the pairs in a batch."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS, PairSource
from trueneg.errors import UserError
from trueneg.losses import CrossModalLoss, Debiased, build
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.store.run_files import run_checksums
from trueneg.training.guides import UNRATED, Rated
from trueneg.training.monitors import ObjectiveTerms, agreement, marks_negatives
from trueneg.training.pair_data import PairData, PairIndices

ON_EMBEDDINGS = ("reco", "oc")
# Library names of objectives whose own names imply specific pairs, directions or additional terms.
IN_LIBRARY = {"clip": "cl", "biovil": "cl", "same_sentence": "oracle"}


class ImageTextObjective:
    """An objective built from its settings and the training pairs.

    These settings are accepted in addition to those of :func:`trueneg.losses.build` for the names ``cl``, ``dcl``, ``hcl``,
    ``bcl``, ``remove``, ``resample``, ``reweight``, ``reco`` and ``oc``:

    =================  ==========================================================================================
    setting            meaning
    =================  ==========================================================================================
    directions         ``text``: texts are the anchors, images the negatives; ``image``; ``both``: mean of the two
    class_probability  a number, or the name of a class probability in the source, which gives the η of the anchor's
                       sentence. An image anchor has the η of the sentence it is paired with
    by                 for ``remove``, ``resample`` and ``reweight``: similarity of two pairs. ``text``: that of their
                       sentences (:class:`~trueneg.training.text_similarity.TextSimilarity`), and the threshold of
                       ``remove`` is a quantile; ``labels``: 1 if their images share a positive label, else 0; ``guide``
    switched_off_by    for ``cl``: a class probability; anchors at the bound of the DCL estimate with this η get no
                       gradient, and nothing is subtracted for the others
    bound_gradient     for ``dcl`` and ``hcl``: see :class:`~trueneg.losses.CrossModalLoss`
    mode               for ``same_sentence``: pairs whose image's report contains exactly the anchor's sentence are
                       ``left out`` of the negatives, or used as additional ``positives``: the loss is then the mean
                       over an anchor's positives, each compared with the remaining negatives
    =================  ==========================================================================================

    ``oracle`` removes the images for which the anchor's sentence is true (:mod:`trueneg.data.pairs.statements`). ``oracle`` and
    ``same_sentence`` use the library's :class:`~trueneg.losses.Oracle` with the known matches between pairs. ``clip`` and
    ``biovil`` are InfoNCE in both directions; the training loop adds the masked-word term of ``biovil``.

    Args:
        settings: settings of the objective, including ``name``.
        source: source of the class probabilities and classes.
        data: the training pairs.
        aggregation: aggregation of the similarity.
        texts: :class:`~trueneg.training.text_similarity.TextSimilarity` of the training sentences; for ``by: text``.

    Attributes:
        on_embeddings: whether to call :meth:`of_embeddings` instead of :meth:`of_similarities`.
        marks: whether the objective marks negatives as false and the source knows which ones are.
        measured: values for each epoch's row: the similarity threshold, if the setting is a quantile.

    Raises:
        UserError: if the source lacks data that the objective needs, or settings are incompatible.
    """

    def __init__(self, settings: Mapping[str, Any], source: PairSource, data: PairData, aggregation: str, texts: Any = None):
        values = dict(settings)
        self.name = values.pop("name")
        if self.name in (*ON_EMBEDDINGS, "biovil") and aggregation != "global":
            raise UserError(
                f"objective {self.name} needs a single embedding per image, but similarity.aggregation is {aggregation!r}; "
                "set it to global."
            )
        self._data, self._source, self._text_similarity = data, source, texts
        self.measured: dict[str, float] = {}
        if texts is not None and "threshold" in values:
            values["threshold"] = self.measured["similarity threshold"] = texts.threshold(values["threshold"])
        self._by, self._all_positives = values.pop("by", None), values.pop("mode", None) == "positives"
        values.pop("guide", None)
        self.marks = marks_negatives(settings) and bool(data.shown.shape[1])
        needs, facts = ("known matches", data.shown) if self.name == "oracle" else ("labels", data.labels)
        if (self.name == "oracle" or self._by == "labels") and not facts.shape[1]:
            raise UserError(
                f"objective {self.name} needs {needs} of the images, but source {source.name} has none; remove this objective."
            )
        directions, bound_gradient = values.pop("directions", "both"), values.pop("bound_gradient", False)
        self._eta, self._switch = (
            self._probability(values.pop(key, None), key) for key in ("class_probability", "switched_off_by")
        )
        self._loss: Any = build({"name": IN_LIBRARY.get(self.name, self.name), **values}, directions=directions)
        self._loss.bound_gradient = bound_gradient
        self._debiased = CrossModalLoss(Debiased(), directions)
        self.on_embeddings = self.name in ON_EMBEDDINGS

    def of_similarities(self, similarity: Tensor, scale: Tensor, pairs: PairIndices, rated: Rated = UNRATED) -> ObjectiveTerms:
        """Compute the loss of a batch from similarities.

        Args:
            similarity: (B, B) unscaled s(text, image).
            scale: the current logit scale.
            pairs: the batch's sentences and images.
            rated: the guide's similarities.
        """
        estimator = self._loss.estimator
        same: Any = self._same_class(pairs) if estimator.needs_labels else None
        if estimator.needs_similarity and self._by in ("text", "labels"):
            rated = rated._replace(negative_similarity=self._alike(pairs))
        terms = self._loss.terms(similarity, scale, _of_batch(self._eta, pairs), same_class=same, **rated._asdict())
        removed = torch.zeros_like(terms.log_negative_mass)
        if terms.removed:
            shares = [(share, ~logits.isneginf()) for share, logits in zip(terms.removed, terms.logits, strict=True)]
            removed = torch.cat([(share * valid).sum(1) / valid.sum(1) for share, valid in shares])
        mask = similarity.new_zeros(0, len(similarity))
        if self.marks:
            marks = agreement(terms, *(self._by_direction(each) for each in self._shown(pairs)))
            mask = torch.stack([each.view(-1, len(similarity)).sum(0) for each in marks])
        loss, at_bound = terms.loss, terms.at_bound
        if self._switch is not None:
            with torch.no_grad():
                at_bound = self._debiased.terms(similarity, scale, _of_batch(self._switch, pairs)).at_bound
            each = functional.softplus(terms.log_negative_mass - terms.positive[:, 0])
            # Averaged over all anchors, so that switching some off does not enlarge the steps of the others.
            loss = each.masked_fill(at_bound, 0).mean()
        elif self._all_positives:
            # The mean of −log e^p / (e^p + N·g) over each anchor's positives, with N·g over all non-positives.
            positives = same | torch.eye(len(same), dtype=torch.bool, device=same.device)
            logits, positives = (torch.cat(self._by_direction(each)) for each in (similarity * scale, positives))
            each = functional.softplus(terms.log_negative_mass[:, None] - logits.float()).masked_fill(~positives, 0)
            loss = (each.sum(1) / positives.sum(1)).mean()
        bounded, left_out = (each.view(-1, len(similarity)).float().mean(0) for each in (at_bound, removed))
        return ObjectiveTerms(loss, bounded, left_out, mask)

    def _by_direction(self, matrix: Tensor) -> list[Tensor]:
        """Return a (B, B) text × image matrix for each direction, with one row per anchor."""
        return [matrix if direction == "text" else matrix.mT for direction in DIRECTIONS[self._loss.directions]]

    def of_embeddings(self, texts: Tensor, images: Tensor) -> ObjectiveTerms:
        """Compute the loss from (B, D) embeddings, for ReCo and the orthogonality constraint, which have no bound."""
        none = texts.new_zeros(len(texts))
        return ObjectiveTerms(self._loss(texts, images), none, none, none.new_zeros(0, len(texts)))

    def _same_class(self, pairs: PairIndices) -> Tensor:
        """Return (B, B) bool: image j's report contains sentence i (``same_sentence``), or i is true of j (``oracle``)."""
        data = self._data
        if self.name == "same_sentence":
            return (data.said[pairs.images] == data.text_of[pairs.sentences][:, None, None]).any(2)
        shown, labelled = self._shown(pairs)
        return shown & labelled

    def _shown(self, pairs: PairIndices) -> tuple[Tensor, Tensor]:
        """Return (B, B) bools: whether sentence i is true of image j, and whether it is known."""
        classes = self._data.class_of[pairs.sentences]
        shown = self._data.shown[pairs.images][:, classes.clamp(min=0)].T
        return shown, (classes >= 0)[:, None].expand_as(shown)

    def _alike(self, pairs: PairIndices) -> Tensor:
        """Return the known similarity between pairs, shape (B, B)."""
        if self._by == "labels":
            positive = (self._data.labels[pairs.images] == 1).float()
            return ((positive @ positive.T) > 0).float()
        return self._text_similarity(pairs.sentences)

    def _probability(self, value: float | str | None, key: str) -> Tensor | float | None:
        """Return η of every training sentence for the name of a class probability; return a number unchanged."""
        if not isinstance(value, str):
            return value
        names = self._source.class_probabilities
        if value not in names:
            raise UserError(
                f"objective {self.name}: {key} is {value!r}, which source {self._source.name} does not contain; expected a "
                f"number or a name in this source ({', '.join(names) or 'none'}; all names: {', '.join(PROBABILITY_COLUMNS)})."
            )
        return self._data.class_probability(value)


def _of_batch(eta: Tensor | float | None, pairs: PairIndices) -> Tensor | float | None:
    return eta[pairs.sentences] if isinstance(eta, Tensor) else eta


def data_checksum(source: PairSource, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a checksum of a run's inputs: the source, class probabilities, language model and weight files."""
    objective = settings["objective"]
    values = (objective.get(key) for key in ("class_probability", "switched_off_by"))
    named = [value for value in values if value in source.class_probabilities]
    parts = [source.checksum, *(f"{name} {source.probability_checksum(name)}" for name in named)]
    if objective.get("by") == "text":
        parts.append(f"embeddings {(source.language_model or {}).get('checksum')}")
    parts += [f"{what} {checksum}" for what, checksum in run_checksums(settings).items()]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
