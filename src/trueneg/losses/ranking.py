"""Loss for sentence-transformers: texts with positives and hard negatives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.base import AnchorCriterion
from trueneg.losses.checks import (
    check_tensors,
    checked_choice,
    checked_count,
    checked_positive,
    checked_shape,
)
from trueneg.losses.cross_modal import CrossModalLoss
from trueneg.losses.execution import (
    gathered,
    gathered_rows,
    in_evaluation_mode,
    outside_autocast,
)
from trueneg.losses.facts import UNUSED, SampleFacts, padded
from trueneg.losses.sentences import (
    Features,
    GuideVectors,
    decoder_of,
    embedded,
    ids_without_padding,
    token_ids,
    tokeniser_of,
)

CONTRASTS = ("documents", "joint", "symmetric")
FACTS = ("class_probability", "group", "index", "sampling_probability")  # columns of a data set


class RankingLoss(CrossModalLoss):
    r"""Loss for the sentence-transformers trainer; replaces ``MultipleNegativesRankingLoss`` or
    ``GISTEmbedLoss``.

    .. math:: L = \frac{1}{B} \sum_i -\log \frac{e^{p_i}}{e^{p_i} + N g_i},\qquad
              p_i = \gamma \cos(a_i, c_i),\quad u_{ij} = \gamma \cos(a_i, c_j)

    The first column of a batch holds the anchors a, the second their positives, and any others hard
    negatives. The candidates c are the texts of all columns but the first, and an anchor's
    negatives are all candidates but its positive.

    With ``contrast="joint"``, the N negatives of pair i are those above, the other anchors, and,
    for its positive, the candidates of the other pairs, as in Qwen3-Embedding (Zhang et al., 2025),
    but not, as in GTE (Li et al., 2023), the other anchors:

    .. math:: \{u\}_i = \{\gamma \cos(a_i, c_j)\}_{j \ne i} \cup \{\gamma \cos(a_i, a_j)\}_{j \ne i}
              \cup \{\gamma \cos(c_i, c_j)\}_{j \text{ of another pair}}

    The estimator sees one set of negatives. Each added one has the class of its text, and the guide
    rates its two texts; the threshold stays the similarity of the anchor and its positive, and so
    do the draws from which η is subtracted.

    With ``contrast="symmetric"``, the loss is the mean of that of the anchors, as above, and that
    of the positives, whose negatives are the other anchors.

    ``Uncorrected()`` without ``same_text`` is ``MultipleNegativesRankingLoss``: InfoNCE (Oord et
    al., 2018); with a symmetric contrast, ``MultipleNegativesSymmetricRankingLoss``. With a joint
    contrast, its directions are query to document, query to query and document to document.
    ``Guided()`` without ``same_text`` and with ``contrast="joint"`` is ``GISTEmbedLoss``
    (Solatorio, 2024) at temperature 1/γ for two columns, except that a text can be its own negative
    there; hard negatives are not compared with positives there. With ``contrast="documents"``, it
    is that loss without its ``contrast_anchors`` and ``contrast_positives``. A ``label`` column
    gives the classes for ``Oracle``; for columns of class probabilities, queries, indices or
    sampling probabilities, see :class:`FactsCollator`.

    Args:
        model: a ``SentenceTransformer``, or any module that is called with the features of a column
            and returns a mapping with ``sentence_embedding``, (B, D). The trainer replaces it with
            its wrapped model.
        estimator: estimator of the true-negative mass.
        scale: γ, the inverse temperature.
        guide: for estimators that need similarities: a module that is called like the model. Its
            embeddings give the similarities of negatives and positives, without gradients and in
            evaluation mode; it can be the model itself. It gets the same token ids; if its
            vocabulary differs from the model's, or it takes shorter texts, the ids are decoded, and
            it tokenises the texts itself. Or a mapping from each text to a vector, (D,), which is
            looked up by the model's token ids; of texts with equal ids, the last one counts. None:
            the model's own embeddings.
        same_text: leave out candidates whose token ids equal those of the anchor, or of a positive
            of a row with an equal anchor: all of these are right answers to the same query. Token
            ids are compared because dropout makes the embeddings of equal texts differ; a prompt
            counts as part of the text. For text-only inputs. In a joint contrast, an anchor is also
            left out where its positive is.
        decoupled: see :class:`~trueneg.losses.ContrastiveLoss`.
        chunk_size: see :class:`CrossModalLoss`.
        gather_distributed: use the candidates of all processes; every process must have the same
            batch size.
        contrast: ``"documents"``: candidates are the negatives of anchors; ``"joint"`` and
            ``"symmetric"``: see above.
        negatives: ``"all"``; ``"hard"``, only the hard negatives of the anchor's own row; or
            ``"in_batch"``, all but these.
        reduction: see :class:`CrossModalLoss`.
        unused: ``"error"``: a label or another fact that the estimator does not use is refused;
            ``"ignore"``: it is accepted.
        mini_batch_size: number of texts to embed at a time, so that the memory of large batches is
            that of a mini-batch; it is embedded again, with the same random draws, once the
            gradient of its embeddings is complete (GradCache, Gao et al., 2021). Loss and gradient
            stay those of the whole batch. For padded inputs. None: a whole column.

    Attributes:
        share_at_bound: see :class:`CrossModalLoss`.
        share_of_hard_removed: see :class:`CrossModalLoss`; the hard negatives are those of each
            anchor's own row.

    Raises:
        ValueError: if the scale, the chunk size or the mini-batch size is not positive, the
            contrast is unknown, a guide is given but not needed, it needs to tokenise texts but
            cannot, or its vectors differ in length.

    Example:
        >>> from trueneg.losses import Debiased
        >>> def model(features):  # a SentenceTransformer is called like this
        ...     return {
        ...         "sentence_embedding": torch.nn.functional.one_hot(features["input_ids"], 8)
        ...         .sum(1)
        ...         .double()
        ...     }
        >>> column = {
        ...     "input_ids": torch.arange(8)[:, None],
        ...     "attention_mask": torch.ones(8, 1),
        ... }  # eight one-word texts
        >>> round(
        ...     RankingLoss(model, Debiased(0.1), scale=1.0)([column, column]).item(), 3
        ... )  # log(1 + (7 − 0.1·7·e) / 0.9 / e)
        1.126
    """

    def __init__(
        self,
        model: Callable[..., Mapping[str, Tensor]],
        estimator: AnchorCriterion,
        scale: float = 20.0,
        guide: nn.Module | Mapping[str, Tensor] | None = None,
        same_text: bool = True,
        *,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        contrast: str = "documents",
        mini_batch_size: int | None = None,
        negatives: str = "all",
        reduction: str = "mean",
        unused: str = "error",
    ):
        super().__init__(
            estimator,
            "both" if contrast == "symmetric" else "text",
            decoupled=decoupled,
            chunk_size=chunk_size,
            gather_distributed=gather_distributed,
            negatives=negatives,
            reduction=reduction,
        )
        if contrast not in CONTRASTS:
            raise ValueError(
                f"contrast is {contrast!r}; expected one of {', '.join(CONTRASTS)}. Contrasts"
                " between anchors alone are not supported: without the positive, their loss can be"
                " negative."
            )
        needs_guide = estimator.needs_similarity or estimator.needs_positive_similarity
        if guide is not None and not needs_guide:
            raise ValueError(f"guide is given, but {estimator} needs no similarity; expected None.")
        guide = GuideVectors(model, guide) if isinstance(guide, Mapping) else guide
        self.needs_guide = needs_guide
        self.model = model
        self.scale = checked_positive("scale", scale)
        self.guide = guide
        self.decode = decoder_of(model, guide)
        self.same_text = same_text
        self.contrast = contrast
        self.mini_batch_size = checked_count("mini_batch_size", mini_batch_size, "texts")
        self.unused = checked_choice("unused", unused, UNUSED)

    def forward(  # type: ignore[override]  # the signature that the trainer expects
        self,
        sentence_features: Iterable[Features],
        labels: Any = None,
        class_probability: float | Tensor | None = None,
        *,
        group: Tensor | None = None,
        same_class: Tensor | None = None,
        exclude: Tensor | None = None,
        targets: Tensor | tuple[Tensor, Tensor] | None = None,
        sampling_probability: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """Return the loss; 0 for a single pair without hard negatives.

        Args:
            sentence_features: features of each column of B texts.
            labels: (B,) or (B + H,) class of each pair and hard negative, for estimators that need
                them; unknown, below 0, for hard negatives without one. Or the mapping that
                :class:`FactsCollator` makes.
            class_probability: η of each pair, (B,), or a single number; overrides the estimator's
                own.
            group: (B,) number of each pair's query, from 0; below 0: a query of its own. The
                positives of a query are not negatives of any of its rows. Rows with equal anchors
                have the same query, too, unless ``same_text`` is False.
            same_class: (B, K) bool, whether column j has the class of anchor i, in place of
                ``labels``; for this and the following, see :meth:`CrossModalLoss.of_features`.
            exclude: (B, K) bool.
            targets: (B, K) soft targets; a pair, for both directions, with a symmetric contrast.
            sampling_probability: (B + H,) probability with which each positive and hard negative is
                drawn.
            index: (B,) number of each pair among all training pairs.

        Raises:
            ValueError: if there are fewer than two columns, token ids are needed but missing, a
                text has no vector, a column cannot be split into mini-batches, or see
                :meth:`CrossModalLoss.of_features`.
        """
        if isinstance(labels, Mapping):
            given = {name: labels[name] for name in FACTS if name in labels}
            class_probability = given.get("class_probability", class_probability)
            group = given.get("group", group)
            index = given.get("index", index)
            sampling_probability = given.get("sampling_probability", sampling_probability)
            labels = labels.get("label")
        columns = list(sentence_features)
        if len(columns) < 2:
            raise ValueError(
                f"The batch has {len(columns)} columns; expected anchors, positives and any hard"
                " negatives."
            )
        # before embedding, because modules modify the features
        texts = TextNumbers(columns, self.same_text, self.gather_distributed)
        copies = [dict(features) for features in columns]
        anchors, candidates = embedded(self.model, columns, self.mini_batch_size)
        facts = SampleFacts(
            class_probability=class_probability,
            labels=labels,
            same_class=same_class,
            exclude=exclude,
            targets=targets,
            sampling_probability=sampling_probability,
            index=index,
        )
        facts.refuse_unused(self.estimator, self.target_rule, self.unused)
        facts = replace(
            facts,
            labels=self._of_columns("labels", labels, len(anchors), len(candidates)),
            sampling_probability=self._of_columns(
                "sampling_probability", sampling_probability, len(anchors), len(candidates)
            ),
            exclude=self._excluded(exclude, texts, group),
            owners=self._owners(len(anchors), len(candidates)).to(anchors.device),
        )
        if self.needs_guide:
            facts = replace(facts, **self._similarities(anchors, candidates, copies))
        if self.contrast == "joint":
            anchors, candidates = _joint(anchors, candidates)
        with outside_autocast(anchors.device):
            terms = self._of_features(anchors, candidates, self.scale, facts)
        return self.finished(terms, index).loss

    @property
    def remembers(self) -> bool:
        # a trainer sets the mode of the model only
        return super().remembers and getattr(self.model, "training", True)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, for the model card that sentence-transformers writes."""
        return {
            "estimator": repr(self.estimator),
            "scale": self.scale,
            "guide": self.guide,
            "same_text": self.same_text,
            "decoupled": self.decoupled,
            "gather_distributed": self.gather_distributed,
            "contrast": self.contrast,
            "mini_batch_size": self.mini_batch_size,
            "negatives": self.negatives,
        }

    def _of_columns(
        self, name: str, values: Tensor | None, anchors: int, candidates: int
    ) -> Tensor | None:
        """Return values of the columns of a joint contrast; unknown, −1, for hard negatives without
        a label.
        """
        if values is None or self.contrast != "joint":
            return values
        check_tensors(**{name: values})
        if len(values) == anchors and name == "labels":
            values = padded(values, candidates - anchors, missing=-1)
        values = checked_shape(name, values, (candidates,))
        return _joint_columns(values, values[:anchors])

    def _owners(self, anchors: int, candidates: int) -> Tensor:
        """Return the pair to which each column after those of the positives belongs as a hard
        negative; −1: to none.
        """
        owners = torch.arange(candidates).remainder(anchors)
        if self.contrast == "joint":
            owners = _joint_columns(owners, owners[:anchors])
            owners[candidates:] = -1
        return owners[anchors:]

    def _excluded(
        self, exclude: Tensor | None, texts: "TextNumbers", group: Tensor | None
    ) -> Tensor | tuple[Tensor, Tensor] | None:
        """Return (B, K) bool, which columns are not negatives, or a pair of these for a symmetric
        contrast.
        """
        if not self.same_text and group is None and self.contrast != "joint":
            return exclude
        everyones = texts.right_answers(group)
        right = everyones[texts.own]
        if self.contrast == "joint":
            numbers = texts.of_columns(_joint_columns(texts.candidates, texts.anchors))
            # a column of an anchor also has the text of its positive
            others = texts.of_columns(_joint_columns(texts.candidates, texts.positives))
            is_right = right[:, numbers] | right[:, others]
            count = len(texts.anchors)
            pairs = torch.arange(len(texts.candidates), device=right.device).remainder(count)
            pairs = _joint_columns(pairs + texts.rank * count, pairs[:count] + texts.rank * count)
            pairs[count : len(texts.candidates)] = -1  # hard negatives stay the anchor's
            own = torch.arange(count, device=right.device) + texts.rank * count
            is_right = is_right | (texts.of_columns(pairs) == own[:, None])
        else:
            is_right = right[:, texts.of_columns(texts.candidates)]
        if exclude is not None:
            is_right = is_right | checked_shape("exclude", exclude, is_right.shape)
        if self.contrast != "symmetric":
            return is_right
        # a positive is the right answer to each of these anchors
        of_positives = everyones[:, texts.positives].mT
        if exclude is not None:
            count, queries = of_positives.shape
            square = exclude[:, :queries] if queries > count else exclude[:, :count].mT
            of_positives = of_positives | square
        return is_right, of_positives

    @torch.no_grad()
    def _similarities(
        self, anchors: Tensor, candidates: Tensor, columns: list[Any]
    ) -> dict[str, Any]:
        """Return the known similarities by their names in :class:`SampleFacts`, from the columns'
        features or, without a guide, the model's vectors.
        """
        with outside_autocast(anchors.device):
            if self.guide is not None:
                with in_evaluation_mode(self.guide):
                    anchors, candidates = embedded(self._rated, columns, self.mini_batch_size)
            count = len(anchors)
            positives = candidates[:count]
            everyone, _ = gathered(anchors.detach(), self.gather_distributed)
            if self.contrast == "joint":
                anchors, candidates = _joint(anchors, candidates)
            keys, rank = gathered_rows(candidates.detach(), count, self.gather_distributed)
            similarity = anchors @ keys.mT
            rated: dict[str, Any] = {"similarity": similarity}
            if self.contrast == "symmetric":
                rated["similarity"] = similarity, positives @ everyone.flatten(0, 1).mT
        if self.estimator.needs_positive_similarity:
            rated["positive_similarity"] = similarity.diagonal(rank * count)
        return rated

    def _rated(self, features: Features) -> Mapping[str, Tensor]:
        """Return the guide's output for a column tokenised for the model."""
        guide: Any = self.guide
        if self.decode is None:
            return guide(features)
        texts = self.decode(ids_without_padding(features), skip_special_tokens=True)
        device = features["input_ids"].device
        return guide(
            {
                key: each.to(device) if isinstance(each, Tensor) else each
                for key, each in tokeniser_of(guide)(texts).items()
            }
        )


