"""Compute log P of a batch's targets: for any model from the transformers library, and faster for
plain BERT.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.runtime.precision import autocast, forward_dtype
from trueneg.text.masked_copies import TargetBatch

# tokens processed at a time on a CPU, so that a layer's activations fit in the cache
CACHE_TOKENS = 1024
# words per block of logits on a CPU; measured 1.7 times as fast as all 30,000 at once
VOCABULARY_BLOCK = 2048


def logits_at(
    model: Any, ids: Tensor, attention_mask: Tensor, wanted: tuple[Tensor, Tensor]
) -> Tensor:
    """Compute float32 logits (n, V) at some positions only: a hook selects the hidden states that
    reach the vocabulary head.

    Args:
        model: a language model of the transformers library; its head must process each position
            independently.
        ids: (B, T) token ids.
        attention_mask: (B, T), 1 at tokens and 0 at padding.
        wanted: (n,) rows and (n,) positions.
    """

    def select(_module: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[wanted][:, None]
        return output

    handle = model.base_model.register_forward_hook(select)
    try:
        with autocast(ids.device):
            return model(input_ids=ids, attention_mask=attention_mask).logits[:, 0].float()
    finally:
        handle.remove()


class AnyModel:
    """Scores tokens with any masked or causal language model from the transformers library; the
    reference for :class:`PlainBert`.

    Args:
        model: model in evaluation mode, on its device.
        mask: id of the mask token; None for a causal model, which sees the tokens before the
            target.

    Raises:
        ValueError: if the model has no head separate from its encoder.
    """

    # whether several threads may call it at the same time; the hook is attached to the shared model
    concurrent = False

    def __init__(self, model: Any, mask: int | None):
        if model.base_model is model:
            raise ValueError(
                f"{type(model).__name__} has no vocabulary head; load it as a masked or causal"
                " language model."
            )
        self._model = model
        self._mask = mask
        self._device = next(model.parameters()).device

    @torch.inference_mode()
    def log_probabilities(self, batch: TargetBatch) -> Tensor:
        """Compute log P(target token | unmasked tokens): natural logarithm, float64, shape (B,)."""
        ids, piece, target, masked = batch.tensors(self._device)
        words = ids[piece, target]
        if self._mask is None:
            wanted = (piece, target - 1)  # the previous position's state predicts a word
        else:
            ids = ids[piece].masked_fill(masked, self._mask)
            wanted = (torch.arange(len(target), device=self._device), target)
        logits = logits_at(self._model, ids, torch.ones_like(ids), wanted)
        return (logits.gather(1, words[:, None])[:, 0] - logits.logsumexp(1)).double().cpu()


class PlainBert:
    """Scores tokens with plain BERT, without padding; exact, but computes whatever does not depend
    on the mask once per sentence.

    * First layer: a masked copy differs from its sentence only in the masked rows, so queries, keys
      and values are computed once per sentence, and once per position for the mask token.
    * Last layer: only the target's row is read, so only its query, output and feed-forward are
      computed.
    * Vocabulary head: only the target's row is computed, in blocks of words on a CPU.

    Args:
        model: a ``BertForMaskedLM``.
        mask: id of the mask token.
        device: device to compute on; a copy of the model is moved there (as bfloat16 on a GPU).
    """

    @staticmethod
    def takes(model: Any) -> bool:
        """Return whether a model is plain BERT with unmodified layers."""
        return (
            type(model).__name__ == "BertForMaskedLM"
            and type(model).__module__.startswith("transformers.")
            and not model.config.is_decoder
            and all(
                type(layer) is torch.nn.Linear
                for name, layer in model.named_modules()
                if name.endswith(("query", "dense"))
            )
        )

    def __init__(self, model: Any, mask: int, device: torch.device):
        dtype = forward_dtype(device)
        self._device = device
        self._mask = mask
        self._heads = model.config.num_attention_heads
        self.concurrent = device.type == "cpu"
        embeddings = model.bert.embeddings
        positions = (
            embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        )
        self._positions = positions.detach().to(device, dtype)
        model = copy.deepcopy(model).to(device, dtype)
        self._embeddings = model.bert.embeddings
        self._layers = model.bert.encoder.layer
        self._head = model.cls.predictions
        # Query, key and value share one (weight, bias), so that one product computes all three.
        self._qkv = []
        for attention in (layer.attention.self for layer in self._layers):
            three = (attention.query, attention.key, attention.value)
            self._qkv.append(
                [
                    torch.cat([getattr(part, name).detach() for part in three])
                    for name in ("weight", "bias")
                ]
            )

    @torch.inference_mode()
    def log_probabilities(self, batch: TargetBatch) -> Tensor:
        """Compute the log-probability of each target; see :meth:`AnyModel.log_probabilities`."""
        ids, piece, target, masked = batch.tensors(self._device)
        masked = masked[..., None]
        of_words = self._embed(ids)
        of_mask = self._embed(torch.full_like(ids[:1], self._mask))
        projected, projected_mask = (
            functional.linear(embedded, *self._qkv[0]) for embedded in (of_words, of_mask)
        )
        copies = len(target) if self._device.type != "cpu" else max(1, CACHE_TOKENS // ids.shape[1])
        states = []
        for start in range(0, len(target), copies):
            chosen = slice(start, start + copies)
            which = piece[chosen]
            where = masked[chosen]
            embedded = torch.where(where, of_mask, of_words[which])
            states.append(
                self._encode(
                    embedded, torch.where(where, projected_mask, projected[which]), target[chosen]
                )
            )
        return self._log_softmax(torch.cat(states), ids[piece, target]).double().cpu()

    def _embed(self, ids: Tensor) -> Tensor:
        return self._embeddings.LayerNorm(
            self._embeddings.word_embeddings(ids) + self._positions[: ids.shape[1]]
        )

    def _encode(self, states: Tensor, projected: Tensor, target: Tensor) -> Tensor:
        """Compute the last hidden states (B, H) at the targets from embeddings (B, T, H) and the
        first layer's projections.
        """
        rows = torch.arange(len(target), device=self._device)
        width = states.shape[-1]
        for number, (layer, (weight, bias)) in enumerate(zip(self._layers, self._qkv, strict=True)):
            last = number == len(self._layers) - 1
            if number == 0:
                query, key, value = projected.chunk(3, dim=-1)
            elif last:
                key, value = functional.linear(states, weight[width:], bias[width:]).chunk(
                    2, dim=-1
                )
                query = functional.linear(
                    states[rows, target][:, None], weight[:width], bias[:width]
                )
            else:
                query, key, value = functional.linear(states, weight, bias).chunk(3, dim=-1)
            if last:
                states = states[rows, target][:, None]
                query = query[rows, target][:, None] if number == 0 else query
            query, key, value = (
                part.unflatten(-1, (self._heads, -1)).transpose(1, 2)
                for part in (query, key, value)
            )
            mixed = (
                functional.scaled_dot_product_attention(query, key, value)
                .transpose(1, 2)
                .flatten(2)
            )
            states = layer.attention.output(mixed, states)
            states = layer.output(layer.intermediate(states), states)
        return states[:, 0]

    def _log_softmax(self, states: Tensor, words: Tensor) -> Tensor:
        states = self._head.transform(states)
        weight = self._head.decoder.weight
        bias = self._head.decoder.bias
        if self._device.type != "cpu":
            logits = functional.linear(states, weight, bias).float()
            return logits.gather(1, words[:, None])[:, 0] - logits.logsumexp(1)
        blocks = zip(weight.split(VOCABULARY_BLOCK), bias.split(VOCABULARY_BLOCK), strict=True)
        total = torch.stack(
            [functional.linear(states, *block).logsumexp(1) for block in blocks]
        ).logsumexp(0)
        return (states * weight[words]).sum(1) + bias[words] - total
