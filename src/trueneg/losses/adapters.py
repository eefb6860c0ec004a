"""Adapters that give these losses the call signatures of other libraries.

lightly needs no adapter: its losses take two views, as does
:class:`trueneg.losses.ContrastiveLoss`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from trueneg.losses.base import Estimator, check_tensors, checked_shape, is_readable
from trueneg.losses.cross_modal import CrossModalLoss
from trueneg.losses.execution import (
    gathered,
    gathered_rows,
    outside_autocast,
    single_precision,
    unit_length,
)

# a column of texts tokenised by sentence-transformers, with the entries that its modules add
Features = Mapping[str, Any]
NOT_TEXT = {"pixel_values", "pixel_values_videos", "input_features", "input_values"}
CONTRASTS = ("documents", "joint")


def _check_unit_length(name: str, features: Tensor) -> None:
    """Check that features are unit vectors, up to rounding in bfloat16; features on an accelerator
    are not checked.

    Raises:
        ValueError: if a vector's length differs from 1 by more than 2 %, or is NaN.
    """
    if not is_readable(features):
        return
    lengths = features.detach().float().norm(dim=-1)
    wrong = ~((lengths - 1).abs() <= 0.02)
    if wrong.any():
        problem = (
            f"{int(wrong.sum())} of {lengths.numel()} vectors do not have length 1 (the first:"
            f" {lengths[wrong][0]:.3g})"
        )
        raise ValueError(
            f"{name}: {problem}. Normalise them with torch.nn.functional.normalize(..., dim=-1)."
        )


class OpenClipLoss(CrossModalLoss):
    """Drop-in replacement for OpenCLIP's ``ClipLoss``; equal to it with ``Uncorrected()``.

    The constructor takes the same arguments as :class:`CrossModalLoss`; ``gather_distributed`` is
    equivalent to setting both ``local_loss`` and ``gather_with_grad``.

    Attributes:
        share_at_bound: scalar tensor, the share of the latest call's anchors that are at the
            estimator's lower bound.

    Example:
        >>> import torch
        >>> from trueneg.losses import Debiased
        >>> loss = OpenClipLoss(Debiased(0.05))
        >>> features = torch.nn.functional.normalize(torch.randn(8, 16), dim=-1)
        >>> sorted(loss(features, features, logit_scale=torch.tensor(14.0), output_dict=True))
        ['contrastive_loss']
    """

    def forward(  # type: ignore[override]  # the signature of OpenCLIP's loss
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        class_probability: float | Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Return the loss as a scalar, or as ``{"contrastive_loss": scalar}``.

        Args:
            image_features: (B, D) normalised image features, as returned by OpenCLIP's models.
            text_features: (B, D) normalised text features.
            logit_scale: scalar tensor.
            logit_bias: ignored; a constant added to every logit cancels, as in any softmax. None
                for ``Sigmoid``, which has one.
            output_dict: whether to return a dictionary.
            class_probability: η, a single number or one value per pair, shape (B,).

        Raises:
            ValueError: if there are not as many images as texts, features are not normalised
                (features on an accelerator are not checked), or there are two biases.
        """
        if logit_bias is not None and not self.estimator.combines:
            raise ValueError(
                f"logit_bias is given, but {self.estimator} has its own bias; expected None."
            )
        if len(image_features) != len(text_features):
            counts = f"{len(image_features)} images and {len(text_features)} texts"
            raise ValueError(
                f"image_features and text_features have {counts}; expected as many of each."
            )
        for name, features in (
            ("image_features", image_features),
            ("text_features", text_features),
        ):
            _check_unit_length(name, features)
        terms = self.of_features(text_features, image_features, logit_scale, class_probability)
        self.share_at_bound = terms.at_bound.float().mean()
        return {"contrastive_loss": terms.loss} if output_dict else terms.loss


