"""Texts as sentence-transformers passes them to a loss: token ids, embeddings in mini-batches, and
guides with another tokenizer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from trueneg.losses.execution import outside_autocast, single_precision, unit_length

# a column of texts tokenised by sentence-transformers, with the entries that its modules add
Features = Mapping[str, Any]
NOT_TEXT = {"pixel_values", "pixel_values_videos", "input_features", "input_values"}


def embedded(
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

    def embed(part: Features) -> Tensor:
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
        return torch.cat([embed(part) for part in parts])
    return torch.cat([checkpoint(embed, part, use_reentrant=False) for part in parts])


def token_ids(features: Features, needs: str, remedy: str) -> Tensor:
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


def ids_without_padding(features: Features) -> list[list[int]]:
    """Return the token ids of each text, without padding."""
    needs = "A guide with another tokenizer, or with precomputed vectors, needs"
    return [
        row[row >= 0].tolist()
        for row in token_ids(features, needs, "use a guide with the model's tokenizer").cpu()
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
        tokenise = tokeniser_of(model)
        ids: list[list[int]] = []
        for start in range(0, len(texts), 1024):
            ids += ids_without_padding(tokenise(texts[start : start + 1024]))
        self.rows = {tuple(each): row for row, each in enumerate(ids)}

    def forward(self, features: Features) -> dict[str, Tensor]:
        """Return the vectors of the texts.

        Raises:
            ValueError: if a text has no vector.
        """
        ids = [tuple(each) for each in ids_without_padding(features)]
        if unknown := [each for each in ids if each not in self.rows]:
            problem = (
                f"{len(unknown)} of {len(ids)} texts have no vector in guide (the token ids of the"
                f" first: {unknown[0]})"
            )
            raise ValueError(
                f"{problem}; expected one for each text of the data, including its prompt."
            )
        return {"sentence_embedding": self.vectors[[self.rows[each] for each in ids]]}


def _vocabulary(model: Any) -> dict[str, int] | None:
    """Return the token ids of a model's vocabulary; None if it has no tokenizer."""
    read = getattr(getattr(model, "tokenizer", None), "get_vocab", None)
    return None if read is None else read()


def tokeniser_of(model: Any) -> Callable[[list[str]], Mapping[str, Any]]:
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


def decoder_of(model: Any, guide: Any) -> Callable[..., list[str]] | None:
    """Return what decodes the model's token ids if the guide has to tokenise the texts itself, else
    None.

    Raises:
        ValueError: if the ids cannot be decoded, or the guide cannot tokenise texts.
    """
    words = [_vocabulary(each) for each in (model, guide)]
    lengths: list[Any] = [getattr(each, "max_seq_length", None) for each in (model, guide)]
    if (None in words or words[0] == words[1]) and (None in lengths or lengths[0] <= lengths[1]):
        return None
    tokeniser_of(guide)
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
