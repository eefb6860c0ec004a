"""The masked-language-model term of BioViL-style training: the text encoder also predicts masked
words.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.runtime.distributed import Processes
from trueneg.runtime.precision import autocast
from trueneg.training.sides.text import TextInputs, TextSide


class MaskedWords:
    """The masked-word term of a run's loss.

    Args:
        texts: the side of the texts, whose encoder is a BERT.
        objective: settings of the objective: ``mask_share`` and ``masked_words_weight``.
        processes: the processes that share a batch.

    Attributes:
        head: the head, whose weights are drawn from torch's RNG.
    """

    def __init__(self, texts: TextSide, objective: Mapping[str, Any], processes: Processes):
        self._texts = texts
        self._processes = processes
        self._share = objective["mask_share"]
        self._weight = objective["masked_words_weight"]
        config = texts.encoder.bert.config
        self.head = MaskedWordHead(config.hidden_size, config.vocab_size)

    def backward(self, inputs: TextInputs, batch_size: int, generator: torch.Generator) -> Tensor:
        """Add the gradients of the term, and return its contribution to the total loss.

        Args:
            inputs: this process's texts.
            batch_size: number of texts of all processes.
            generator: generator for the draws.
        """
        tokens: Any = self._texts.texts
        # One draw per position of the longest sentence overall, so the result does not depend on
        # the batch's padding.
        draws = torch.rand(batch_size, int(tokens.lengths.max()), generator=generator)
        # Selected on the CPU: their number determines the shapes below, and reading it from a GPU
        # would wait for all queued work.
        lengths = tokens.lengths[inputs.numbers]
        mask = masked_positions(self._processes.part(draws), lengths, self._share)
        device = inputs.tokens["input_ids"].device
        places = mask.flatten().nonzero()[:, 0].to(device, non_blocking=True)
        count = self._processes.sum(torch.full((), len(places), device=device)).clamp(min=1)
        bert = self._texts.encoder.bert
        mask_id = self._texts.tokenizer.mask_token_id
        with autocast(device):
            loss = self._weight * self.head(bert, inputs.tokens, places, mask_id) / count
        (self._processes.count * loss).backward()  # gradients are averaged over processes
        return self._processes.sum(loss.detach())


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