class RankingLoss(CrossModalLoss):
    r"""Loss for the sentence-transformers trainer; replaces ``MultipleNegativesRankingLoss`` or
    ``GISTEmbedLoss``.

    .. math:: L = \frac{1}{B} \sum_i -\log \frac{e^{p_i}}{e^{p_i} + N g_i},\qquad
              p_i = \gamma \cos(a_i, c_i),\quad u_{ij} = \gamma \cos(a_i, c_j)

    The first column of a batch holds the anchors a, the second their positives, and any others hard
    negatives. The candidates c are the texts of all columns but the first, and an anchor's
    negatives are all candidates but its positive.

    With ``contrast="joint"``, the N negatives of pair i are those above, the other anchors, and,
    for its positive, the candidates of the other pairs, as in GTE (Li et al., 2023) and
    Qwen3-Embedding (Zhang et al., 2025):

    .. math:: \{u\}_i = \{\gamma \cos(a_i, c_j)\}_{j \ne i} \cup \{\gamma \cos(a_i, a_j)\}_{j \ne i}
              \cup \{\gamma \cos(c_i, c_j)\}_{j \text{ of another pair}}

    The estimator sees one set of negatives. Each added one has the class of its text, and the guide
    rates its two texts; the threshold stays the similarity of the anchor and its positive, and so
    do the draws from which η is subtracted.

    ``Uncorrected()`` without ``same_text`` is ``MultipleNegativesRankingLoss``: InfoNCE (Oord et
    al., 2018). With a joint contrast, its directions are query to document, query to query and
    document to document. ``Guided()`` without ``same_text`` is ``GISTEmbedLoss`` (Solatorio, 2024)
    at temperature 1/γ without its ``contrast_anchors`` and ``contrast_positives``. With both, and
    two columns, it is the joint contrast, except that a text can be its own negative there; hard
    negatives are not compared with positives there. A ``label`` column gives the classes for
    ``Oracle``; for a column of class probabilities, see :class:`ClassProbabilityCollator`.

    Args:
        model: a ``SentenceTransformer``, or any module that is called with the features of a column
            and returns a mapping with ``sentence_embedding``, (B, D). The trainer replaces it with
            its wrapped model.
        estimator: estimator of the true-negative mass.
        scale: γ, the inverse temperature.
        guide: for estimators that need similarities: a module that is called like the model. Its
            embeddings give the similarities of negatives and positives, without gradients and in
            evaluation mode. It gets the same token ids; if its vocabulary differs from the model's,
            or it takes shorter texts, the ids are decoded, and it tokenises the texts itself. Or a
            mapping from each text to a vector, (D,), which is looked up by the model's token ids;
            of texts with equal ids, the last one counts. None: the model's own embeddings.
        same_text: leave out candidates whose token ids equal those of the anchor or of its
            positive. Token ids are compared because dropout makes the embeddings of equal texts
            differ; a prompt counts as part of the text. For text-only inputs. In a joint contrast,
            an anchor is also left out where its positive is.
        decoupled: see :class:`~trueneg.losses.ContrastiveLoss`.
        chunk_size: see :class:`CrossModalLoss`.
        gather_distributed: use the candidates of all processes; every process must have the same
            batch size.
        contrast: ``"documents"``: candidates are the negatives of anchors; ``"joint"``: see above.
        mini_batch_size: number of texts to embed at a time, so that the memory of large batches is
            that of a mini-batch; it is embedded again, with the same random draws, once the
            gradient of its embeddings is complete (GradCache, Gao et al., 2021). Loss and gradient
            stay those of the whole batch. For padded inputs. None: a whole column.

    Attributes:
        share_at_bound: scalar tensor, the share of the latest call's anchors that are at the
            estimator's lower bound.

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
        estimator: Estimator,
        scale: float = 20.0,
        guide: nn.Module | Mapping[str, Tensor] | None = None,
        same_text: bool = True,
        *,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        contrast: str = "documents",
        mini_batch_size: int | None = None,
    ):
        super().__init__(
            estimator,
            "text",
            decoupled=decoupled,
            chunk_size=chunk_size,
            gather_distributed=gather_distributed,
        )
        if not scale > 0:
            raise ValueError(f"scale is {scale}; expected a positive number.")
        if contrast not in CONTRASTS:
            raise ValueError(
                f"contrast is {contrast!r}; expected {' or '.join(map(repr, CONTRASTS))}. Contrasts"
                " between anchors alone are not supported: without the positive, their loss can be"
                " negative."
            )
        if mini_batch_size is not None and mini_batch_size < 1:
            raise ValueError(
                f"mini_batch_size is {mini_batch_size}; expected a positive number of texts, or"
                " None."
            )
        needs_guide = estimator.needs_similarity or estimator.needs_positive_similarity
        if guide is not None and not needs_guide:
            raise ValueError(f"guide is given, but {estimator} needs no similarity; expected None.")
        guide = GuideVectors(model, guide) if isinstance(guide, Mapping) else guide
        self.needs_guide = needs_guide
        self.model = model
        self.scale = scale
        self.guide = None if guide is None else guide.eval()
        self.decode = _decoder(model, guide)
        self.same_text = same_text
        self.contrast = contrast
        self.mini_batch_size = mini_batch_size

    def train(self, mode: bool = True) -> "RankingLoss":
        """Set the mode of the model; the guide stays in evaluation mode."""
        super().train(mode)
        if self.guide is not None:
            self.guide.eval()
        return self

    def forward(  # type: ignore[override]  # the signature that the trainer expects
        self,
        sentence_features: Iterable[Features],
        labels: Any = None,
        class_probability: float | Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss; 0 for a single pair without hard negatives.

        Args:
            sentence_features: features of each column of B texts.
            labels: (B,) or (B + H,) class of each pair and hard negative, for estimators that need
                them; unknown, below 0, for hard negatives without one. Or the mapping that
                :class:`ClassProbabilityCollator` makes.
            class_probability: η of each pair, (B,), or a single number; overrides the estimator's
                own.

        Raises:
            ValueError: if there are fewer than two columns, token ids are needed but missing, a
                text has no vector, or a column cannot be split into mini-batches.
        """
        if isinstance(labels, Mapping):
            labels, class_probability = labels.get("label"), labels["class_probability"]
        columns = list(sentence_features)
        if len(columns) < 2:
            raise ValueError(
                f"The batch has {len(columns)} columns; expected anchors, positives and any hard"
                " negatives."
            )
        # before embedding, because modules modify the features
        exclude = self._same_texts(columns) if self.same_text else None
        copies = [dict(features) for features in columns]
        anchors, candidates = _embedded(self.model, columns, self.mini_batch_size)
        if len(candidates) == 1 and not self.gather_distributed:
            self.share_at_bound = torch.zeros(())
            # the last batch of an epoch may hold one pair, without any negative
            return 0 * anchors.sum()
        if self.estimator.needs_labels:
            labels = self._labels_of_columns(labels, len(anchors), len(candidates))
        if self.contrast == "joint":
            own = self._own_samples(len(anchors), len(candidates), anchors.device)
            exclude = own if exclude is None else exclude | own
            anchors, candidates = _joint(anchors, candidates)
        rated = self._similarities(anchors, candidates, copies) if self.needs_guide else {}
        terms = self.of_features(
            anchors,
            candidates,
            self.scale,
            class_probability,
            labels=labels,
            exclude=exclude,
            **rated,
        )
        self.share_at_bound = terms.at_bound.float().mean()
        return terms.loss

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
        }

    def _labels_of_columns(self, labels: Tensor | None, anchors: int, candidates: int) -> Tensor:
        """Return the class of each column; unknown for hard negatives without one."""
        check_tensors(labels=labels)
        if labels is not None and len(labels) == anchors:
            unknown = labels.new_full((candidates - anchors,), -1, dtype=torch.int64)
            labels = torch.cat((labels, unknown))
        labels = checked_shape("labels", labels, (candidates,))
        return _joint_columns(labels, labels[:anchors]) if self.contrast == "joint" else labels

    @torch.no_grad()
    def _similarities(
        self, anchors: Tensor, candidates: Tensor, columns: list[Any]
    ) -> dict[str, Tensor]:
        """Return the known similarities by their names, from the columns' features or, without a
        guide, the model's vectors.
        """
        with outside_autocast(anchors.device):
            if self.guide is not None:
                anchors, candidates = _embedded(self._rated, columns, self.mini_batch_size)
                if self.contrast == "joint":
                    anchors, candidates = _joint(anchors, candidates)
            everyone, rank = gathered_rows(
                candidates.detach(), len(anchors), self.gather_distributed
            )
            similarity = anchors @ everyone.mT
        rated = {"negative_similarity": similarity}
        # GlobalMass takes averages in its place, so it would accept this silently
        if self.estimator.needs_positive_similarity:
            rated["positive_similarity"] = similarity.diagonal(rank * len(anchors))
        return rated

    def _rated(self, features: Features) -> Mapping[str, Tensor]:
        """Return the guide's output for a column tokenised for the model."""
        guide: Any = self.guide
        if self.decode is None:
            return guide(features)
        tokenised = _tokenise(guide)(self.decode(_ids(features), skip_special_tokens=True))
        device = features["input_ids"].device
        return guide(
            {
                key: each.to(device) if isinstance(each, Tensor) else each
                for key, each in tokenised.items()
            }
        )

    def _same_texts(self, columns: list[Features]) -> Tensor:
        """Return (B, K) bool: which columns of the logits have the same text as the anchor or its
        positive.
        """
        ids = [
            _token_ids(features, "same_text needs", "pass same_text=False") for features in columns
        ]
        longest = torch.tensor(max(each.shape[1] for each in ids), device=ids[0].device)
        width = int(gathered(longest, self.gather_distributed)[0].max())
        first, *others = (
            functional.pad(each, (0, width - each.shape[1]), value=-1) for each in ids
        )
        count = len(first)
        texts = torch.cat(others)
        if self.contrast == "joint":  # a column of an anchor also has the text of its positive
            of_anchors = _joint_columns(texts, first)
            of_positives = _joint_columns(texts, others[0])
            texts = torch.cat((of_anchors, of_positives), dim=1)
        everyone, rank = gathered_rows(texts, count, self.gather_distributed)
        rows = torch.cat((first, *everyone.split(width, dim=1)))
        _, numbers = rows.unique(dim=0, return_inverse=True)
        anchors = numbers[:count, None]
        of_columns = numbers[count:].view(-1, 1, len(everyone))
        positives = of_columns[0, 0, rank * count :][:count, None]
        return ((of_columns == anchors) | (of_columns == positives)).any(0)

    def _own_samples(self, count: int, candidates: int, device: torch.device) -> Tensor:
        """Return (B, K) bool: which columns of joint contrasts compare texts of one pair; hard
        negatives stay the anchor's.
        """
        pairs = torch.arange(candidates, device=device).remainder(count)
        of_columns = _joint_columns(pairs, pairs[:count])
        of_columns[count:candidates] = -1
        everyone, rank = gathered(of_columns, self.gather_distributed)
        is_other = torch.arange(len(everyone), device=device) != rank
        everyone = everyone.masked_fill(is_other[:, None], -1)
        of_columns = torch.cat((everyone[:, :count].flatten(), everyone[:, count:].flatten()))
        return of_columns == pairs[:count, None]


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


