"""Texts as inputs of a text encoder: tokens, a tower's prepared batches, or a frozen tower's stored
vectors.
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trueneg.errors import UserError
from trueneg.models.text_encoders import tokenise
from trueneg.text.tokenizing import unexpressed
from trueneg.training.frozen import on_device, rebuild_tower, refuse_long_texts, text_vectors
from trueneg.training.image_text_networks import Networks

log = logging.getLogger(__name__)


def text_inputs(
    networks: Networks,
    texts: Sequence[str],
    truncate: bool,
    device: torch.device,
    section: str = "text_encoder",
) -> Any:
    """Return the inputs of the text encoder for U texts, an object with ``batch`` and, of networks
    from scratch, ``lengths``.

    Args:
        networks: networks of the run.
        texts: U texts.
        truncate: truncate texts that are too long instead of raising an error.
        device: device of the inputs.
        section: section of the encoder's settings, for messages.

    Raises:
        UserError: if a text is too long and ``truncate`` is false, or a text without a stored
            vector cannot be embedded.
    """
    if networks.frozen.texts is not None:
        return TextVectors(networks, texts, device)
    if networks.tokenizer is None:
        return TowerTexts(networks, texts, truncate, device, section)
    return SentenceTokens(networks, texts, truncate, device)


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

    def __init__(
        self, networks: Networks, texts: Sequence[str], truncate: bool, device: torch.device
    ):
        tokens = tokenise(
            networks.tokenizer, texts, maximum_tokens=networks.maximum_tokens, truncate=truncate
        )
        if problem := unexpressed(texts, networks.tokenizer, networks.maximum_tokens):
            log.warning("texts of the images: %s", problem)
        self.lengths = tokens["attention_mask"].sum(1)
        self._tokens = {
            "input_ids": tokens["input_ids"].int(),
            "attention_mask": tokens["attention_mask"].bool(),
        }
        self._tokens = {name: values.to(device) for name, values in self._tokens.items()}

    def batch(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask``, int64 (B, longest), for (B,) text indices on
        the CPU.
        """
        # found on the CPU, so that the device is not synchronized
        longest = int(self.lengths[numbers].max())
        there = numbers.to(self._tokens["input_ids"].device, non_blocking=True)
        return {name: values[there, :longest].long() for name, values in self._tokens.items()}


class TowerTexts:
    """The texts as a trained tower takes them, prepared batch by batch; for arguments and errors
    see :func:`text_inputs`.
    """

    def __init__(
        self,
        networks: Networks,
        texts: Sequence[str],
        truncate: bool,
        device: torch.device,
        section: str,
    ):
        self._tower: Any = networks.model.text_encoder
        if not truncate:
            refuse_long_texts(
                self._tower,
                {**networks.settings, section: networks.settings["text_encoder"]},
                texts,
                section,
            )
        self._texts, self._device = texts, device
        self.lengths = torch.zeros(len(texts), dtype=torch.int64)

    def batch(self, numbers: Tensor) -> dict[str, Any]:
        """Return the tower's input for (B,) text indices on the CPU."""
        return {
            "batch": on_device(
                self._tower.prepare([self._texts[number] for number in numbers.tolist()]),
                self._device,
            )
        }


class TextVectors:
    """The stored vectors of texts; those of other texts, such as prompts, are computed. See
    :func:`text_inputs`.
    """

    def __init__(self, networks: Networks, texts: Sequence[str], device: torch.device):
        stored: Any = networks.frozen.texts
        rows = [networks.frozen.rows.get(text) for text in texts]
        values = _computed(networks, texts, stored.weights) if None in rows else stored.values[rows]
        self._values = torch.from_numpy(np.asarray(values)).to(device)
        self.lengths = torch.zeros(len(texts), dtype=torch.int64)

    def batch(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return stored vectors (B, D, 1, 1) for (B,) text indices on the CPU."""
        return {"batch": self._values[numbers.to(self._values.device)][:, 0].unsqueeze(2)}


def _computed(networks: Networks, texts: Sequence[str], weights: str) -> np.ndarray:
    settings = networks.settings
    if "path" in settings["text_encoder"]:  # of vectors
        problem = (
            f"text_encoder.path, {settings['text_encoder']['path']}, has vectors of the sentences"
            " of the data only"
        )
        raise UserError(
            f"{problem}, but an evaluation embeds others, such as prompts. Set that evaluation to"
            " null."
        )
    tower = rebuild_tower(settings, "text_encoder", weights)
    with torch.inference_mode():
        return text_vectors(tower, texts, torch.device("cpu"))
