"""Settings of image and text encoders: networks trained from scratch, released ones, and towers of
other libraries.
"""

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Discriminator, Tag, model_validator

from trueneg.specs.sections import Section
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    CountFromZero,
    PathText,
    Settings,
    Share,
    Sweepable,
    Technical,
    tag_of,
    values_of,
)

BY_NAME = Discriminator("name")
FROZEN = "none"  # value of `train` of a tower that is computed once


class LastBlocks(Settings):
    """The last blocks of a network, and what follows them."""

    last: Count
    """number of blocks, as the network's library lists them"""


Trained = Annotated[
    Annotated[Literal["all", "none"], Tag("name")] | Annotated[LastBlocks, Tag("blocks")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "blocks"),
]


def is_frozen(encoder: Section) -> bool:
    """Return whether an encoder, as plain settings, is computed once for all runs."""
    return encoder.get("train") == FROZEN


def one_network(first: Any, second: Any) -> bool:
    """Return whether two towers, as written in the settings, are one network with pretrained
    weights.
    """
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return False
    same = all(
        first.get(key) == second.get(key)
        for key in ("name", "model", "weights", "revision", "path", "column")
    )
    return same and "none" not in values_of(first.get("weights"))


class TowerSettings(Settings):
    """Settings shared by networks of other libraries (extra: towers).

    Attributes:
        IMPLEMENTATION: module and class of the tower, which is built from its settings.
    """

    IMPLEMENTATION: ClassVar[str]

    train: Trained = "all"
    """all, none (the tower is computed once), or {last: n}: the last n blocks"""


class ImageTowerSettings(TowerSettings):
    """Settings shared by image towers."""

    resolution: Sweepable[Count] | None = None
    """side of the network's input; none: its library's default"""
    views: AtLeastTwo | None = None
    """number of augmented versions of each image for a tower with train: none; none: only the image
    itself
    """

    @model_validator(mode="after")
    def _only_frozen_has_views(self):
        if self.views is not None and self.train != FROZEN:
            raise ValueError(
                f".views is {self.views}, but train is {self.train}; expected train: none, or no"
                " views"
            )
        return self


class TimmSettings(ImageTowerSettings):
    """Any image network of timm, with its own pooling; regions are the cells of its last feature
    map, or its patch tokens.
    """

    IMPLEMENTATION = "trueneg.models.towers.timm_tower:TimmTower"

    name: Literal["timm"]
    model: Sweepable[str]
    """timm's name, such as vit_small_patch16_224 or tf_efficientnet_lite0"""
    weights: Sweepable[PathText] = "pretrained"
    """pretrained: from an installed package or timm's hub; none: random; or a file of weights"""


class OpenClipSettings(Settings):
    """Settings of both towers of an open_clip model."""

    model: Sweepable[PathText]
    """open_clip's name, such as ViT-B-32, or a JSON configuration file"""
    weights: Sweepable[PathText]
    """open_clip's tag, such as openai, or a file of weights; none: random"""


class OpenClipImageSettings(OpenClipSettings, ImageTowerSettings):
    """The image tower of any open_clip model, with its projection into the space that it shares
    with texts.
    """

    IMPLEMENTATION = "trueneg.models.towers.open_clip_towers:OpenClipImages"

    name: Literal["open_clip"]


class VectorSettings(TowerSettings):
    """No network: one vector per image or per sentence, in the order of the source, from a file."""

    name: Literal["vectors"]
    path: Technical[PathText]
    """a .npy, .safetensors or .parquet file"""
    column: Technical[str | None] = None
    """column of a parquet file, or tensor of a .safetensors file; none: the only one"""
    train: Literal["none"] = "none"
    """none: vectors are not trained"""


class CifarResNetSettings(Settings):
    """The CIFAR variant of ResNet, with a 3×3 stem and no max-pooling; ResNet-50 uses bottleneck
    blocks.
    """

    name: Literal["resnet18", "resnet50"]


class SmallResNetSettings(Settings):
    """A ResNet with three stages of one basic block each, for digits and for CIFAR on small
    machines.
    """

    name: Literal["small_resnet"]
    width: Sweepable[Count] = 16
    """channels of the first stage; the next stages have 2 and 4 times as many"""


ImageTower = TimmSettings | OpenClipImageSettings | VectorSettings
ImageEncoder = Annotated[CifarResNetSettings | SmallResNetSettings | ImageTower, BY_NAME]
IMAGE_TOWERS = frozenset(name for tower in get_args(ImageTower) for name in tag_of(tower)[1])


class SmallEncoderSettings(Settings):
    """A ResNet with a stem of stride 2 and three basic blocks, for small greyscale images on a
    CPU.
    """

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:NewImages"

    name: Literal["small"]
    width: Sweepable[Count] = 16
    """channels of the first block; the next blocks have 2 and 4 times as many"""