def _embedded(
    model: Callable[..., Mapping[str, Tensor]], columns: list[Any], mini_batch_size: int | None
) -> list[Tensor]:
    """Return unit embeddings of the first column, (B, D), and of the others, (B + H, D)."""
    first, *others = (_of_column(model, features, mini_batch_size) for features in columns)
    with outside_autocast(first.device):
        return [unit_length(each) for each in single_precision(first, torch.cat(others))]


def _of_column(
    model: Callable[..., Mapping[str, Tensor]], features: Any, size: int | None
) -> Tensor:
    """Return the embeddings of a column; mini-batches keep no activations and are embedded again in
    the backward pass.

    The engine recomputes a mini-batch when its gradient is complete, and finishes its backward pass
    before the next one. The graph is that of one forward pass, so that DistributedDataParallel
    reduces each gradient once.

    Raises:
        ValueError: if a tensor of the features does not have one row per text.
    """
    if size is None:
        return model(features)["sentence_embedding"]
    tensors = {
        key: each
        for key, each in features.items()
        if isinstance(each, Tensor) and each.dim() and key != "prompt_length"
    }
    counts = {len(each) for each in tensors.values()}
    if {"offsets", "cu_seq_lens_q"} & set(tensors) or len(counts) != 1:
        shapes = ", ".join(f"{key} {tuple(each.shape)}" for key, each in tensors.items())
        raise ValueError(
            f"mini_batch_size needs tensors with one row per text, but found {shapes}; pass"
            " mini_batch_size=None."
        )

    forward = getattr(model, "forward", None)

    def embedded(part: Features) -> Tensor:
        # MatryoshkaLoss puts it back before the backward pass
        if getattr(model, "forward", None) != forward:
            problem = (
                "mini_batch_size embeds texts again in the backward pass, but the model's forward"
                " has been replaced"
            )
            raise ValueError(
                f"{problem}; pass mini_batch_size=None within a loss that replaces it, such as"
                " MatryoshkaLoss."
            )
        # a copy, because modules modify the features
        return model(dict(part))["sentence_embedding"]

    rows = zip(*(each.split(size) for each in tensors.values()), strict=True)
    parts = [features | dict(zip(tensors, part, strict=True)) for part in rows]
    if not torch.is_grad_enabled():
        return torch.cat([embedded(part) for part in parts])
    return torch.cat([checkpoint(embedded, part, use_reentrant=False) for part in parts])


