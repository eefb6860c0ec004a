"""Encoders of image–text networks that are not towers: how each is built for a new run, and
restored from a finished run's file.

Images and texts have the same interface: ``build`` draws weights from torch's RNG or loads them,
and ``restore`` only needs the shapes, because the weights are loaded afterwards.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from trueneg.errors import UserError
from trueneg.models.biovil import (
    image_model,
    load_image_model,
    load_text_projection,
    text_projection,
)
from trueneg.models.spatial_encoders import build_spatial_encoder
from trueneg.models.text_encoders import BertTextEncoder, load_bert, small_bert
from trueneg.text.tokenizing import train_tokenizer

if TYPE_CHECKING:
    from transformers import BertModel

Settings = Mapping[str, Any]  # of the encoder


class Encoder(NamedTuple):
    """An encoder.

    Attributes:
        network: the encoder itself, without a projection.
        projection: the projection into the shared space that was released with it; None if there is
            none.
        logit_scale: the logit scale that was released with it; None if there is none.
    """

    network: Any
    projection: Any = None
    logit_scale: float | None = None


class NewImages:
    """ResNets, from scratch or with torchvision's weights.

    Attributes:
        normalises: whether the network, and not the augmentation, normalises images.
    """

    normalises = False

    @staticmethod
    def build(settings: Settings, channels: int) -> Encoder:
        return Encoder(build_spatial_encoder(**settings, in_channels=channels))

    @classmethod
    def restore(cls, settings: Settings, channels: int, tensors: dict[str, Tensor]) -> Encoder:
        # Pretrained weights would be overwritten immediately, so do not load them.
        return cls.build(
            {key: value for key, value in settings.items() if key != "weights"}, channels
        )


class BiovilImages:
    """BioViL's image encoder, which takes pixel values that are not normalised."""

    normalises = True

    @staticmethod
    def build(settings: Settings, channels: int) -> Encoder:
        return Encoder(*load_image_model(settings["weights"]))

    @staticmethod
    def restore(settings: Settings, channels: int, tensors: dict[str, Tensor]) -> Encoder:
        return Encoder(*image_model(tensors, "image_encoder.", "image_projection."))


class PretrainedTexts:
    """A pretrained BERT."""

    @staticmethod
    def build(settings: Settings, sentences: Sequence[str]) -> tuple[Encoder, Any]:
        bert, tokenizer = load_bert(
            settings["model"], revision=settings["revision"], offline=settings["offline"]
        )
        head = settings.get("projection")
        projection = None if head is None else load_text_projection(head, bert.config.hidden_size)
        return Encoder(_with_pooling(bert, settings), projection), tokenizer

    @staticmethod
    def restore(
        settings: Settings, config: Any, tensors: Mapping[str, Tensor], with_projection: bool
    ) -> Encoder:
        from transformers import BertConfig, BertModel

        bert = BertModel(BertConfig.from_dict(config), add_pooling_layer=False)
        projection = (
            text_projection(tensors, "text_projection.", bert.config.hidden_size)
            if with_projection
            else None
        )
        return Encoder(_with_pooling(bert, settings), projection)


class SmallTexts(PretrainedTexts):
    """A small BERT with a vocabulary built from the training sentences."""

    @staticmethod
    def build(settings: Settings, sentences: Sequence[str]) -> tuple[Encoder, Any]:
        try:
            tokenizer = train_tokenizer(
                sentences, settings["vocabulary"], settings["maximum_tokens"]
            )
        except ValueError as error:
            raise UserError(f"text_encoder.{error}") from error
        shape = {
            key: settings[key] for key in ("hidden", "layers", "heads", "maximum_tokens", "dropout")
        }
        return Encoder(_with_pooling(small_bert(len(tokenizer), **shape), settings)), tokenizer


def _with_pooling(bert: "BertModel", settings: Settings) -> BertTextEncoder:
    try:
        return BertTextEncoder(bert, settings["pooling"], settings.get("frozen_layers"))
    except ValueError as error:
        raise UserError(f"text_encoder.{error}") from error
