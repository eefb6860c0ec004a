"""Settings of image and sentence encoders."""

import itertools
from typing import Annotated, Literal

from pydantic import Discriminator, Field, model_validator

from trueneg.specs.settings import Boolean, Count, CountFromZero, PathText, Settings, Share, Sweepable, technical, values_of


class CifarResNetSettings(Settings):
    """The CIFAR variant of ResNet: 3×3 stem, no max-pooling; ResNet-50 has bottleneck blocks."""

    name: Literal["resnet18", "resnet50"]


class SmallResNetSettings(Settings):
    """Three stages of one basic block each, for digits and for CIFAR on small machines."""

    name: Literal["small_resnet"]
    width: Sweepable[Count] = Field(16, description="channels of the first stage; the others have 2 and 4 times as many")


ImageEncoder = Annotated[CifarResNetSettings | SmallResNetSettings, Discriminator("name")]


class SmallEncoderSettings(Settings):
    """A stem of stride 2 and three basic blocks, for small grey images on a CPU."""

    name: Literal["small"]
    width: Sweepable[Count] = Field(16, description="channels of the first block; the others have 2 and 4 times as many")


class ResNetSettings(Settings):
    """torchvision's ResNet without global pooling, so that the spatial feature map is kept."""

    name: Literal["resnet18", "resnet50"]
    weights: str | None = Field(None, description="torchvision's name of trained weights, or a file; none: from scratch")


class ClipEncoderSettings(Settings):
    """The ResNet of a CLIP model from open_clip (extra: clip); keeps the spatial map and CLIP's image normalisation."""

    name: Literal["clip"]
    model: str = Field("RN50-quickgelu", description="open_clip's name of a CLIP with a ResNet, or its JSON configuration")
    weights: str | None = Field(None, description="open_clip's tag of trained weights, as openai, or a file; none: from scratch")


SpatialEncoder = Annotated[SmallEncoderSettings | ResNetSettings | ClipEncoderSettings, Discriminator("name")]


class TextEncoderSettings(Settings):
    """Settings shared by text encoders."""

    pooling: Sweepable[Literal["cls", "mean"]] = Field("cls", description="cls: the first token's vector; mean: of all tokens")
    truncate: Boolean = Field(False, description="truncate longer sentences instead of refusing them")


class SmallTextEncoderSettings(TextEncoderSettings):
    """A BERT trained from scratch, with a vocabulary built from the training sentences."""

    name: Literal["small"]
    hidden: Sweepable[Count] = Field(128, description="size of a token's vector")
    layers: Sweepable[Count] = Field(2, description="transformer layers")
    heads: Sweepable[Count] = Field(4, description="of attention; they divide `hidden`")
    dropout: Sweepable[Share] = Field(0.1, description="of hidden states and attention")
    vocabulary: Sweepable[Count] = Field(2000, description="tokens, at most")
    maximum_tokens: Count = Field(128, description="longest sentence")

    @model_validator(mode="after")
    def _heads_divide(self):
        for hidden, heads in itertools.product(values_of(self.hidden), values_of(self.heads)):
            if hidden % heads:
                raise ValueError(f".heads is {heads}, expected a divisor of hidden, {hidden}")
        return self


class PretrainedTextEncoderSettings(TextEncoderSettings):
    """A pretrained BERT: a folder written by ``save_pretrained``, or a hub name."""

    name: Literal["pretrained"]
    model: PathText = Field(description="folder, or name on the hub, such as emilyalsentzer/Bio_ClinicalBERT")
    revision: str | None = Field(None, description="branch, tag or commit on the hub; a commit makes a study repeatable")
    offline: Boolean = technical(False, "look in the local cache only, never on the network")
    frozen_layers: Sweepable[CountFromZero] | None = Field(
        None, description="n: the embedding and the first n layers are frozen (ReCo: 6)"
    )
    maximum_tokens: Count | None = Field(None, description="longest sentence; none: what the model allows")


class ClipTextEncoderSettings(Settings):
    """The text transformer of a CLIP model with its own tokenizer, from open_clip (extra: clip)."""

    name: Literal["clip"]
    model: str = Field("RN50-quickgelu", description="as for the encoder clip")
    weights: str | None = Field(None, description="as for the encoder clip")
    truncate: Boolean = Field(False, description="truncate longer sentences instead of refusing them")
    maximum_tokens: Count | None = Field(None, description="longest sentence; none: what the model allows, 77")


AnyTextEncoder = Annotated[
    SmallTextEncoderSettings | PretrainedTextEncoderSettings | ClipTextEncoderSettings, Discriminator("name")
]