def _token_ids(features: Features, needs: str, remedy: str) -> Tensor:
    """Return (B, length) token ids of each text, followed by −1; the side of the padding does not
    matter.
    """
    starts = features.get("offsets")  # StaticEmbedding concatenates the texts, which start here
    if "cu_seq_lens_q" in features:  # so does flash attention
        starts = features["cu_seq_lens_q"][:-1]
    needed = {"input_ids", "attention_mask"} if starts is None else {"input_ids"}
    if not needed <= set(features) or NOT_TEXT & set(features):
        raise ValueError(
            f"{needs} text only, as input_ids and attention_mask, but found {', '.join(features)};"
            f" {remedy}."
        )
    ids = features["input_ids"]
    if starts is not None:
        return pad_sequence(
            ids.flatten().tensor_split(starts[1:].tolist()), batch_first=True, padding_value=-1
        )
    is_token = features["attention_mask"].bool()
    tokens_first = is_token.sort(dim=1, descending=True, stable=True).indices
    return ids.masked_fill(~is_token, -1).gather(1, tokens_first)


def _ids(features: Features) -> list[list[int]]:
    """Return the token ids of each text, without padding."""
    needs = "A guide with another tokenizer, or with precomputed vectors, needs"
    return [
        row[row >= 0].tolist()
        for row in _token_ids(features, needs, "use a guide with the model's tokenizer").cpu()
    ]


