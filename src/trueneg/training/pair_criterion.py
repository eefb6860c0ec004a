"""The loss of a batch of pairs: one of the library's losses, combined with what is known of the
pairs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import probability_name
from trueneg.data.pairs.training_split import PairBatch, PairData
from trueneg.data.scored_sentences import PROBABILITY_COLUMNS
from trueneg.data.texts.training_split import TextData
from trueneg.errors import UserError
from trueneg.losses import CrossModalLoss, Debiased, build
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.losses.estimator_loss import ContrastiveTerms
from trueneg.specs.objectives.base import PairLoss
from trueneg.training.guides.base import UNRATED, Guide, Rated
from trueneg.training.monitors import ObjectiveTerms, agreement, marks_negatives, means


class PairCriterion:
    """An objective built from its settings and the training pairs.

    Its settings are documented by their classes in :mod:`trueneg.specs.objectives`. Those that
    concern the pairs, and not the loss, are applied here:

    =================  =============================================================================
    setting            meaning
    =================  =============================================================================
    directions         ``text``: the anchors of the pairs (texts) are those of the loss; ``image``:
                       the positives are; ``both``: mean of the two
    class_probability  a number, or the name of a class probability in the source, which gives the η
                       of the anchor, and of the positive that it is paired with;
                       ``{"true_share": s}``: see
                       :meth:`~trueneg.data.pairs.training_split.PairData.class_probability`
    a, k               η = a·p^k of the text's likelihood p, in place of those in the source
    switched_off_by    a class probability: anchors at the bound of the DCL estimate with this η get
                       no gradient, and nothing is subtracted for the others
    own_report         ``left out``: the other pairs of an anchor's own report are not negatives
    same_text          pairs whose text equals the anchor's after normalisation: ``exclude``: they
                       are not negatives; ``known``: nor are the anchor's positives in other given
                       pairs; ``positives``: as ``exclude``, and the loss is the mean over an
                       anchor's positives
    mode               of ``same_sentence``: pairs whose image's report contains exactly the
                       anchor's sentence are ``left out``, or used as additional ``positives``
    =================  =============================================================================

    Estimators that need labels, such as ``oracle``, get the known matches between pairs.

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
        data: PairData | TextData,
        aggregation: str,
        guide: Guide | None = None,
    ):
        self._name = settings["name"]
        self._data = data
        self._of_reports = model.MATCHES_REPORTS
        if model.NEEDS_POOLED and aggregation != "global":
            raise UserError(
                f"objective {self._name} needs a single embedding per image, but"
                f" similarity.aggregation is {aggregation!r}; set it to global."
            )
        values = model.loss_settings(settings)
        values = values if guide is None else guide.loss_settings(values)
        directions = values.pop("directions", "both")
        bound_gradient = values.pop("bound_gradient", False)
        self._leaves_out_report = settings.get("own_report") == "left out"
        self._same_text = settings.get("same_text") or "keep"
        self._in_batch = (settings.get("hard_negatives") or {"in_batch": True})["in_batch"]
        self._has_unused = data.has_unused
        self._all_positives = model.averages_positives(settings)
        self._eta = self._probability(
            values.pop("class_probability", None),
            "class_probability",
            settings.get("a"),
            settings.get("k"),
        )
        self._switch = self._probability(values.pop("switched_off_by", None), "switched_off_by")
        self.loss: Any = build(values, directions=directions, samples=data.samples)
        self.loss.bound_gradient = bound_gradient
        self.loss.keeps_averages = False  # several similarities of the same pairs share one
        self._debiased = CrossModalLoss(Debiased(), directions)
        estimator: Any = getattr(self.loss, "estimator", None)
        self.on_embeddings = estimator is None
        # What a report says is not an estimate of what is true, so it is not compared with the
        # truth.
        is_comparable = not (self.on_embeddings or self._of_reports)
        self.compares = is_comparable and data.knows_matches
        self.marks = self.compares and marks_negatives(self.loss)

    def of_similarities(
        self,
        similarities: Sequence[Tensor],
        scale: Tensor,
        pairs: PairBatch,
        index: Tensor,
        rated: Rated = UNRATED,
    ) -> ObjectiveTerms:
        """Compute the loss of a batch from similarities, and its mean if there are several of the
        same pairs.

        Args:
            similarities: (B, K) unscaled similarities of anchors and columns.
            scale: the current logit scale.
            pairs: the batch.
            index: (B,) numbers of the pairs' samples, for losses that remember them.
            rated: the guide's similarities.
        """
        kept = self._kept_columns(pairs)
        owners = pairs.owners[kept]
        excluded = self._excluded(pairs)
        excluded = None if excluded is None else excluded[:, kept]
        pairs = pairs._replace(columns=pairs.columns[kept])
        similarities = [similarity[:, kept] for similarity in similarities]
        rated = rated._replace(negative_similarity=_kept(rated.negative_similarity, kept))
        facts = {
            "class_probability": _of_batch(self._eta, pairs),
            "same_class": self._same_class(pairs) if self.loss.estimator.needs_labels else None,
            "exclude": excluded,
            "index": index,
            "owners": owners[len(pairs.anchors) :],
            "unused": "ignore",
            **rated._asdict(),
        }
        found = [self.loss.terms(similarity, scale, **facts) for similarity in similarities]
        self.loss.keep(index, *found)
        several = [
            self._of_terms(terms, similarity, scale, pairs, excluded)
            for terms, similarity in zip(found, similarities, strict=True)
        ]
        return ObjectiveTerms(
            *(torch.stack(values).mean(0) for values in zip(*several, strict=True))
        )

    def _of_terms(
        self,
        terms: ContrastiveTerms,
        similarity: Tensor,
        scale: Tensor,
        pairs: PairBatch,
        excluded: Tensor | None,
    ) -> ObjectiveTerms:
        """Return the objective's terms from those of its loss."""
        loss = terms.loss
        at_bound = terms.at_bound
        if self._switch is not None:
            eta = _of_batch(self._switch, pairs)
            at_bound = self._at_bound(similarity, scale, eta, excluded)
            loss = self._switched_off(terms, at_bound)
        elif self._all_positives:
            positives = self._same_class(pairs) if self._of_reports else self._data.same_text(pairs)
            loss = self._over_positives(terms, similarity * scale, positives)
        of_pairs = len(similarity)
        return ObjectiveTerms(
            loss,
            at_bound.view(-1, of_pairs).float().mean(0),
            terms.share_removed().view(-1, of_pairs).float().mean(0),
            *self._truth(terms, pairs),
        )

    @torch.no_grad()
    def _at_bound(
        self,
        similarity: Tensor,
        scale: Tensor,
        eta: Tensor | float | None,
        excluded: Tensor | None,
    ) -> Tensor:
        """Return which anchors DCL with this η would bound."""
        terms = self._debiased.terms(
            similarity, scale, exclude=excluded, class_probability=eta, unused="ignore"
        )
        return terms.at_bound

    def _switched_off(self, terms: ContrastiveTerms, at_bound: Tensor) -> Tensor:
        """Return the mean over all anchors of the loss without those at the bound, so that
        switching some off does not enlarge the steps of the others.
        """
        each = functional.softplus(terms.log_negative_mass - terms.positive[:, 0])
        return each.masked_fill(at_bound, 0).mean()

    def _over_positives(self, terms: ContrastiveTerms, logits: Tensor, positives: Tensor) -> Tensor:
        """Return the mean of −log e^p / (e^p + N·g) over each anchor's positives, with N·g over all
        non-positives.
        """
        positives = positives | torch.eye(
            *positives.shape, dtype=torch.bool, device=positives.device
        )
        masses = terms.log_negative_mass.view(-1, len(logits), 1)
        by_direction = zip(
            masses, self._by_direction(logits), self._by_direction(positives), strict=True
        )
        losses = []
        for mass, of_anchors, is_positive in by_direction:
            each = functional.softplus(mass - of_anchors.to(mass.dtype))
            losses.append(each.masked_fill(~is_positive, 0).sum(1) / is_positive.sum(1))
        return torch.cat(losses).mean()

    @torch.no_grad()
    def _truth(self, terms: ContrastiveTerms, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """Return ``mask`` and ``means`` of :class:`~trueneg.training.monitors.ObjectiveTerms`, from
        the known matches.
        """
        unknown = terms.positive.new_zeros(0, len(pairs.anchors))
        if not self.compares:
            return unknown, unknown
        same, known = (self._by_direction(each) for each in self._data.matches(pairs))
        compared = means(terms, same, known, self.loss.estimator.combines)
        mask = agreement(terms, same, known) if self.marks else compared[:0]
        # over the directions
        by_pair = (each.unflatten(1, (-1, len(pairs.anchors))).sum(1) for each in (mask, compared))
        return tuple(by_pair)

    def _by_direction(self, matrix: Tensor) -> list[Tensor]:
        """Return a (B, K) matrix of anchors and columns for each direction, with one row per anchor
        of the loss.
        """
        square = matrix[:, : len(matrix)]  # hard negatives are not anchors
        return [
            matrix if direction == "text" else square.mT
            for direction in DIRECTIONS[self.loss.directions]
        ]

    def of_embeddings(self, anchors: Tensor, columns: Tensor, pairs: PairBatch) -> ObjectiveTerms:
        """Compute the loss from (B, D) embeddings, for ReCo and the orthogonality constraint, which
        have no bound.
        """
        none = anchors.new_zeros(len(anchors))
        unknown = none.new_zeros(0, len(anchors))
        loss = self.loss(anchors, columns, self._excluded(pairs))
        return ObjectiveTerms(loss, none, none, unknown, unknown)

    def _kept_columns(self, pairs: PairBatch) -> Tensor | slice:
        """Return which columns to compare: not those that stand for missing hard negatives, which
        would otherwise attract as texts of the anchor's class. A loss whose negatives are the hard
        ones alone keeps them, as columns left out, if there are no others.
        """
        if not self._has_unused:
            return slice(None)
        is_kept = ~self._data.is_missing(pairs)
        is_without = self.loss.negatives == "hard" and not is_kept[len(pairs.anchors) :].any()
        return slice(None) if is_without else is_kept

    def _excluded(self, pairs: PairBatch) -> Tensor | None:
        """Return (B, K) bool: the columns that are not negatives of an anchor; None: all are."""
        excluded = None
        if self._leaves_out_report:
            data: Any = self._data  # texts have no reports, so no setting leaves them out
            excluded = data.of_own_report(pairs)
        if self._same_text != "keep":
            is_known = self._same_text == "known"
            same = (self._data.known_positives if is_known else self._data.same_text)(pairs)
            excluded = same if excluded is None else excluded | same
        if self._has_unused:
            unused = self._unused_columns(pairs)
            excluded = unused if excluded is None else excluded | unused
        return excluded

    def _unused_columns(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: the columns that stand for missing hard negatives, and those of other
        anchors if only an anchor's own hard negatives count.
        """
        count = len(pairs.anchors)
        is_unused = self._data.unused(pairs)
        if self._in_batch:
            return is_unused
        owners = pairs.owners
        return is_unused | (owners != owners[:count, None])

    def _same_class(self, pairs: PairBatch) -> Tensor:
        """Return (B, K) bool: whether column j has the class of anchor i or, if the objective
        compares reports, its report contains the anchor.
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


def _kept(
    rated: Tensor | tuple[Tensor, Tensor] | None, kept: Tensor | slice
) -> Tensor | tuple[Tensor, Tensor] | None:
    """Return a guide's similarities of the kept columns; of a pair, the second has none of them."""
    if isinstance(rated, tuple):
        return rated[0][:, kept], rated[1]
    return rated if rated is None else rated[:, kept]


def _of_batch(eta: Tensor | float | None, pairs: PairBatch) -> Tensor | float | None:
    return eta[pairs.anchors] if isinstance(eta, Tensor) else eta
