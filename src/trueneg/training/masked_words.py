"""The masked-language-model term of BioViL-style training: the text encoder also predicts masked
words.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class MaskedWordHead(nn.Module):
    """Map hidden states to vocabulary logits, as in BERT's head, with the input word embeddings as
    output weights.

    Args:
        hidden: hidden size H.
        vocabulary: vocabulary size V.
    """

    def __init__(self, hidden: int, vocabulary: int):
        super().__init__()
        self.transform = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, bert: Any, tokens: dict[str, Tensor], masked: Tensor, mask_id: int) -> Tensor:
        """Return the sum of the cross-entropies of the masked words, in nats.

        Args:
            bert: BERT model with the same hidden and vocabulary sizes, without its pooler.
            tokens: ``input_ids`` and ``attention_mask``, (B, L).
            masked: (M,) positions of the tokens to mask, in 0 … B·L − 1.
            mask_id: id of the mask token.
        """
        ids = tokens["input_ids"]
        hidden = ids.flatten().index_fill(0, masked, mask_id).view_as(ids)
        states = bert(
            input_ids=hidden, attention_mask=tokens["attention_mask"]
        ).last_hidden_state.flatten(0, 1)[masked]
        logits = functional.linear(
            self.transform(states), bert.embeddings.word_embeddings.weight, self.bias
        )
        return functional.cross_entropy(logits.float(), ids.flatten()[masked], reduction="sum")


def masked_positions(draws: Tensor, lengths: Tensor, share: float) -> Tensor:
    """Select the tokens to mask: a share of each sentence's words, at least one, but never its
    first or last token.

    Args:
        draws: uniform in [0, 1), (B, L) or wider, where L is the largest length.
        lengths: (B,) number of tokens of each sentence; the first and last tokens are special.
        share: expected share of the words to mask.

    Returns:
        bool, (B, L).
    """
    places = torch.arange(int(lengths.max()))
    words = (places > 0) & (places < lengths[:, None] - 1)
    draws = draws[:, : len(places)].masked_fill(~words, 2.0)
    return words & ((draws < share) | (draws == draws.amin(1, keepdim=True)))