class TextNumbers:
    """Numbers the texts of a batch, of all processes; equal ones have equal numbers.

    Args:
        columns: features of the anchors, positives and hard negatives.
        compares: whether to compare the token ids; otherwise, every text counts as another one.
        gathers: whether there are the texts of other processes, too.

    Attributes:
        anchors: (B,) numbers of this process's anchors.
        candidates: (B + H,) those of its positives and hard negatives.
        everyones_anchors: (G,) those of all processes.
        everyones_positives: (G,) those of all processes.
        rank: number of this process.
        texts: T, the number of different texts.
    """

    def __init__(self, columns: list[Features], compares: bool, gathers: bool):
        self.compares = compares
        self.gathers = gathers
        if compares:
            texts = self._token_ids(columns)
        else:  # one "token" per text: its place
            sizes = [len(_rows_of(features)) for features in columns]
            device = _rows_of(columns[0]).device
            texts = torch.arange(sum(sizes), device=device)[:, None]
        count = len(texts) // len(columns)
        everyone, self.rank = gathered(texts, gathers)
        if not compares:
            everyone = torch.arange(everyone.numel(), device=texts.device).view_as(everyone)
        _, numbers = everyone.flatten(0, 1).unique(dim=0, return_inverse=True)
        self.texts = int(numbers.max()) + 1
        numbers = numbers.view(len(everyone), -1)
        self.anchors = numbers[self.rank, :count]
        self.candidates = numbers[self.rank, count:]
        self.everyones_anchors = numbers[:, :count].flatten()
        self.everyones_positives = numbers[:, count : 2 * count].flatten()

    @property
    def own(self) -> slice:
        """Places of this process's rows among those of all."""
        count = len(self.anchors)
        return slice(self.rank * count, (self.rank + 1) * count)

    @property
    def positives(self) -> Tensor:
        """(B,) numbers of this process's positives."""
        return self.candidates[: len(self.anchors)]

    def of_columns(self, values: Tensor) -> Tensor:
        """Return (K,) values of the columns of all processes from those of this one."""
        return gathered_rows(values, len(self.anchors), self.gathers)[0]

    def right_answers(self, group: Tensor | None) -> Tensor:
        """Return (G, T) bool: which texts are no negatives of an anchor: the anchors and positives
        of all rows of its query.

        Args:
            group: (B,) number of each row's query, see :meth:`RankingLoss.forward`.
        """
        queries = self.everyones_anchors
        if group is not None:
            group = checked_shape("group", group, self.anchors.shape).to(self.anchors)
            queries = joined_queries(queries, gathered(group, self.gathers)[0].flatten())
        same_query = (queries[:, None] == queries).to(torch.uint8)
        found = same_query.new_zeros(len(queries), self.texts)
        for numbers in (self.everyones_anchors, self.everyones_positives):
            found.scatter_reduce_(1, numbers.expand_as(same_query), same_query, "amax")
        return found.bool()

    def _token_ids(self, columns: list[Features]) -> Tensor:
        """Return (rows of all columns, length) token ids, padded as in all processes."""
        ids = [token_ids(each, "same_text needs", "pass same_text=False") for each in columns]
        longest = torch.tensor(max(each.shape[1] for each in ids), device=ids[0].device)
        width = int(gathered(longest, self.gathers)[0].max())
        return torch.cat(
            [functional.pad(each, (0, width - each.shape[1]), value=-1) for each in ids]
        )


