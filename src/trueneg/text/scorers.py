"""log P of a batch's targets: any model of the transformers library, and a shorter way for plain BERT."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.text.masked_copies import Batch

CACHE_TOKENS = 1024  # on a CPU: as many tokens at once as let a layer's activations stay in the cache
VOCABULARY_BLOCK = 2048  # on a CPU: logits of so many words at once; measured 1.7 times the speed of all 30,000


@contextlib.contextmanager
def only_states_at(model: Any, wanted: tuple[Tensor, Tensor]) -> Iterator[None]:
    """In the block, only some hidden states reach the head of a model: its logits are (n, 1, words) instead of (B, T, words).

    Args:
        model: a language model of the transformers library; its head sees each position alone.
        wanted: (n,) rows and (n,) positions.
    """

    def select(_module: Any, _inputs: Any, output: Any) -> Any:
        states = output[0][wanted][:, None]
        if isinstance(output, tuple):
            return (states, *output[1:])
        output[next(iter(output.keys()))] = states
        return output

    handle = model.base_model.register_forward_hook(select)
    try:
        yield
    finally:
        handle.remove()


class AnyModel:
    """Any masked or causal language model of the transformers library; the reference for the shorter ways.

    Only the hidden states that are asked for reach the vocabulary head: a hook takes them out of the encoder's output.

    Args:
        model: in evaluation mode, on its device.
        mask: id of the mask token; None: a causal model, which sees what precedes the target.

    Raises:
        ValueError: if encoder and head cannot be told apart.
    """

    concurrent = False  # whether several threads may ask at the same time; the hook is the model's

    def __init__(self, model: Any, mask: int | None):
        if model.base_model is model:
            raise ValueError(f"{type(model).__name__} has no vocabulary head; load it as a masked or causal language model.")
        self._model, self._mask, self._device = model, mask, next(model.parameters()).device

    @torch.inference_mode()
    def log_probabilities(self, batch: Batch) -> Tensor:
        """log P(token at its target | all that is not masked), natural, float64, shape (B,)."""
        ids = torch.from_numpy(batch.ids).to(self._device)
        piece, target = (torch.from_numpy(array).to(self._device) for array in (batch.piece, batch.targets))
        words = ids[piece, target]
        if self._mask is None:
            wanted = (piece, target - 1)  # the state before a word predicts it
        else:
            ids = ids[piece].masked_fill(batch.masked().to(self._device), self._mask)
            wanted = (torch.arange(len(target), device=self._device), target)
        autocast = torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda")
        with autocast, only_states_at(self._model, wanted):
            logits = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, 0]
        logits = logits.float()
        return (logits.gather(1, words[:, None])[:, 0] - logits.logsumexp(1)).double().cpu()


class PlainBert:
    """BERT without padding, as matrix products; exact, with what does not depend on the mask computed once a sentence.

    * first layer: a masked copy differs from its sentence in the masked rows alone, so queries, keys and values are computed once
      a sentence, and once a position for the mask token;
    * last layer: only the target's row is read, so only its query, output and feed-forward are computed;
    * vocabulary head: the target's row alone, by blocks of words on a CPU.

    Args:
        model: a ``BertForMaskedLM``.
        mask: id of the mask token.
        device: where to compute; weights are copied there (bfloat16 on a GPU).
    """

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether a model is plain BERT, with nothing added to its layers."""
        return (
            type(model).__name__ == "BertForMaskedLM"
            and type(model).__module__.startswith("transformers.")
            and not model.config.is_decoder
            and model.config.hidden_size % model.config.num_attention_heads == 0
            and all(type(layer) is torch.nn.Linear for name, layer in model.named_modules() if name.endswith(("query", "dense")))
        )

    def __init__(self, model: Any, mask: int, device: torch.device):
        self._device, self._mask, self._heads = device, mask, model.config.num_attention_heads
        self._dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.concurrent = device.type == "cpu"
        self._epsilon = model.config.layer_norm_eps
        embeddings, head = model.bert.embeddings, model.cls.predictions
        self._words = self._copy(embeddings.word_embeddings.weight)
        self._positions = self._copy(embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0])
        self._norm = self._pair(embeddings.LayerNorm)
        self._layers = [self._layer(layer) for layer in model.bert.encoder.layer]
        self._activation = model.bert.encoder.layer[0].intermediate.intermediate_act_fn
        self._transform, self._transform_norm = self._pair(head.transform.dense), self._pair(head.transform.LayerNorm)
        self._transform_activation = head.transform.transform_act_fn
        self._vocabulary = (self._copy(head.decoder.weight), self._copy(head.decoder.bias))

    @torch.inference_mode()
    def log_probabilities(self, batch: Batch) -> Tensor:
        """The log-probability of each masked piece."""
        ids = torch.from_numpy(batch.ids).to(self._device)
        piece, target = (torch.from_numpy(array).to(self._device) for array in (batch.piece, batch.targets))
        masked = batch.masked().to(self._device)[..., None]
        of_words = self._embed(self._words[ids])
        of_mask = self._embed(self._words[self._mask].expand(1, ids.shape[1], -1))
        first = self._layers[0]["qkv"]
        projected, projected_mask = functional.linear(of_words, *first), functional.linear(of_mask, *first)
        copies = len(target) if self._device.type != "cpu" else max(1, CACHE_TOKENS // ids.shape[1])
        states = []
        for start in range(0, len(target), copies):
            chosen = slice(start, start + copies)
            which, where = piece[chosen], masked[chosen]
            embedded = torch.where(where, of_mask, of_words[which])
            states.append(self._encode(embedded, torch.where(where, projected_mask, projected[which]), target[chosen]))
        return self._log_softmax(torch.cat(states), ids[piece, target]).double().cpu()

    def _encode(self, states: Tensor, projected: Tensor, target: Tensor) -> Tensor:
        """The last hidden states (B, H) at the targets, from the embeddings (B, T, H) and the first layer's projections."""
        rows, width = torch.arange(len(target), device=self._device), states.shape[-1]
        for number, layer in enumerate(self._layers):
            last, (weight, bias) = number == len(self._layers) - 1, layer["qkv"]
            if number == 0:
                query, key, value = projected.chunk(3, dim=-1)
            elif last:
                key, value = functional.linear(states, weight[width:], bias[width:]).chunk(2, dim=-1)
                query = functional.linear(states[rows, target][:, None], weight[:width], bias[:width])
            else:
                query, key, value = functional.linear(states, weight, bias).chunk(3, dim=-1)
            if last:
                states = states[rows, target][:, None]
                query = query[rows, target][:, None] if number == 0 else query
            query, key, value = (part.unflatten(-1, (self._heads, -1)).transpose(1, 2) for part in (query, key, value))
            mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
            states = self._normalise(functional.linear(mixed, *layer["out"]).add_(states), layer["norm"])
            inner = self._activation(functional.linear(states, *layer["in"]))
            states = self._normalise(functional.linear(inner, *layer["feed"]).add_(states), layer["feed_norm"])
        return states[:, 0]

    def _log_softmax(self, states: Tensor, words: Tensor) -> Tensor:
        states = self._normalise(self._transform_activation(functional.linear(states, *self._transform)), self._transform_norm)
        weight, bias = self._vocabulary
        if self._device.type != "cpu":
            logits = functional.linear(states, weight, bias).float()
            return logits.gather(1, words[:, None])[:, 0] - logits.logsumexp(1)
        blocks = zip(weight.split(VOCABULARY_BLOCK), bias.split(VOCABULARY_BLOCK), strict=True)
        total = torch.stack([functional.linear(states, *block).logsumexp(1) for block in blocks]).logsumexp(0)
        return (states * weight[words]).sum(1) + bias[words] - total

    def _embed(self, words: Tensor) -> Tensor:
        return self._normalise(words + self._positions[: words.shape[1]], self._norm)

    def _normalise(self, states: Tensor, parameters: tuple[Tensor, Tensor]) -> Tensor:
        return functional.layer_norm(states, states.shape[-1:], *parameters, eps=self._epsilon)

    def _layer(self, layer: Any) -> dict[str, tuple[Tensor, Tensor]]:
        attention = layer.attention.self
        parts = [self._pair(part) for part in (attention.query, attention.key, attention.value)]
        return {
            "qkv": (torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])),
            "out": self._pair(layer.attention.output.dense),
            "norm": self._pair(layer.attention.output.LayerNorm),
            "in": self._pair(layer.intermediate.dense),
            "feed": self._pair(layer.output.dense),
            "feed_norm": self._pair(layer.output.LayerNorm),
        }

    def _pair(self, module: Any) -> tuple[Tensor, Tensor]:
        return self._copy(module.weight), self._copy(module.bias)

    def _copy(self, parameter: Tensor) -> Tensor:
        return parameter.detach().to(self._device, self._dtype)
