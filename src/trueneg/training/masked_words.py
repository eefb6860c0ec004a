"""The masked-language-model term of BioViL-style training: the text encoder also predicts masked words."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class MaskedWordHead(nn.Module):
    """Map hidden states to vocabulary logits, as in BERT's head, with the input word embeddings as output weights.

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
            bert: BERT model of the same sizes, without its pooler.
            tokens: ``input_ids`` and ``attention_mask``, (B, L).
            masked: bool, (B, L), True at tokens to mask.
            mask_id: id of the mask token.
        """
        hidden = tokens["input_ids"].masked_fill(masked, mask_id)
        states = bert(input_ids=hidden, attention_mask=tokens["attention_mask"]).last_hidden_state[masked]
        logits = functional.linear(self.transform(states), bert.embeddings.word_embeddings.weight, self.bias)
        return functional.cross_entropy(logits.float(), tokens["input_ids"][masked], reduction="sum")


def masked_positions(draws: Tensor, attention_mask: Tensor, share: float) -> Tensor:
    """Select the tokens to mask: a share of each sentence's words, at least one, but never its first or last token.

    Args:
        draws: uniform in [0, 1), (B, L) or wider.
        attention_mask: (B, L), 1 at tokens; the first and last token of each sentence are special.
        share: share of the words to mask.

    Returns:
        bool, (B, L).
    """
    lengths, width = attention_mask.sum(1, keepdim=True), attention_mask.shape[1]
    places = torch.arange(width, device=draws.device)
    words = (places > 0) & (places < lengths - 1)
    draws = draws[:, :width].masked_fill(~words, 2.0)
    return words & ((draws < share) | (draws == draws.amin(1, keepdim=True)))
