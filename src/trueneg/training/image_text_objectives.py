"""Objectives of image–text training: the library's losses combined with labels and similarities of
the pairs in a batch.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import probability_name
from trueneg.data.pairs.training_split import PairData, PairIndices
from trueneg.data.scored_sentences import PROBABILITY_COLUMNS
from trueneg.errors import UserError
from trueneg.losses import CrossModalLoss, Debiased, build
from trueneg.losses.contrastive import ContrastiveTerms
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.objectives.base import PairLoss
from trueneg.store.identity import model_of
from trueneg.store.run_files import run_checksums
from trueneg.training.guides.base import UNRATED, Guide, Rated
from trueneg.training.monitors import ObjectiveTerms, agreement, marks_negatives, means


class ImageTextObjective:
    """An objective built from its settings and the training pairs.

    These settings are accepted in addition to those of :func:`trueneg.losses.build` for the names
    ``cl``, ``dcl``, ``hcl``, ``bcl``, ``remove``, ``resample``, ``reweight``, ``reco`` and ``oc``:

    =================  =============================================================================
    setting            meaning
    =================  =============================================================================
    directions         ``text``: texts are the anchors, images the negatives; ``image``; ``both``:
    mean of the two class_probability  a number, or the name of a class probability in the source,
    which gives the η of the anchor's sentence; ``{"true_share": s}``: see
                       :meth:`~trueneg.data.pairs.training_split.PairData.class_probability`. An
                       image anchor has the η of the sentence it is paired with
    a, k               η = a·p^k of the sentence's likelihood p, and its controls, in place of those
    in the source by   for ``remove``, ``resample`` and ``reweight``: similarity of
    two pairs. ``text``: that of their sentences
                       (:class:`~trueneg.training.text_similarity.TextSimilarity`), and the
                       threshold of ``remove`` is a quantile; ``labels``: 1 if their images share a
                       positive label, else 0; ``guide``
    switched_off_by    for ``cl``: a class probability; anchors at the bound of the DCL estimate
                       with this η get no gradient, and nothing is subtracted for the others
    bound_gradient     for ``dcl`` and ``hcl``: see :class:`~trueneg.losses.CrossModalLoss`
    own_report         ``left out``: the other pairs of an anchor's own report are not negatives; in
    every objective same_text          pairs whose text equals the anchor's after normalisation:
    ``exclude``: they are not negatives; ``positives``: nor are they, and the loss is the mean over
                       an anchor's positives, as for ``mode``
    mode               for ``same_sentence``: pairs whose image's report contains exactly the
                       anchor's sentence are ``left out`` of the negatives, or used as additional
                       ``positives``: the loss is then the mean over an anchor's positives, each
                       compared with the remaining negatives
    =================  =============================================================================

    ``oracle`` removes the images for which the anchor's sentence is true
    (:mod:`trueneg.data.pairs.statements`). ``oracle`` and ``same_sentence`` use the library's
    :class:`~trueneg.losses.Oracle` with the known matches between pairs. ``clip`` and ``biovil``
    are InfoNCE in both directions; the training loop adds the masked-word term of ``biovil``.

    Args:
        model: class of the objective's settings.
        settings: settings of the objective, including ``name``.
        data: the training pairs, and the source of the class probabilities and classes.
        aggregation: aggregation of the similarity.
        guide: the objective's guide, which may replace settings of the loss.

    Attributes:
        loss: the loss, whose parameters are trained with the networks.
        on_embeddings: whether to call :meth:`of_embeddings` instead of :meth:`of_similarities`.
        compares: whether the objective has negatives and the source knows which ones are false.
        marks: whether the objective marks such negatives.

    Raises:
        UserError: if the source lacks data that the objective needs, or settings are incompatible.
    """

    def __init__(
        self,
        model: type[PairLoss],
        settings: Mapping[str, Any],
        data: PairData,
        aggregation: str,
        guide: Guide | None = None,
    ):
        self._name, self._data, self._of_reports = settings["name"], data, model.MATCHES_REPORTS
        if model.NEEDS_POOLED and aggregation != "global":
            raise UserError(
                f"objective {self._name} needs a single embedding per image, but"
                f" similarity.aggregation is {aggregation!r}; set it to global."
            )
        values = model.loss_settings(settings)
        values = values if guide is None else guide.loss_settings(values)
        directions, bound_gradient = (
            values.pop("directions", "both"),
            values.pop("bound_gradient", False),
        )
        self._leaves_out_report = settings.get("own_report") == "left out"
        self._leaves_out_text = settings.get("same_text") in ("exclude", "positives")
        self._all_positives = model.averages_positives(settings)
        self._eta = self._probability(
            values.pop("class_probability", None),
            "class_probability",
            settings.get("a"),
            settings.get("k"),
        )
        self._switch = self._probability(values.pop("switched_off_by", None), "switched_off_by")
        self.loss: Any = build(values, directions=directions)
        self.loss.bound_gradient = bound_gradient
        self._debiased = CrossModalLoss(Debiased(), directions)
        estimator: Any = getattr(self.loss, "estimator", None)
        self.on_embeddings = estimator is None
        # What a report says is not an estimate of what is true, so it is not compared with the
        # truth.
        is_comparable = not (self.on_embeddings or self._of_reports)
        self.compares = is_comparable and data.knows_matches
        self.marks = self.compares and marks_negatives(self.loss)

    def of_similarities(
        self, similarity: Tensor, scale: Tensor, pairs: PairIndices, rated: Rated = UNRATED
    ) -> ObjectiveTerms:
        """Compute the loss of a batch from similarities.

        Args:
            similarity: (B, B) or, with H hard negatives in the last columns, (B, B + H) unscaled
                s(text, image).
            scale: the current logit scale.
            pairs: the batch's sentences and images.
            rated: the guide's similarities.
        """
        same = self._same_class(pairs) if self.loss.estimator.needs_labels else None
        facts = {"same_class": same, "exclude": self._excluded(pairs), **rated._asdict()}
        terms = self.loss.terms(similarity, scale, _of_batch(self._eta, pairs), **facts)
        loss, at_bound = terms.loss, terms.at_bound
        if self._switch is not None:
            loss, at_bound = self._switched_off(terms, similarity, scale, pairs)
        elif self._all_positives:
            positives = self._same_class(pairs) if self._of_reports else self._data.same_text(pairs)
            loss = self._over_positives(terms, similarity * scale, positives)
        bounded, left_out = (
            each.view(-1, len(similarity)).float().mean(0) for each in (at_bound, _removed(terms))
        )
        return ObjectiveTerms(loss, bounded, left_out, *self._truth(terms, pairs))

    def _switched_off(
        self, terms: ContrastiveTerms, similarity: Tensor, scale: Tensor, pairs: PairIndices
    ) -> tuple[Tensor, Tensor]:
        """Return the loss without the anchors that DCL would bound, and which ones these are."""
        with torch.no_grad():
            eta = _of_batch(self._switch, pairs)
            at_bound = self._debiased.terms(
                similarity, scale, eta, exclude=self._excluded(pairs)
            ).at_bound
        each = functional.softplus(terms.log_negative_mass - terms.positive[:, 0])
        # Averaged over all anchors, so that switching some off does not enlarge the steps of the
        # others.
        return each.masked_fill(at_bound, 0).mean(), at_bound

    def _over_positives(self, terms: ContrastiveTerms, logits: Tensor, positives: Tensor) -> Tensor:
        """Return the mean of −log e^p / (e^p + N·g) over each anchor's positives, with N·g over all
        non-positives.
        """
        positives = positives | torch.eye(
            *positives.shape, dtype=torch.bool, device=positives.device
        )
        masses, losses = terms.log_negative_mass.view(-1, len(logits), 1), []
        for mass, of_anchors, is_positive in zip(
            masses, *map(self._by_direction, (logits, positives)), strict=True
        ):
            each = functional.softplus(mass - of_anchors.to(mass.dtype)).masked_fill(
                ~is_positive, 0
            )
            losses.append(each.sum(1) / is_positive.sum(1))
        return torch.cat(losses).mean()

    @torch.no_grad()
    def _truth(self, terms: ContrastiveTerms, pairs: PairIndices) -> tuple[Tensor, Tensor]:
        """Return ``mask`` and ``means`` of :class:`~trueneg.training.monitors.ObjectiveTerms`, from
        the known matches.
        """
        unknown = terms.positive.new_zeros(0, len(pairs.sentences))
        if not self.compares:
            return unknown, unknown
        same, known = (self._by_direction(each) for each in self._data.matches(pairs))
        found = (
            agreement(terms, same, known) if self.marks else (),
            means(terms, same, known, self.loss.estimator.combines),
        )
        mask, compared = (
            [each.view(-1, len(pairs.sentences)).sum(0) for each in sums] for sums in found
        )
        return torch.stack(mask) if mask else unknown, torch.stack(compared)

    def _by_direction(self, matrix: Tensor) -> list[Tensor]:
        """Return a (B, B + H) text × image matrix for each direction, with one row per anchor."""
        square = matrix[:, : len(matrix)]  # hard negatives are not anchors
        return [
            matrix if direction == "text" else square.mT
            for direction in DIRECTIONS[self.loss.directions]
        ]

    def of_embeddings(self, texts: Tensor, images: Tensor, pairs: PairIndices) -> ObjectiveTerms:
        """Compute the loss from (B, D) embeddings, for ReCo and the orthogonality constraint, which
        have no bound.
        """
        none = texts.new_zeros(len(texts))
        unknown = none.new_zeros(0, len(texts))
        return ObjectiveTerms(
            self.loss(texts, images, self._excluded(pairs)), none, none, unknown, unknown
        )

    def _excluded(self, pairs: PairIndices) -> Tensor | None:
        """Return (B, B + H) bool: the pairs of a text and an image that are not negatives; None:
        every pair is.
        """
        masks = [self._data.of_own_report(pairs.images)] if self._leaves_out_report else []
        masks += [self._data.same_text(pairs)] if self._leaves_out_text else []
        return functools.reduce(torch.logical_or, masks) if masks else None

    def _same_class(self, pairs: PairIndices) -> Tensor:
        """Return (B, B) bool: image j's report contains sentence i or, in other objectives, i is
        true of j.
        """
        if self._of_reports:
            return self._data.reports_with(pairs)
        shown, labelled = self._data.matches(pairs)
        return shown & labelled

    def _probability(
        self,
        value: float | str | Mapping[str, float] | None,
        key: str,
        a: float | None = None,
        k: float | None = None,
    ) -> Tensor | float | None:
        """Return η of every training sentence for the name of a class probability; return a number
        unchanged.
        """
        if not isinstance(value, str | Mapping):
            return value
        names = self._data.class_probabilities
        if probability_name(value) not in names:
            raise UserError(
                f"objective {self._name}: {key} is {value!r}, which source {self._data.source.name}"
                " does not contain; expected a number or a name in this source"
                f" ({', '.join(names) or 'none'}; all names: {', '.join(PROBABILITY_COLUMNS)})."
            )
        return self._data.class_probability(value, a, k)


def _of_batch(eta: Tensor | float | None, pairs: PairIndices) -> Tensor | float | None:
    return eta[pairs.sentences] if isinstance(eta, Tensor) else eta


def _removed(terms: ContrastiveTerms) -> Tensor:
    """Return the share of each anchor's negatives that is left out, (A,)."""
    if not terms.removed:
        return torch.zeros_like(terms.log_negative_mass)
    shares = [
        (share, ~logits.isneginf())
        for share, logits in zip(terms.removed, terms.logits, strict=True)
    ]
    return torch.cat(
        [(share * valid).sum(1) / valid.sum(1).clamp(min=1) for share, valid in shares]
    )


def data_checksum(source: Any, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a checksum of a run's inputs: the source of pairs or texts, class probabilities,
    language model and weight files.
    """
    objective = settings["objective"]
    values = (objective.get(key) for key in ("class_probability", "switched_off_by"))
    named = [probability_name(value) for value in values if isinstance(value, str | Mapping)]
    named = [name for name in named if name in source.class_probabilities]
    parts = [
        source.checksum,
        *(
            f"{name} {source.probability_checksum(name, objective.get('a') is not None)}"
            for name in named
        ),
    ]
    model: Any = model_of(settings, "objective")
    guide = model.guide_of(objective)
    if guide is not None and guide[0].NEEDS == LANGUAGE_MODEL:
        parts.append(f"embeddings {(source.language_model or {}).get('checksum')}")
    parts += [f"{what} {checksum}" for what, checksum in run_checksums(settings).items()]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
