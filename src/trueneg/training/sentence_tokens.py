"""Tokens of sentences on a device: each distinct sentence is tokenised once, and batches are gathered from the result."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from trueneg.models.text_encoders import tokenise
from trueneg.text.tokenizing import unexpressed
from trueneg.training.image_text_networks import Networks

log = logging.getLogger(__name__)


class SentenceTokens:
    """The tokens of U texts.

    Args:
        networks: networks of the run, with the tokenizer and the maximum text length.
        texts: U texts.
        truncate: truncate longer texts instead of raising an error.
        device: device of the tokens.

    Attributes:
        lengths: (U,) number of tokens of each text, on the CPU.

    Raises:
        UserError: if a text is too long and ``truncate`` is false.
    """

    def __init__(self, networks: Networks, texts: Sequence[str], truncate: bool, device: torch.device):
        tokens = tokenise(networks.tokenizer, texts, maximum_tokens=networks.maximum_tokens, truncate=truncate)
        if problem := unexpressed(texts, networks.tokenizer, networks.maximum_tokens):
            log.warning("texts of the images: %s", problem)
        self.lengths = tokens["attention_mask"].sum(1)
        self._tokens = {"input_ids": tokens["input_ids"].int(), "attention_mask": tokens["attention_mask"].bool()}
        self._tokens = {name: values.to(device) for name, values in self._tokens.items()}

    def batch(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask``, int64 (B, longest), for (B,) text indices on the CPU."""
        longest = int(self.lengths[numbers].max())  # found on the CPU, so that the device is not synchronized
        there = numbers.to(self._tokens["input_ids"].device, non_blocking=True)
        return {name: values[there, :longest].long() for name, values in self._tokens.items()}