class GuideVectors(nn.Module):
    """Precomputed vectors of texts, called like a model with the features of a column.

    Args:
        model: the model that is trained; it tokenises the texts.
        vectors: a vector, (D,), for each text.

    Raises:
        ValueError: if the model cannot tokenise texts, or the vectors differ in length.
    """

    def __init__(self, model: Any, vectors: Mapping[str, Tensor]):
        super().__init__()
        texts = list(vectors)
        tensors = [torch.as_tensor(vector) for vector in vectors.values()]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) != 1:
            raise ValueError(
                f"guide has {len(texts)} vectors, of shapes {sorted(shapes)}; expected one shape"
                " for all texts."
            )
        self.vectors = nn.Buffer(torch.stack(tensors).float(), persistent=False)
        tokenise = _tokenise(model)
        ids: list[list[int]] = []
        for start in range(0, len(texts), 1024):
            ids += _ids(tokenise(texts[start : start + 1024]))
        self.rows = {tuple(each): row for row, each in enumerate(ids)}

    def forward(self, features: Features) -> dict[str, Tensor]:
        """Return the vectors of the texts.

        Raises:
            ValueError: if a text has no vector.
        """
        ids = [tuple(each) for each in _ids(features)]
        if unknown := [each for each in ids if each not in self.rows]:
            problem = (
                f"{len(unknown)} of {len(ids)} texts have no vector in guide (the token ids of the"
                f" first: {unknown[0]})"
            )
            raise ValueError(
                f"{problem}; expected one for each text of the data, including its prompt."
            )
        return {"sentence_embedding": self.vectors[[self.rows[each] for each in ids]]}


