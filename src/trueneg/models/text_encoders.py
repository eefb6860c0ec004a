"""BERT sentence encoders, loaded from the hub or a folder or built from scratch, and tokenisation
with per-batch padding.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.errors import LongTextsError, UserError
from trueneg.io.reading import reading

if TYPE_CHECKING:
    from transformers import BertModel, PreTrainedTokenizerBase

# CXR-BERT ships custom code that adds a projection. Its weights are loaded into the standard class;
# its code is not run.
BERT_TYPES = ("bert", "cxr-bert")


class BertTextEncoder(nn.Module):
    """BERT encoder that pools its last layer to one vector per text.

    Args:
        bert: BERT without its pooler, as returned by :func:`load_bert` and :func:`small_bert`.
        pooling: ``"cls"``: the first token's vector; ``"mean"``: the mean over all non-padding
            tokens; ``"max"``: their maximum in each dimension, as in ConVIRT (Zhang et al., 2020),
            which ReCo follows.
        frozen_layers: n: freeze the embedding layer (tokens, positions, norm) and the first n
            transformer layers. ReCo and ConVIRT freeze 6 of ClinicalBERT's 12 layers. None: all
            layers are trained.

    Attributes:
        dimensions: H, size of a text's vector.
        maximum_tokens: maximum text length supported by the position embeddings.

    Raises:
        ValueError: if ``frozen_layers`` is negative or exceeds the number of layers.

    Example:
        >>> import torch
        >>> encoder = BertTextEncoder(
        ...     small_bert(vocabulary_size=10, hidden=8, heads=2), frozen_layers=1
        ... )
        >>> encoder(torch.tensor([[2, 7, 3]]), torch.ones(1, 3, dtype=torch.int64)).shape
        torch.Size([1, 8])
    """

    def __init__(
        self,
        bert: "BertModel",
        pooling: Literal["cls", "mean", "max"] = "cls",
        frozen_layers: int | None = None,
    ) -> None:
        super().__init__()
        layers = bert.encoder.layer
        if frozen_layers is not None and not 0 <= frozen_layers <= len(layers):
            raise ValueError(
                f"frozen_layers is {frozen_layers}; expected 0 to {len(layers)}, the number of"
                " layers, or None."
            )
        self.bert = bert
        self.pooling = pooling
        self.dimensions = bert.config.hidden_size
        self.maximum_tokens = bert.config.max_position_embeddings
        if frozen_layers is not None:
            for module in (bert.embeddings, *layers[:frozen_layers]):
                module.requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return vectors (B, H) of tokens (B, L); the mask is 1 at tokens and 0 at padding."""
        # Computed, because a moving average of the network would truncate BERT's own buffer: 3 ·
        # 0.9 + 3 · 0.1 is 2.99…
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        last = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=positions
        ).last_hidden_state
        if self.pooling == "cls":
            return last[:, 0]
        weights = attention_mask.unsqueeze(2).to(last.dtype)
        if self.pooling == "max":
            return last.masked_fill(weights == 0, -torch.inf).amax(1)
        return (last * weights).sum(1) / weights.sum(1)


def small_bert(
    vocabulary_size: int,
    *,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    maximum_tokens: int = 128,
    dropout: float = 0.1,
) -> "BertModel":
    """Build a small BERT to train from scratch, initialised with torch's RNG.

    Args:
        vocabulary_size: size of the tokenizer's vocabulary.
        hidden: size of a token's vector; feed-forward layers are four times as wide.
        layers: number of transformer layers.
        heads: number of attention heads; must divide ``hidden``.
        maximum_tokens: maximum length of a text.
        dropout: dropout probability for hidden states and attention.
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
    """Load a pretrained BERT and its tokenizer from a folder written by ``save_pretrained`` or from
    the hub.

    Heads for other tasks (masked tokens, next sentence) are dropped. No custom model code is run,
    and weights are read from safetensors or with ``weights_only``.

    Args:
        name: a folder, or a hub name such as ``emilyalsentzer/Bio_ClinicalBERT``.
        revision: branch, tag or commit on the hub; a commit makes a study reproducible.
        offline: use the local cache only, never the network.

    Returns:
        The model, in evaluation mode and without its pooler, and its tokenizer.

    Raises:
        UserError: if the model cannot be found or reached, requires a login or custom code, is not
            a BERT, or lacks weights.
    """
    from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizer
    from transformers.utils import logging

    # Suppress the table of dropped heads and the progress bars, which would clutter the log.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    where: dict[str, Any] = {"revision": revision or "main", "local_files_only": offline}
    with reading(name, "a complete and readable BERT", "Use a hub name or a complete folder."):
        settings, _ = BertConfig.get_config_dict(name, **where)
        kind = settings.get("model_type", "bert")
        if kind not in BERT_TYPES:
            custom = (
                " that requires custom code (trust_remote_code), which is never run"
                if "auto_map" in settings
                else ""
            )
            raise UserError(
                f"{name} is a {kind!r} model{custom}; expected a BERT model"
                f" ({', '.join(BERT_TYPES)})."
            )
        config = BertConfig.from_pretrained(name, **where)
        loaded: Any = BertModel.from_pretrained(
            name,
            config=config,
            add_pooling_layer=False,
            output_loading_info=True,
            weights_only=True,
            dtype=torch.get_default_dtype(),  # not that of the checkpoint
            **where,
        )
        # AutoTokenizer keeps the model's own rules for accents and scripts; CXR-BERT's type is not
        # in the library
        tokenizers: Any = BertTokenizer if kind == "cxr-bert" else AutoTokenizer
        tokenizer = tokenizers.from_pretrained(name, **where)
    bert, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(
            f"{name} lacks {len(missing)} BERT tensors, such as {missing[0]}; expected a complete"
            " BERT model."
        )
    return bert.eval(), tokenizer


def tokenise(
    tokenizer: "PreTrainedTokenizerBase",
    texts: Sequence[str],
    *,
    maximum_tokens: int,
    truncate: bool = False,
) -> dict[str, Tensor]:
    """Tokenise a batch of texts and pad it to the longest one.

    Args:
        tokenizer: the encoder's tokenizer.
        texts: B texts.
        maximum_tokens: maximum length including start and end tokens; at most the encoder's
            ``maximum_tokens``.
        truncate: truncate longer texts instead of raising an error.

    Returns:
        ``input_ids`` and ``attention_mask``, int64 (B, L), the arguments of
            :class:`BertTextEncoder`.

    Raises:
        UserError: if a text is too long.
    """
    tokens = tokenizer(
        list(texts), truncation=truncate, max_length=maximum_tokens if truncate else None
    )
    lengths = [len(ids) for ids in tokens["input_ids"]]
    if max(lengths) > maximum_tokens:
        raise LongTextsError(
            f"sentence {lengths.index(max(lengths))} has {max(lengths)} tokens; expected at most"
            f" {maximum_tokens}. Set text_encoder.truncate to true to truncate longer sentences.",
            [texts[row] for row in np.argsort(lengths)[::-1] if lengths[row] > maximum_tokens],
        )
    # separate call: tokenizers store and save their padding settings
    padded = tokenizer.pad(tokens, return_tensors="pt")
    return {key: padded[key] for key in ("input_ids", "attention_mask")}
