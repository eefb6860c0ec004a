"""Texts as a side of pairs: tokens, a tower's prepared batches, or stored vectors."""

import json
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trueneg.data.pairs.training_split import PairData
from trueneg.data.texts.training_split import TextData
from trueneg.errors import UserError
from trueneg.models.image_text_encoders import Encoder
from trueneg.models.pairs import PairModel
from trueneg.models.text_encoders import tokenise
from trueneg.models.towers.tower import Embedded
from trueneg.runtime.precision import autocast
from trueneg.specs.sections import RunSettings
from trueneg.text.tokenizing import unexpressed
from trueneg.training.frozen import (
    Frozen,
    encoder_of,
    on_device,
    rebuild_tower,
    refuse_long_texts,
    text_vectors,
)
from trueneg.training.loop import TrainingRun
from trueneg.training.sides.base import Side, TrainingData, uses_released

log = logging.getLogger(__name__)

Inputs = Callable[[Tensor], dict[str, Any]]

# Entries of a finished run's file: JSON texts as bytes.
TOKENIZER = "text_encoder/tokenizer"
CONFIG = "text_encoder/config"


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
        super().__init__(settings, section, prefix, frozen.stored.get(section))
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

    def inputs(self, texts: Sequence[str], truncate: bool, device: torch.device) -> Inputs:
        """Return a function of (B,) text indices on the CPU that returns inputs of the encoder.

        Args:
            texts: the texts.
            truncate: truncate texts that are too long instead of raising an error.
            device: device of the inputs.

        Raises:
            UserError: if a text is too long and ``truncate`` is false, or a text without a stored
                vector cannot be embedded.
        """
        if self.stored is not None:
            values = torch.from_numpy(np.asarray(self._vectors(texts))).to(device)
            return lambda numbers: {"batch": values[numbers.to(device)][:, 0].unsqueeze(2)}
        if self.tokenizer is not None:
            return SentenceTokens(self.tokenizer, self.maximum_tokens, texts, truncate, device)
        if not truncate:
            refuse_long_texts(self.encoder, self.settings, texts, self.section)
        tower = self.encoder

        def prepared(numbers: Tensor) -> dict[str, Any]:
            chosen = [texts[number] for number in numbers.tolist()]
            return {"batch": on_device(tower.prepare(chosen), device)}

        return prepared

    def batches(
        self, rows: Sequence[Tensor], run: TrainingRun
    ) -> Generator[TextInputs, None, None]:
        for of_update in rows[run.update :]:
            numbers = self._text_of[run.processes.part(of_update)].flatten()
            yield TextInputs(numbers, self.texts(numbers))

    def embed(self, model: PairModel, inputs: TextInputs) -> Embedded:
        with autocast(self._device):
            return model.embed(self.prefix, **inputs.tokens)

    def _new(self, data: TrainingData) -> Encoder:
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
        stored: Any = self.stored
        rows: Any = [self._rows.get(text) for text in texts]
        if None not in rows:
            return stored.values[rows]
        if "path" in self.settings[self.section]:  # of vectors
            problem = (
                f"{self.section}.path, {self.settings[self.section]['path']}, has vectors of the"
                " sentences of the data only"
            )
            raise UserError(
                f"{problem}, but an evaluation embeds others, such as prompts. Set that evaluation"
                " to null."
            )
        tower = rebuild_tower(self.settings, self.section, stored.weights, stored.files)
        with torch.inference_mode():
            return text_vectors(tower, texts, torch.device("cpu"))


class SentenceTokens:
    """Returns the tokens of texts, given their indices.

    Attributes:
        lengths: (U,) number of tokens of each text, on the CPU.

    Raises:
        UserError: if a text is too long and may not be truncated.
    """

    def __init__(
        self,
        tokenizer: Any,
        maximum_tokens: Any,
        texts: Sequence[str],
        truncate: bool,
        device: torch.device,
    ):
        tokens = tokenise(tokenizer, texts, maximum_tokens=maximum_tokens, truncate=truncate)
        if problem := unexpressed(texts, tokenizer, maximum_tokens):
            log.warning("texts of the images: %s", problem)
        self.lengths = tokens["attention_mask"].sum(1)
        self._tokens = {
            "input_ids": tokens["input_ids"].int().to(device),
            "attention_mask": tokens["attention_mask"].bool().to(device),
        }

    def __call__(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``attention_mask``, int64 (B, longest)."""
        # found on the CPU, so that the device is not synchronized
        longest = int(self.lengths[numbers].max())
        there = numbers.to(self._tokens["input_ids"].device, non_blocking=True)
        return {name: values[there, :longest].long() for name, values in self._tokens.items()}
