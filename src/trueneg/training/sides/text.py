"""Texts as a side of pairs: tokens, a tower's prepared batches, or stored vectors."""

import json
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trueneg.config.runs import RunSettings
from trueneg.data.pairs.training_split import PairData
from trueneg.data.texts.training_split import TextData
from trueneg.errors import UserError
from trueneg.models.image_text_encoders import Encoder
from trueneg.models.pairs import PairModel
from trueneg.models.text_encoders import tokenise
from trueneg.models.towers.tower import Embedded
from trueneg.runtime.distributed import Processes
from trueneg.runtime.precision import autocast
from trueneg.text.tokenizing import unexpressed
from trueneg.training.frozen import (
    Frozen,
    encoder_of,
    on_device,
    rebuild_tower,
    refuse_long_texts,
    text_vectors,
)
from trueneg.training.sides.base import Side, TrainedOn, uses_released

log = logging.getLogger(__name__)

# Entries of a finished run's file: JSON texts as bytes.
TOKENIZER, CONFIG = "text_encoder/tokenizer", "text_encoder/config"


class TextInputs(NamedTuple):
    """Inputs of the encoder for B texts, whose numbers among the distinct texts are on the CPU."""

    numbers: Tensor
    tokens: dict[str, Any]


class TextSide(Side):
    """Texts.

    Attributes:
        tokenizer: tokenizer of the encoder; None: it is a tower, which has its own.
        maximum_tokens: maximum text length in tokens; None: no limit.
        texts: inputs of the distinct training texts.
    """

    modality = "text"
    tokenizer: Any = None

    def __init__(self, settings: RunSettings, section: str, prefix: str, frozen: Frozen):
        super().__init__(settings, section, prefix, frozen.of_texts[section])
        self._rows = frozen.rows

    @property
    def maximum_tokens(self) -> int | None:
        longest = self.encoder.maximum_tokens
        wanted = self.settings[self.section].get("maximum_tokens")
        return min(wanted, longest) if wanted and longest else longest

    def entries(self) -> dict[str, Tensor]:
        if self.tokenizer is None:
            return super().entries()
        tokenizer = {
            "tokenizer": self.tokenizer.backend_tokenizer.to_str(),
            "special": dict(self.tokenizer.special_tokens_map),
        }
        contents = {TOKENIZER: tokenizer, CONFIG: self.encoder.bert.config.to_dict()}
        return {
            name: torch.frombuffer(bytearray(json.dumps(content).encode()), dtype=torch.uint8)
            for name, content in contents.items()
        }

    def prepare(self, data: PairData | TextData, device: torch.device) -> None:
        truncate = self.settings[self.section].get("truncate", True)
        self.texts = self.inputs(data.texts, truncate, device)
        self._text_of = data.text_numbers
        self._device = device

    def inputs(self, texts: Sequence[str], truncate: bool, device: torch.device) -> "Texts":
        """Return the inputs of the encoder for U texts.

        Args:
            texts: U texts.
            truncate: truncate texts that are too long instead of raising an error.
            device: device of the inputs.

        Raises:
            UserError: if a text is too long and ``truncate`` is false, or a text without a stored
                vector cannot be embedded.
        """
        if self.stored is not None:
            return TextVectors(self._vectors(texts), device)
        if self.tokenizer is not None:
            return SentenceTokens(self.tokenizer, self.maximum_tokens, texts, truncate, device)
        if not truncate:
            refuse_long_texts(self.encoder, self.settings, texts, self.section)
        return TowerTexts(self.encoder, texts, device)

    def batches(
        self,
        rows: Sequence[Tensor],
        first: int,
        processes: Processes,
        generator: Callable[[str], torch.Generator],
    ) -> Generator[TextInputs, None, None]:
        for of_update in rows[first:]:
            numbers = self._text_of[processes.part(of_update)].flatten()
            yield TextInputs(numbers, self.texts.batch(numbers))

    def embed(self, model: PairModel, inputs: TextInputs) -> Embedded:
        with autocast(self._device):
            return model.embed(self.prefix, **inputs.tokens)

    def _new(self, data: TrainedOn) -> Encoder:
        implementation = encoder_of(self.settings, self.section)
        encoder, self.tokenizer = implementation.build(self.settings[self.section], data.sentences)
        return encoder

    def _restored(self, tensors: dict[str, Tensor]) -> Encoder:
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast

        described, config = (
            json.loads(bytes(tensors.pop(name).numpy())) for name in (TOKENIZER, CONFIG)
        )
        backend = Tokenizer.from_str(described["tokenizer"])
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **described["special"])
        implementation = encoder_of(self.settings, self.section)
        return implementation.restore(
            self.settings[self.section], config, tensors, uses_released(self.settings)
        )

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the stored vectors of texts; if others are among them, such as prompts, all are
        computed.
        """
        assert self.stored is not None
        rows = [self._rows.get(text) for text in texts]
        if None not in rows:
            return self.stored.values[rows]
        if "path" in self.settings[self.section]:  # of vectors
            problem = (
                f"{self.section}.path, {self.settings[self.section]['path']}, has vectors of the"
                " sentences of the data only"
            )
            raise UserError(
                f"{problem}, but an evaluation embeds others, such as prompts. Set that evaluation"
                " to null."
            )
        tower = rebuild_tower(self.settings, self.section, self.stored.weights)
        with torch.inference_mode():
            return text_vectors(tower, texts, torch.device("cpu"))


class SentenceTokens:
    """The tokens of U texts.

    Attributes:
        lengths: (U,) number of tokens of each text, on the CPU.

    Raises:
        UserError: if a text is too long and may not be truncated.
    """

    def __init__(
        self,
        tokenizer: Any,
        maximum_tokens: int | None,
        texts: Sequence[str],
        truncate: bool,
        device: torch.device,
    ):
        assert maximum_tokens is not None
        tokens = tokenise(tokenizer, texts, maximum_tokens=maximum_tokens, truncate=truncate)
        if problem := unexpressed(texts, tokenizer, maximum_tokens):
            log.warning("texts of the images: %s", problem)
        self.lengths = tokens["attention_mask"].sum(1)
        self._tokens = {
            "input_ids": tokens["input_ids"].int().to(device),
            "attention_mask": tokens["attention_mask"].bool().to(device),
        }

    def batch(self, numbers: Tensor) -> dict[str, Any]:
        """Return ``input_ids`` and ``attention_mask``, int64 (B, longest), for (B,) text indices on
        the CPU.
        """
        # found on the CPU, so that the device is not synchronized
        longest = int(self.lengths[numbers].max())
        there = numbers.to(self._tokens["input_ids"].device, non_blocking=True)
        return {name: values[there, :longest].long() for name, values in self._tokens.items()}


class TowerTexts:
    """The texts as a trained tower takes them, prepared batch by batch."""

    def __init__(self, tower: Any, texts: Sequence[str], device: torch.device):
        self._tower, self._texts, self._device = tower, texts, device

    def batch(self, numbers: Tensor) -> dict[str, Any]:
        """Return the tower's input for (B,) text indices on the CPU."""
        texts = [self._texts[number] for number in numbers.tolist()]
        return {"batch": on_device(self._tower.prepare(texts), self._device)}


class TextVectors:
    """The vectors (U, 1, D, 1) of texts."""

    def __init__(self, vectors: np.ndarray, device: torch.device):
        self._values = torch.from_numpy(np.asarray(vectors)).to(device)

    def batch(self, numbers: Tensor) -> dict[str, Any]:
        """Return stored vectors (B, D, 1, 1) for (B,) text indices on the CPU."""
        return {"batch": self._values[numbers.to(self._values.device)][:, 0].unsqueeze(2)}


Texts = SentenceTokens | TowerTexts | TextVectors
