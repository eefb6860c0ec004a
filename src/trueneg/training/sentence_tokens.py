"""Sentences as tokens on a device: each different one is tokenised once, and batches are gathered."""

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
        tokenizer: of the encoder.
        texts: U of them.
        maximum_tokens: longest text allowed, with its start and end tokens.
        truncate: cut longer texts instead of refusing them.
        device: where the tokens lie.

    Attributes:
        longest: tokens of the longest text.

    Raises:
        UserError: if a text is too long and must not be cut.
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
        """``input_ids`` and ``attention_mask``, int64 (B, longest), of some texts.

        Args:
            numbers: (B,) which, on the CPU, where the longest is found without waiting for the device.
            numbers_on_device: the same.
        """
        longest = int(self._lengths[numbers].max())
        return {
            "input_ids": self._ids[numbers_on_device, :longest].long(),
            "attention_mask": self._masks[numbers_on_device, :longest].long(),
        }