def joined_queries(anchors: Tensor, groups: Tensor) -> Tensor:
    """Return (G,) numbers of the queries of rows; rows with equal anchors, or with equal groups of
    at least 0, have the same one, and so have rows that others connect.
    """
    places = torch.arange(len(groups), device=groups.device)
    # a row without a group is a group of its own
    _, groups = torch.where(groups < 0, -1 - places, groups).unique(return_inverse=True)
    _, anchors = anchors.unique(return_inverse=True)
    queries = places
    while True:
        joined = queries
        for rows in (anchors, groups):
            lowest = joined.scatter_reduce(0, rows, joined, "amin", include_self=False)
            joined = lowest[rows]
        if joined.equal(queries):
            return queries
        queries = joined


def _rows_of(features: Features) -> Tensor:
    """Return a tensor of a column's features with one row per text."""
    for name in ("attention_mask", "offsets", "input_ids"):
        if name in features:
            return features[name]
    return next(each for each in features.values() if isinstance(each, Tensor) and each.dim())


def _joint_columns(candidates: Tensor, anchors: Tensor) -> Tensor:
    """Return values of the columns of all contrasts: anchor and candidates, anchor and anchors,
    positive and candidates.
    """
    return torch.cat((candidates, anchors, candidates))


def _joint(anchors: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Return vectors, (B, 2 D) and (3 B + 2 H, 2 D), whose products are the logits of all
    contrasts, in the order of :func:`_joint_columns`.
    """
    positives = candidates[: len(anchors)]
    to_anchor = _joint_columns(candidates, anchors)
    to_positive = _joint_columns(candidates, torch.zeros_like(anchors))
    to_anchor[-len(candidates) :] = 0
    to_positive[: len(candidates)] = 0
    return torch.cat((anchors, positives), dim=1), torch.cat((to_anchor, to_positive), dim=1)


class FactsCollator:
    """Data collator that passes columns of a data set to :class:`RankingLoss`:
    ``class_probability``, the η of each pair; ``group``, the number of its query; ``index``, its
    own number; and ``sampling_probability``.

    Without it, the trainer of sentence-transformers would tokenise these columns as text.

    Args:
        collator: the trainer's own collator, ``trainer.data_collator``, which this one replaces.
    """

    def __init__(self, collator: Any):
        self.collator = collator
        self.valid_label_columns = collator.valid_label_columns  # the trainer reads it

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        given = {
            name: torch.tensor([row[name] for row in rows]) for name in FACTS if name in rows[0]
        }
        texts = [{name: each for name, each in row.items() if name not in FACTS} for row in rows]
        batch = self.collator(texts)
        label = {"label": batch["label"]} if "label" in batch else {}
        return batch | {"label": label | given}
