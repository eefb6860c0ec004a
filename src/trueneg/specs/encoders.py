"""Settings of image and sentence encoders."""

import itertools
from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, model_validator

from trueneg.specs.settings import Boolean, Count, CountFromZero, PathText, Settings, Share, Sweepable, technical, values_of

BY_NAME = Discriminator("name")


class CifarResNetSettings(Settings):
    """The CIFAR variant of ResNet, with a 3×3 stem and no max-pooling; ResNet-50 uses bottleneck blocks."""

    name: Literal["resnet18", "resnet50"]


class SmallResNetSettings(Settings):
    """A ResNet with three stages of one basic block each, for digits and for CIFAR on small machines."""

    name: Literal["small_resnet"]
    width: Sweepable[Count] = Field(16, description="channels of the first stage; the next stages have 2 and 4 times as many")


ImageEncoder = Annotated[CifarResNetSettings | SmallResNetSettings, BY_NAME]


class SmallEncoderSettings(Settings):
    """A ResNet with a stem of stride 2 and three basic blocks, for small greyscale images on a CPU."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:NewImages"

    name: Literal["small"]
    width: Sweepable[Count] = Field(16, description="channels of the first block; the next blocks have 2 and 4 times as many")


class ResNetSettings(Settings):
    """torchvision's ResNet without global pooling; it returns a spatial feature map."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:NewImages"

    name: Literal["resnet18", "resnet50"]
    weights: str | None = Field(None, description="name of torchvision weights, or a file; none: random initialisation")


class ClipEncoderSettings(Settings):
    """The ResNet of an open_clip CLIP model (extra: clip), with a spatial feature map and CLIP's image normalisation."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:ClipImages"

    name: Literal["clip"]
    model: str = Field("RN50-quickgelu", description="open_clip name of a CLIP model with a ResNet, or a JSON configuration file")
    weights: str | None = Field(None, description="open_clip tag, such as openai, or a weights file; none: random initialisation")


class BiovilEncoderSettings(Settings):
    """BioViL's ResNet from a file in the layout of hi-ml-multimodal, with its projection; pixel values are not normalised."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:BiovilImages"

    name: Literal["biovil"]
    weights: PathText = Field(description="the released image model, converted as in docs/released-networks.md")


SpatialEncoder = Annotated[SmallEncoderSettings | ResNetSettings | ClipEncoderSettings | BiovilEncoderSettings, BY_NAME]


class TextEncoderSettings(Settings):
    """Settings shared by text encoders."""

    pooling: Sweepable[Literal["cls", "mean", "max"]] = Field(
        "cls", description="cls: first token; mean, max: all tokens (ConVIRT: max)"
    )
    truncate: Boolean = Field(False, description="truncate sentences longer than maximum_tokens, which are otherwise an error")


class SmallTextEncoderSettings(TextEncoderSettings):
    """A small BERT trained from scratch, with a vocabulary built from the training sentences."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:SmallTexts"

    name: Literal["small"]
    hidden: Sweepable[Count] = Field(128, description="size of the hidden states")
    layers: Sweepable[Count] = Field(2, description="number of transformer layers")
    heads: Sweepable[Count] = Field(4, description="number of attention heads; must divide `hidden`")
    dropout: Sweepable[Share] = Field(0.1, description="dropout probability of hidden states and attention")
    vocabulary: Sweepable[Count] = Field(2000, description="maximum number of tokens in the vocabulary")
    maximum_tokens: Count = Field(128, description="maximum length of a sentence, in tokens")

    @model_validator(mode="after")
    def _heads_divide(self):
        for hidden, heads in itertools.product(values_of(self.hidden), values_of(self.heads)):
            if hidden % heads:
                raise ValueError(f".heads is {heads}; expected a divisor of hidden, {hidden}")
        return self


class PretrainedTextEncoderSettings(TextEncoderSettings):
    """A pretrained BERT, from a folder written by ``save_pretrained`` or from the Hugging Face Hub."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:PretrainedTexts"

    name: Literal["pretrained"]
    model: PathText = Field(description="folder, or model name on the hub, such as emilyalsentzer/Bio_ClinicalBERT")
    revision: str | None = Field(None, description="branch, tag or commit on the hub; a commit makes a study reproducible")
    offline: Boolean = technical(False, "use only the local cache, never the network")
    frozen_layers: Sweepable[CountFromZero] | None = Field(None, description="freeze embeddings and the first n layers (ReCo: 6)")
    maximum_tokens: Count | None = Field(None, description="maximum length of a sentence, in tokens; none: the model's limit")
    projection: PathText | None = Field(
        None, description="CXR-BERT's projection head, converted by trueneg convert; required for released projections"
    )


class ClipTextEncoderSettings(ClipEncoderSettings):
    """The text transformer of an open_clip CLIP model (extra: clip), with its own tokenizer."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:ClipTexts"

    truncate: Boolean = Field(False, description="truncate sentences longer than maximum_tokens, which are otherwise an error")
    maximum_tokens: Count | None = Field(None, description="maximum length of a sentence, in tokens; none: the model's limit, 77")


AnyTextEncoder = Annotated[SmallTextEncoderSettings | PretrainedTextEncoderSettings | ClipTextEncoderSettings, BY_NAME]
