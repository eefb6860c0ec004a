"""BERT as an encoder of sentences: any from the hub or a folder, or a small one; and tokens padded batch by batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from trueneg.errors import UserError
from trueneg.models.weights import refuse_unless_whole

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerBase

# CXR-BERT is a BERT whose own code adds a projection: its weights are read into the standard class, its code is not run.
BERT_TYPES = ("bert", "cxr-bert")


class BertTextEncoder(nn.Module):
    """A BERT whose last layer is pooled to one vector a text.

    Args:
        bert: without its pooler, as :func:`load_bert` and :func:`small_bert` give it.
        pooling: ``"cls"``: the first token's vector; ``"mean"``: the mean over all tokens but padding.
        frozen_layers: n, to keep the embedding layer (tokens, positions, its norm) and the first n transformer layers
            as they are: no gradient reaches them. ReCo and ConVIRT freeze 6 of ClinicalBERT's 12. None: all learns.

    Attributes:
        dimensions: size H of a text's vector.
        maximum_tokens: longest text that its positions allow.

    Raises:
        ValueError: if there are fewer layers.

    Example:
        >>> import torch
        >>> encoder = BertTextEncoder(small_bert(vocabulary_size=10, hidden=8, heads=2), frozen_layers=1)
        >>> encoder(torch.tensor([[2, 7, 3]]), torch.ones(1, 3, dtype=torch.int64)).shape
        torch.Size([1, 8])
    """

    def __init__(self, bert: "BertModel", pooling: Literal["cls", "mean"] = "cls", frozen_layers: int | None = None) -> None:
        super().__init__()
        layers = bert.encoder.layer
        if frozen_layers is not None and not 0 <= frozen_layers <= len(layers):
            raise ValueError(f"frozen_layers is {frozen_layers}, expected 0 to {len(layers)}, the number of layers, or None")
        self.bert = bert
        self.pooling = pooling
        self.dimensions = bert.config.hidden_size
        self.maximum_tokens = bert.config.max_position_embeddings
        if frozen_layers is not None:
            for module in (bert.embeddings, *layers[:frozen_layers]):
                module.requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Vectors (B, H) of tokens (B, L); the mask is 1 at tokens and 0 at padding."""
        last = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.pooling == "cls":
            return last[:, 0]
        weights = attention_mask.unsqueeze(2).to(last.dtype)
        return (last * weights).sum(1) / weights.sum(1)


def small_bert(
    vocabulary_size: int, *, hidden: int = 128, layers: int = 2, heads: int = 4, maximum_tokens: int = 128, dropout: float = 0.1
) -> "BertModel":
    """A BERT to be trained from the start, its weights drawn from torch's generator.

    Args:
        vocabulary_size: of the tokenizer.
        hidden: size of a token's vector; feed-forward layers are four times as wide.
        layers: transformer layers.
        heads: attention heads; they divide ``hidden``.
        maximum_tokens: longest text.
        dropout: of hidden states and attention.
    """
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=maximum_tokens,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return BertModel(config, add_pooling_layer=False)


def load_bert(
    name: str | Path, *, revision: str | None = None, offline: bool = False
) -> tuple["BertModel", "PreTrainedTokenizerBase"]:
    """A trained BERT and its tokenizer, from a folder written by ``save_pretrained`` or from the hub.

    Heads for other tasks (masked tokens, next sentence) are left out. No code of a model's author is run, and weights
    are read as safetensors, or as tensors alone (``weights_only``).

    Args:
        name: a folder, or a hub name such as ``emilyalsentzer/Bio_ClinicalBERT``.
        revision: branch, tag or commit on the hub; a commit makes a study repeatable.
        offline: look in the local cache only, never on the network.

    Returns:
        The model, without pooler, in evaluation mode, and its tokenizer.

    Raises:
        UserError: if the model cannot be found or reached, needs a login or code of its own, is no BERT, or lacks
            weights.
    """
    from transformers import BertConfig, BertModel, BertTokenizer
    from transformers.utils import logging

    # Without the table of left-out heads and the progress bars, which would fill a log.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    where: dict[str, Any] = {"revision": revision or "main", "local_files_only": offline}
    with refuse_unless_whole(name, "a whole BERT that can be read", "Give a hub name or a whole folder"):
        settings, _ = BertConfig.get_config_dict(name, **where)
        kind = settings.get("model_type", "bert")
        if kind not in BERT_TYPES:
            own_code = " and needs code of its own (trust_remote_code), which is never run here" if "auto_map" in settings else ""
            raise UserError(f"{name}: is a {kind!r} model{own_code}; expected a BERT ({', '.join(BERT_TYPES)}).")
        config = BertConfig.from_pretrained(name, **where)
        loaded: Any = BertModel.from_pretrained(
            name, config=config, add_pooling_layer=False, output_loading_info=True, weights_only=True, **where
        )
        tokenizer = BertTokenizer.from_pretrained(name, **where)
    bert, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(f"{name}: lacks {len(missing)} tensors of a BERT, such as {missing[0]}; expected a whole BERT.")
    return bert.eval(), tokenizer


def tokenise(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], *, maximum_tokens: int, truncate: bool = False
) -> dict[str, Tensor]:
    """Token ids of a batch, padded to its longest text.

    Args:
        tokenizer: of the encoder.
        texts: B of them.
        maximum_tokens: longest text allowed, with its start and end tokens: the encoder's ``maximum_tokens``, or less.
        truncate: cut longer texts, instead of refusing them.

    Returns:
        ``input_ids`` and ``attention_mask``, int64 (B, L): arguments of :class:`BertTextEncoder`.

    Raises:
        UserError: if a text is too long.
    """
    tokens = tokenizer(list(texts), truncation=truncate, max_length=maximum_tokens if truncate else None)
    lengths = [len(ids) for ids in tokens["input_ids"]]
    if max(lengths) > maximum_tokens:
        raise UserError(
            f"sentence {lengths.index(max(lengths))} has {max(lengths)} tokens, expected at most {maximum_tokens}. Set "
            "text_encoder.truncate to true to have longer ones cut."
        )
    padded = tokenizer.pad(tokens, return_tensors="pt")  # not above: a tokenizer keeps its padding, and is saved with it
    return {key: padded[key] for key in ("input_ids", "attention_mask")}