class ResNetSettings(Settings):
    """torchvision's ResNet without global pooling; it returns a spatial feature map."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:NewImages"

    name: Literal["resnet18", "resnet50"]
    weights: str | None = None
    """name of torchvision weights, or a file; none: random initialisation"""


class BiovilEncoderSettings(Settings):
    """BioViL's ResNet from a file in the layout of hi-ml-multimodal, with its projection; pixel
    values are not normalised.
    """

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:BiovilImages"

    name: Literal["biovil"]
    weights: PathText
    """the released image model, converted as in docs/encoders.md"""


SpatialEncoder = Annotated[
    SmallEncoderSettings
    | ResNetSettings
    | BiovilEncoderSettings
    | TimmSettings
    | OpenClipImageSettings
    | VectorSettings,
    BY_NAME,
]


class TextEncoderSettings(Settings):
    """Settings shared by text encoders."""

    pooling: Sweepable[Literal["cls", "mean", "max"]] = "cls"
    """cls: first token; mean, max: all tokens (ConVIRT: max)"""
    truncate: Boolean = False
    """truncate sentences longer than maximum_tokens, which are otherwise an error"""


class SmallTextEncoderSettings(TextEncoderSettings):
    """A small BERT trained from scratch, with a vocabulary built from the training sentences."""

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:SmallTexts"

    name: Literal["small"]
    hidden: Sweepable[Count] = 128
    """size of the hidden states"""
    layers: Sweepable[Count] = 2
    """number of transformer layers"""
    heads: Sweepable[Count] = 4
    """number of attention heads; must divide `hidden`"""
    dropout: Sweepable[Share] = 0.1
    """dropout probability of hidden states and attention"""
    vocabulary: Sweepable[Count] = 2000
    """maximum number of tokens in the vocabulary"""
    maximum_tokens: Count = 128
    """maximum length of a sentence, in tokens"""

    @model_validator(mode="after")
    def _heads_divide(self):
        for hidden, heads in itertools.product(values_of(self.hidden), values_of(self.heads)):
            if hidden % heads:
                raise ValueError(f".heads is {heads}; expected a divisor of hidden, {hidden}")
        return self


class PretrainedTextEncoderSettings(TextEncoderSettings):
    """A pretrained BERT, from a folder written by ``save_pretrained`` or from the Hugging Face
    Hub.
    """

    IMPLEMENTATION: ClassVar[str] = "trueneg.models.image_text_encoders:PretrainedTexts"

    name: Literal["pretrained"]
    model: PathText
    """folder, or model name on the hub, such as emilyalsentzer/Bio_ClinicalBERT"""
    revision: str | None = None
    """branch, tag or commit on the hub; a commit makes a study reproducible"""
    offline: Technical[Boolean] = False
    """use only the local cache, never the network"""
    frozen_layers: Sweepable[CountFromZero] | None = None
    """freeze embeddings and the first n layers (ReCo: 6)"""
    maximum_tokens: Count | None = None
    """maximum length of a sentence, in tokens; none: the model's limit"""
    projection: PathText | None = None
    """CXR-BERT's projection head, converted by trueneg convert; required
    for released projections
    """


class TextTowerSettings(TowerSettings):
    """Settings shared by text towers."""

    truncate: Boolean = False
    """truncate texts longer than maximum_tokens, which are otherwise an error"""
    maximum_tokens: Count | None = None
    """maximum length of a text, in tokens; none: the model's limit"""


class OpenClipTextSettings(OpenClipSettings, TextTowerSettings):
    """The text tower of any open_clip model, with its own tokenizer and its projection into the
    space shared with images.
    """

    IMPLEMENTATION = "trueneg.models.towers.open_clip_towers:OpenClipTexts"

    name: Literal["open_clip"]


class SentenceTransformerSettings(TextTowerSettings):
    """Any text encoder that sentence-transformers loads without running a model's code, such as
    MiniLM, MPNet or ModernBERT.
    """

    IMPLEMENTATION = "trueneg.models.towers.sentence_transformers_tower:SentenceTransformerTower"

    name: Literal["sentence_transformers"]
    model: Sweepable[PathText]
    """folder, or name on the hub, such as all-MiniLM-L6-v2 (extra: pretrained)"""
    revision: str | None = None
    """branch, tag or commit on the hub; a commit makes a study reproducible"""
    offline: Technical[Boolean] = False
    """use only the local cache, never the network"""


TextTower = OpenClipTextSettings | SentenceTransformerSettings | VectorSettings
AnyTextEncoder = Annotated[
    SmallTextEncoderSettings | PretrainedTextEncoderSettings | TextTower, BY_NAME
]
