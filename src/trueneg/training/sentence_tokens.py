"""Tokens of sentences on a device: each distinct sentence is tokenised once, and batches are gathered from the result."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trueneg.models.text_encoders import tokenise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase


class SentenceTokens:
    """The tokens of U texts.

    Args:
        tokenizer: tokenizer of the encoder.
        texts: U texts.
        maximum_tokens: maximum text length in tokens, including the start and end tokens.
        truncate: truncate longer texts instead of refusing them.
        device: device of the tokens.

    Attributes:
        longest: number of tokens of the longest text.

    Raises:
        UserError: if a text is too long and ``truncate`` is false.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        texts: "Sequence[str]",
        maximum_tokens: int,
        truncate: bool,
        device: torch.device,
    ):
        tokens = tokenise(tokenizer, texts, maximum_tokens=maximum_tokens, truncate=truncate)
        self._lengths = tokens["attention_mask"].sum(1)
        self.longest = int(self._lengths.max())
        self._ids, self._masks = tokens["input_ids"].int().to(device), tokens["attention_mask"].bool().to(device)

    def batch(self, numbers: Tensor, numbers_on_device: Tensor) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask``, int64 (B, longest), for selected texts.

        Args:
            numbers: (B,) text indices on the CPU, used to find the longest text without synchronizing the device.
            numbers_on_device: the same indices on the device.
        """
        longest = int(self._lengths[numbers].max())
        return {
            "input_ids": self._ids[numbers_on_device, :longest].long(),
            "attention_mask": self._masks[numbers_on_device, :longest].long(),
        }