class ClassProbabilityCollator:
    """Data collator that passes the column ``class_probability`` of a data set to
    :class:`RankingLoss`, as η of each pair.

    Without it, the trainer of sentence-transformers would tokenise this column as text.

    Args:
        collator: the trainer's own collator, ``trainer.data_collator``, which this one replaces.
    """

    def __init__(self, collator: Any):
        self.collator = collator
        self.valid_label_columns = collator.valid_label_columns  # the trainer reads it

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        eta = torch.tensor([row["class_probability"] for row in rows])
        without_eta = [dict(row) for row in rows]
        for row in without_eta:
            del row["class_probability"]
        batch = self.collator(without_eta)
        label = {"label": batch["label"]} if "label" in batch else {}
        return batch | {"label": label | {"class_probability": eta}}


def _vocabulary(model: Any) -> dict[str, int] | None:
    """Return the token ids of a model's vocabulary; None if it has no tokenizer."""
    read = getattr(getattr(model, "tokenizer", None), "get_vocab", None)
    return None if read is None else read()


def _tokenise(model: Any) -> Callable[[list[str]], Mapping[str, Any]]:
    """Return what tokenises texts for a model of sentence-transformers.

    Raises:
        ValueError: if the model is something else.
    """
    # the latter before version 5.4
    tokenise = getattr(model, "preprocess", None) or getattr(model, "tokenize", None)
    if tokenise is None:
        problem = (
            f"This guide needs texts tokenised by {type(model).__name__}, which has neither"
            " preprocess nor tokenize"
        )
        raise ValueError(f"{problem}; expected a SentenceTransformer.")
    return tokenise


def _decoder(model: Any, guide: Any) -> Callable[..., list[str]] | None:
    """Return what decodes the model's token ids if the guide has to tokenise the texts itself, else
    None.

    Raises:
        ValueError: if the ids cannot be decoded, or the guide cannot tokenise texts.
    """
    words = [_vocabulary(each) for each in (model, guide)]
    lengths: list[Any] = [getattr(each, "max_seq_length", None) for each in (model, guide)]
    if (None in words or words[0] == words[1]) and (None in lengths or lengths[0] <= lengths[1]):
        return None
    _tokenise(guide)
    tokenizer = getattr(model, "tokenizer", None)
    # of StaticEmbedding
    decode = getattr(tokenizer, "batch_decode", None) or getattr(tokenizer, "decode_batch", None)
    if decode is None:
        problem = (
            "guide has another vocabulary than the model, or takes shorter texts, but"
            " model.tokenizer cannot decode ids"
        )
        raise ValueError(f"{problem}; use another guide, or a mapping from texts to vectors.")
    return decode
